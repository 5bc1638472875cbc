"""10,000 tasks as digests, 2,500 of each environment; run by any interpreter, needs nothing but the repository."""

from __future__ import annotations

import json
import sys
from hashlib import sha256

from attest.seeds.derive import item_key
from attest.seeds.tasks.registry import GENERATORS, make

COUNT = 2_500
SEED = sha256(b"golden tasks").digest()


def digests(count: int = COUNT) -> dict[str, str]:
    """SHA-256 over the digests of an environment's first tasks, levels as they are drawn."""
    found = {}
    for name in GENERATORS:
        whole = sha256()
        for index in range(count):
            whole.update(bytes.fromhex(make(name, item_key(SEED, name, index)).digest()))
        found[name] = whole.hexdigest()
    return found


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else COUNT
    json.dump(digests(count) | {"python": sys.version.split()[0], "platform": sys.platform}, sys.stdout)
