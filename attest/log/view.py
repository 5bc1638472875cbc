"""Reading a log and proving from it, which needs no private key and hashes nothing again.

What is read here is checked by whoever receives it: a proof either leads to the signed root or it does not. So a reader
starts at once, however long the log is; only who signs must first have recomputed the tree (``log.Log``).
"""

from __future__ import annotations

from .errors import ProofInvalid
from .merkle import hash_leaf, prove_consistency, prove_inclusion
from .note import NoteKey, SignedCheckpoint, open_checkpoint
from .proof import Receipt
from .storage import Evidence, Leaf, LogReader, LogStorage
from .tiles import Tile, TileNodes, entry_bundle, holds, read_tile


class LogView:
    """A log to read from. Safe with threads, and beside writers on the same storage.

    Args:
        storage: Where it is kept.
        key: The log's public key; its name is the log's origin.
    """

    def __init__(self, storage: LogStorage, key: NoteKey) -> None:
        self.key = key
        self._storage = storage

    def evidence(self) -> tuple[Evidence, ...]:
        """Why the log is frozen; empty when it is not."""
        with self._storage.reading() as reader:
            return reader.evidence()

    def size(self) -> int:
        """Number of committed leaves; checkpoints may lag behind."""
        with self._storage.reading() as reader:
            return reader.size()

    def latest(self) -> SignedCheckpoint | None:
        """The newest checkpoint that was given out."""
        with self._storage.reading() as reader:
            stored = reader.latest_checkpoint()
        return None if stored is None else open_checkpoint(stored.note, log=self.key)

    def signed_at(self, size: int) -> SignedCheckpoint | None:
        """The checkpoint of this size, with the cosignatures known by now; None when none was given out."""
        with self._storage.reading() as reader:
            stored = [checkpoint.note for checkpoint in reader.checkpoints() if checkpoint.size == size]
        return open_checkpoint(stored[-1], log=self.key) if stored else None

    def leaf(self, index: int) -> bytes:
        """The entry with this number.

        Raises:
            ProofInvalid: There is none.
        """
        with self._storage.reading() as reader:
            return _leaf(reader, index).body

    def find(self, body: bytes) -> int | None:
        """The number of an entry, or None when it is not in the log."""
        with self._storage.reading() as reader:
            return reader.find([hash_leaf(body)]).get(hash_leaf(body))

    def prove(self, index: int) -> Receipt:
        """The receipt of a leaf under the newest checkpoint.

        Raises:
            ProofInvalid: No checkpoint covers this leaf yet.
        """
        with self._storage.reading() as reader:
            latest = reader.latest_checkpoint()
            size = latest.size if latest else 0
            path = prove_inclusion(index, size, TileNodes(reader))
            leaf = _leaf(reader, index)
        assert latest is not None  # noqa: S101 - prove_inclusion refuses every index of an empty tree
        return Receipt(index, tuple(path), latest.note, leaf.body)

    def prove_consistency(self, old: int, new: int) -> list[bytes]:
        """The proof that the tree at ``old`` leaves is a prefix of the tree at ``new``.

        Raises:
            ProofInvalid: The sizes are out of order, or the log is not so large.
        """
        with self._storage.reading() as reader:
            if new > reader.size():
                raise ProofInvalid("tree does not reach so far", got=new, expected=f"at most {reader.size()}")
            return prove_consistency(old, new, TileNodes(reader))

    def tile(self, path: str) -> bytes:
        """The bytes served under a C2SP tile path, as far as a checkpoint covers them.

        Raises:
            ProofInvalid: The path is malformed, or of a tile the newest checkpoint does not have.
        """
        tile = Tile.parse(path)
        with self._storage.reading() as reader:
            latest = reader.latest_checkpoint()
            if not holds(latest.size if latest else 0, tile):
                raise ProofInvalid("no such tile yet", got=path)
            if tile.level >= 0:
                return read_tile(reader, tile)
            return entry_bundle([leaf.body for leaf in reader.leaves(tile.first, tile.first + tile.width)])


def _leaf(reader: LogReader, index: int) -> Leaf:
    leaf = next(iter(reader.leaves(index, index + 1)), None) if index >= 0 else None
    if leaf is None:
        raise ProofInvalid("no such leaf", got=index, expected=f"0 to {reader.size() - 1}")
    return leaf
