// CPython compiled to WebAssembly (npm package pyodide) runs stream.py: node pyodide.mjs PYODIDE-FOLDER REPOSITORY
const [folder, root] = process.argv.slice(2);
const { loadPyodide } = await import(`${folder}/pyodide.mjs`);
const python = await loadPyodide();
python.FS.mkdir("/repository");
python.FS.mount(python.FS.filesystems.NODEFS, { root }, "/repository");
console.log(python.runPython(`
import json, sys
sys.path.insert(0, "/repository")
from tests.attest.seeds.stream import digests
json.dumps(digests() | {"python": sys.version.split()[0], "platform": sys.platform})
`));
