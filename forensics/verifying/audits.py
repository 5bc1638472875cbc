"""Somebody else's log, audited from its public tiles: every leaf is hashed again and must give the signed root."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterator

from attest.log.errors import LogTampered, ProofInvalid
from attest.log.merkle import Accumulator, hash_leaf, verify_consistency
from attest.log.note import Checkpoint
from attest.log.tiles import ENTRIES, WIDTH, Tile

Fetch = Callable[[str], bytes]
"""Fetches a tile by its path, ``tile/entries/000``."""


def leaves(tree: Checkpoint, fetch: Fetch) -> Iterator[bytes]:
    """Every leaf of a tree, from its entry bundles.

    Raises:
        ProofInvalid: A bundle does not hold what a bundle of its width must.
    """
    for index in range(-(-tree.size // WIDTH)):
        width = min(WIDTH, tree.size - index * WIDTH)
        path = Tile(ENTRIES, index, width).path
        yield from _entries(fetch(path), width, path)


def audit(tree: Checkpoint, fetch: Fetch, *, take: Callable[[int, bytes], None] = lambda _i, _b: None) -> None:
    """Recompute the root of a tree from its leaves.

    Args:
        tree: From a checkpoint whose signature was verified.
        fetch: Gets tiles.
        take: Shown every leaf with its number.

    Raises:
        LogTampered: The leaves are not those that were signed.
        ProofInvalid: A tile is malformed.
    """
    found = Accumulator()
    for number, body in enumerate(leaves(tree, fetch)):
        take(number, body)
        found.append(hash_leaf(body))
    if not hmac.compare_digest(found.root(), tree.root):
        raise LogTampered(
            "the leaves served are not those that were signed",
            where=tree.origin,
            got=found.root().hex(),
            expected=tree.root.hex(),
            remedy="Keep the checkpoint and the tiles: together they are evidence.",
        )


def compare(old: Checkpoint, new: Checkpoint, prove: Callable[[int, int], list[bytes]]) -> None:
    """Verify that one signed tree continues another.

    Args:
        old: From a verified checkpoint.
        new: From another verified checkpoint of the same log.
        prove: Gets the proof between two sizes.

    Raises:
        LogTampered: They are of two histories, both signed.
    """
    first, second = sorted((old, new), key=lambda tree: tree.size)
    if first.origin != second.origin:
        raise ProofInvalid("checkpoints of two logs", got=first.origin, expected=second.origin)
    if first.size == 0:
        return
    path = prove(first.size, second.size) if first.size != second.size else []
    try:
        verify_consistency(first.size, second.size, path, first.root, second.root)
    except ProofInvalid as error:
        raise LogTampered(
            f"two signed checkpoints are not of one history: {error.what}",
            where=first.origin,
            got=f"{first.size} leaves {first.root.hex()}",
            expected=f"a prefix of {second.size} leaves {second.root.hex()}",
            remedy="Keep both: signed by one key, they prove that the log was rewritten.",
        ) from None


def _entries(data: bytes, width: int, path: str) -> Iterator[bytes]:
    at = 0
    for _ in range(width):
        size = int.from_bytes(data[at : at + 2])
        body = data[at + 2 : at + 2 + size]
        if len(data) < at + 2 or len(body) != size:
            raise ProofInvalid("bundle of entries is too short", where=path, got=len(data))
        yield body
        at += 2 + size
    if at != len(data):
        raise ProofInvalid("bundle of entries is too long", where=path, got=len(data), expected=at)
