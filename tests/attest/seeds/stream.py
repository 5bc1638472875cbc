"""10,000 item keys and 100,000 draws as digests; run by any interpreter, needs nothing but the repository."""

from __future__ import annotations

import json
import sys
from hashlib import sha256

from attest.seeds import derive
from attest.seeds.derive import Context
from attest.seeds.draw import Draw

COUNT = 10_000
ENVIRONMENTS = ("sat", "abduction", "deduction", "lists", "Übung")
BOUNDS = (2, 6, 10, 257, 65_537, 2**32, 2**32 + 1, 10**18, 2**64, 10**40)


def digests() -> dict[str, str]:
    """SHA-256 over all keys, and over what is drawn from each, as decimal text."""
    bound = Context(bytes(32), 120, "demo", 7, sha256(b"pool").digest(), sha256(b"code").digest(), 657413, 657513)
    seed = derive.final_seed(bound, bytes(range(32)), sha256(b"a beacon value").digest())
    keys, draws = sha256(), sha256()
    for index in range(COUNT):
        key = derive.item_key(seed, ENVIRONMENTS[index % len(ENVIRONMENTS)], index)
        keys.update(key)
        draw = Draw(key)
        drawn = [draw.below(bound_) for bound_ in BOUNDS] + draw.shuffle(range(5)) + [draw.fork("part").bits(77)]
        draws.update((" ".join(map(str, drawn)) + "\n").encode())
    return {"keys": keys.hexdigest(), "draws": draws.hexdigest()}


if __name__ == "__main__":
    json.dump(digests() | {"python": sys.version.split()[0], "platform": sys.platform}, sys.stdout)
