"""Writes the published JSON schemas from the records themselves; ``--check`` says whether they are current."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from attest.schemas import published
from attest.seeds.epoch_file import EpochFile
from attest.seeds.plan import Plan
from attest.statement import NAMESPACE
from forensics.chain.evidence import AnchorFile
from forensics.chain.recorded import Recording
from forensics.chain.recorded_subnet import SubnetRecording

FOLDER = Path(__file__).parent
FILES = {
    "anchor-v1": AnchorFile,
    "chain-recording-v1": Recording,
    "epoch-file-v1": EpochFile,
    "seed-plan-v1": Plan,
    "subnet-recording-v1": SubnetRecording,
}


def chain_files() -> dict[str, bytes]:
    """Schemas of the files that ``forensics.chain`` and ``forensics.epochs`` write."""
    head = "https://json-schema.org/draft/2020-12/schema"
    schemas = {
        name: {"$schema": head, "$id": f"{NAMESPACE}schema:{name}", **record.json_schema()}
        for name, record in FILES.items()
    }
    return {f"{name}.schema.json": (json.dumps(schema, indent=1) + "\n").encode() for name, schema in schemas.items()}


def main() -> int:
    """Write the schemas, or with ``--check`` compare them; 1 when one is not current or should not be there."""
    now = published() | chain_files()
    there = {path.name: path.read_bytes() for path in FOLDER.glob("*.schema.json")}
    if now == there:
        return 0
    stale = sorted(name for name in now.keys() | there.keys() if now.get(name) != there.get(name))
    if "--check" in sys.argv:
        print(f"docs/schemas is not current ({', '.join(stale)}); run `make docs` and commit it", file=sys.stderr)
        return 1
    for name in there.keys() - now.keys():
        (FOLDER / name).unlink()
    for name, content in now.items():
        (FOLDER / name).write_bytes(content)
    print(f"docs/schemas: wrote {', '.join(stale)}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
