"""The log's one writer: what is signed was committed first, and nothing is signed that contradicts what was signed.

The order of things is the safety of the log. Leaves are durable before their numbers are given out; a checkpoint is
durable before its signature is given out; at start the whole tree is recomputed and compared with every checkpoint
ever given out. So a crash at any moment loses nothing that was acknowledged and cannot make the log sign two
histories. If two signed histories turn up all the same (a database restored behind our back, a stolen key), both are
stored as evidence and the log freezes for good: a frozen log can be read, not written.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Sequence
from threading import Lock

from ..errors import InputTooLarge
from ..keys.interface import Signer
from .audit import audit, check_leaves
from .errors import LogForked, LogFrozen, LogTampered, NoteInvalid
from .merkle import hash_leaf, tree_root
from .note import Checkpoint, NoteKey, add_signature, open_checkpoint, parse_note, sign_checkpoint
from .storage import Evidence, Leaf, LogReader, LogStorage, LogWriter, StoredCheckpoint
from .tiles import MAX_LEAF, Edge, StoredTile, TileNodes
from .view import LogView


class Log(LogView):
    """A transparency log to write to. Safe with threads, and with other processes on the same storage.

    Args:
        storage: Where it is kept.
        signer: The log's Ed25519 key.
        origin: The log's name, the first line of every checkpoint.
        known: Signed checkpoints of this log kept elsewhere (by witnesses, in anchors, beside the database): the only
            defence against a database that was set back to an earlier state as a whole.

    Raises:
        LogTampered: The stored tree is not the one that was signed.
        LogForked: One of ``known`` contradicts the tree; it is kept as evidence and the log is frozen.
    """

    def __init__(self, storage: LogStorage, signer: Signer, *, origin: str, known: Iterable[bytes] = ()) -> None:
        super().__init__(storage, NoteKey(origin, signer.verifier.public_bytes))
        self._signer = signer
        self._lock = Lock()
        with storage.reading() as reader:
            self._edge = audit(reader, self.key)
        for raw in known:
            self.observe(raw)

    def append(self, bodies: Sequence[bytes]) -> list[int]:
        """Add entries in one transaction; when this returns they are durable.

        Returns:
            The number of each entry. An entry that is in the log already keeps its number and is not added again.

        Raises:
            InputTooLarge: An entry is longer than ``MAX_LEAF``.
            LogFrozen: The log holds evidence of two histories.
        """
        for body in bodies:
            if len(body) > MAX_LEAF:
                raise InputTooLarge(
                    "entry is too long for the log",
                    got=f"{len(body)} bytes",
                    expected=f"at most {MAX_LEAF} bytes",
                    remedy="Log a statement that names its digest.",
                )
        hashes = [hash_leaf(body) for body in bodies]
        with self._lock:
            with self._storage.writing() as writer:
                edge = self._caught_up(writer)
                numbers = writer.find(hashes)
                tiles: list[StoredTile] = []
                leaves: list[Leaf] = []
                for body, leaf_hash in zip(bodies, hashes, strict=True):
                    if leaf_hash not in numbers:
                        numbers[leaf_hash] = edge.size
                        leaves.append(Leaf(edge.size, body, leaf_hash))
                        tiles += edge.append(leaf_hash)
                writer.add_leaves(leaves)
                writer.add_tiles(tiles)
            self._edge = edge
        return [numbers[leaf_hash] for leaf_hash in hashes]

    def checkpoint(self) -> bytes:
        """The signed note for all that is committed; signed once for each size, durable before it is returned.

        Raises:
            LogTampered: The tree is smaller than, or inconsistent with, what was signed before.
            LogFrozen: The log holds evidence of two histories.
        """
        with self._lock:
            with self._storage.writing() as writer:
                edge = self._caught_up(writer)
                latest = writer.latest_checkpoint()
                root = _consistent_root(writer, edge, latest)
                if latest is not None and latest.size == edge.size:
                    note = latest.note
                else:
                    note = sign_checkpoint(Checkpoint(self.key.name, edge.size, root), self._signer).encode()
                    writer.add_checkpoint(StoredCheckpoint(edge.size, root, note))
            self._edge = edge
        return note

    def cosigned(self, raw: bytes, witnesses: Sequence[NoteKey]) -> bytes:
        """Take over the cosignatures that trusted witnesses put on a checkpoint of this log.

        Returns:
            The note with every cosignature known so far; receipts carry it from now on.

        Raises:
            NoteInvalid: It is no checkpoint of this log, or no trusted witness cosigned it.
            LogForked: See ``observe``.
        """
        self.observe(raw)
        signed = open_checkpoint(raw, log=self.key, witnesses=witnesses, quorum=1)
        trusted = {(key.name, key.id) for key in witnesses}
        with self._lock, self._storage.writing() as writer:
            self._caught_up(writer)
            stored = [c.note for c in writer.checkpoints() if c.size == signed.checkpoint.size]
            note = parse_note(stored[-1] if stored else raw)
            if note.text != signed.note.text:
                raise NoteInvalid("checkpoint has other lines than the one given out", where=self.key.name)
            before = note
            for signature in signed.note.signatures:
                if (signature.name, signature.key_id) in trusted:
                    note = add_signature(note, signature)
            if note != before or not stored:
                checkpoint = signed.checkpoint
                writer.add_checkpoint(StoredCheckpoint(checkpoint.size, checkpoint.root, note.encode()))
        return note.encode()

    def observe(self, raw: bytes) -> None:
        """Compare a checkpoint that somebody holds with the tree; if it contradicts the tree, keep both and freeze.

        Raises:
            NoteInvalid: It is not signed by this log's key, so it says nothing about the log.
            LogForked: It is signed by this log's key and is not of this tree.
        """
        tree = open_checkpoint(raw, log=self.key).checkpoint
        with self._storage.reading() as reader:
            reason = _contradiction(reader, tree)
        if not reason:
            return
        with self._storage.writing() as writer:
            if all(raw not in (kept.first, kept.second) for kept in writer.evidence()):
                writer.add_evidence(Evidence(reason, _own_side(writer, tree.size), raw))
        raise LogForked(
            reason,
            where=self.key.name,
            remedy="The log is frozen and both checkpoints are kept. Find out who signed the other one.",
        )

    def _caught_up(self, writer: LogWriter) -> Edge:
        """A copy of the edge that includes what other processes appended; the write lock is held."""
        if found := writer.evidence():
            raise LogFrozen(f"the log is frozen: {found[0].reason}", where=self.key.name)
        edge, size = self._edge.copy(), writer.size()
        if size < edge.size:
            raise LogTampered("leaves have vanished", where=self.key.name, got=size, expected=f"at least {edge.size}")
        for leaf in check_leaves(writer, edge.size, size):
            edge.append(leaf.leaf_hash)
        return edge


def _contradiction(reader: LogReader, tree: Checkpoint) -> str:
    """Why a checkpoint of ours cannot be of this tree; empty when it can. A tree only grows, so no lock is needed."""
    size = reader.size()
    if tree.size > size:
        return f"a checkpoint of {tree.size} leaves was signed, the log has {size}"
    root = tree_root(tree.size, TileNodes(reader))
    if not hmac.compare_digest(root, tree.root):
        return f"two roots at {tree.size} leaves: {tree.root.hex()} was signed, the log has {root.hex()}"
    return ""


def _consistent_root(writer: LogWriter, edge: Edge, latest: StoredCheckpoint | None) -> bytes:
    """The root to be signed; refused unless it extends what was signed before and agrees with what is stored."""
    root, nodes = edge.root(), TileNodes(writer)
    if not hmac.compare_digest(tree_root(edge.size, nodes), root):
        raise LogTampered("stored tiles lead to another root", got=f"{edge.size} leaves")
    if latest is None:
        return root
    if latest.size > edge.size:
        raise LogTampered("the tree is smaller than what was signed", got=edge.size, expected=f"{latest.size} or more")
    if not hmac.compare_digest(tree_root(latest.size, nodes), latest.root):
        raise LogTampered("the tree is not the one that was signed", where=f"checkpoint of {latest.size} leaves")
    return root


def _own_side(reader: LogReader, size: int) -> bytes:
    """The note of ours to lay beside a contradicting one: that of the same size, else the newest, else none."""
    same = [stored.note for stored in reader.checkpoints() if stored.size == size]
    latest = reader.latest_checkpoint()
    return same[0] if same else latest.note if latest else b""
