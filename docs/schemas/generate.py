"""Writes the published JSON schemas from the records themselves; ``--check`` says whether they are current."""

from __future__ import annotations

import sys
from pathlib import Path

from attest.schemas import published

FOLDER = Path(__file__).parent


def main() -> int:
    """Write the schemas, or with ``--check`` compare them; 1 when one is not current or should not be there."""
    now = published()
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
