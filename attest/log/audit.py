"""Reading a stored log as a sceptic: every leaf is hashed again, every tile and checkpoint compared with the result.

This is what start-up runs before anything may be signed, and what ``forensics log audit`` runs for anyone who has the
data. It trusts nothing but the log's public key.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Iterator

from .errors import LogTampered, NoteInvalid
from .merkle import EMPTY_ROOT, hash_leaf
from .note import NoteKey, open_checkpoint
from .storage import Leaf, LogReader, StoredCheckpoint
from .tiles import Edge, StoredTile

BATCH = 4096  # leaves read at once


def audit(reader: LogReader, key: NoteKey) -> Edge:
    """Recompute the tree from the bodies of its leaves and compare everything that is stored with it.

    Returns:
        The edge of the tree, ready to be appended to.

    Raises:
        LogTampered: A leaf, tile or checkpoint is missing, changed, invented, or promises more than is there.
    """
    signed = _by_size(reader.checkpoints(), key)
    edge, tiles = Edge(), 0
    _check_roots(signed.pop(0, []), EMPTY_ROOT)
    for leaf in check_leaves(reader, 0, reader.size()):
        for tile in edge.append(leaf.leaf_hash):
            _check_tile(tile, reader)
            tiles += 1
        if edge.size in signed:
            _check_roots(signed.pop(edge.size), edge.root())
    if reader.tile_count() != tiles:
        raise LogTampered("tiles of leaves that are not there", got=reader.tile_count(), expected=tiles)
    if signed:
        raise LogTampered(
            "a signed checkpoint promises leaves that are not there",
            got=f"{edge.size} leaves",
            expected=f"{max(signed)} leaves",
            remedy="Restore the database from its newest backup; do not let it sign.",
        )
    return edge


def check_leaves(reader: LogReader, start: int, stop: int) -> Iterator[Leaf]:
    """Leaves ``start`` to ``stop``, each checked against its own hash and number.

    Raises:
        LogTampered: One is missing or changed.
    """
    expected = start
    for begin in range(start, stop, BATCH):
        for leaf in reader.leaves(begin, min(begin + BATCH, stop)):
            if leaf.index != expected:
                raise LogTampered("a leaf is missing", where=f"leaf {expected}", got=f"leaf {leaf.index}")
            if not hmac.compare_digest(hash_leaf(leaf.body), leaf.leaf_hash):
                raise LogTampered("leaf is not what was appended", where=f"leaf {leaf.index}")
            expected += 1
            yield leaf
    if expected != stop:
        raise LogTampered("leaves are missing", got=expected, expected=stop)


def _by_size(checkpoints: Iterable[StoredCheckpoint], key: NoteKey) -> dict[int, list[StoredCheckpoint]]:
    found: dict[int, list[StoredCheckpoint]] = {}
    for stored in checkpoints:
        where = f"checkpoint of {stored.size} leaves"
        try:
            tree = open_checkpoint(stored.note, log=key).checkpoint
        except NoteInvalid as error:
            raise LogTampered(f"stored checkpoint cannot be trusted: {error}", where=where) from None
        if (tree.size, tree.root) != (stored.size, stored.root):
            raise LogTampered("stored checkpoint and its columns differ", where=where)
        found.setdefault(stored.size, []).append(stored)
    return found


def _check_roots(checkpoints: Iterable[StoredCheckpoint], root: bytes) -> None:
    for stored in checkpoints:
        if not hmac.compare_digest(stored.root, root):
            raise LogTampered(
                "the tree is not the one that was signed",
                where=f"checkpoint of {stored.size} leaves",
                got=root.hex(),
                expected=stored.root.hex(),
                remedy="Restore the database from a backup taken before it was changed; do not let it sign.",
            )


def _check_tile(tile: StoredTile, reader: LogReader) -> None:
    level, index, hashes, root = tile
    if reader.tile(level, index) != hashes or list(reader.tile_roots(level, index, index + 1)) != [root]:
        raise LogTampered("tile is missing, or is not that of its leaves", where=f"tile {level}/{index}")
