"""A witness: somebody else who remembers how far a log had come, and says so under each newer checkpoint.

What a log cannot do before a witness is go back, or show two histories: a checkpoint is cosigned only if it is proven
to extend the one that was cosigned before it (C2SP tlog-witness, as a pure function over what the witness remembers).
Two checkpoints of one size and different roots, both signed by the log, are evidence that needs no further word: the
log is a liar or its key is stolen. A receipt that carries cosignatures cannot have come from a split view, unless the
witnesses took part in it.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence

from ..keys.interface import Signer
from .errors import LogForked, NoteInvalid, ProofInvalid
from .merkle import EMPTY_ROOT, verify_consistency
from .note import COSIGNATURE, Checkpoint, NoteKey, cosign, open_checkpoint
from .storage import Evidence


class SplitView(LogForked):
    """Two histories, with the two signed checkpoints that show it.

    Args:
        evidence: Both notes; whoever has the log's key can check them.
        where: The log's name.
    """

    code = "split_view"

    def __init__(self, evidence: Evidence, *, where: str) -> None:
        self.evidence = evidence
        super().__init__(evidence.reason, where=where, remedy="Publish both checkpoints; trust nothing newer of it.")


def witness(
    raw: bytes, proof: Sequence[bytes], *, log: NoteKey, seen: bytes | None, name: str, signer: Signer, time: int
) -> bytes:
    """Cosign a log's newer checkpoint.

    Args:
        raw: The checkpoint, signed by the log.
        proof: That it extends the one seen before; empty for the first and for one seen already.
        log: The log's key.
        seen: What this function returned for this log the last time; the caller keeps it, durably, before giving it
            away, and lets nobody else witness in between.
        name: The witness's name.
        signer: The witness's Ed25519 key.
        time: The witness's clock, POSIX seconds.

    Returns:
        The note with the cosignature.

    Raises:
        SplitView: The log signed another root for this size.
        ProofInvalid: It is not shown to extend what was seen.
        NoteInvalid: It is not signed by the log, smaller than what was seen, or the witness's clock went back.
    """
    signed = open_checkpoint(raw, log=log)
    if seen is not None:
        own = NoteKey(name, signer.verifier.public_bytes, COSIGNATURE)
        before = open_checkpoint(seen, log=log, witnesses=[own], quorum=1)
        last = max(cosignature.time for cosignature in before.witnesses)
        if time < last:
            raise NoteInvalid("the witness's clock went back", where=name, got=time, expected=f"at least {last}")
        _check_extends(before.checkpoint, signed.checkpoint, proof, seen, raw)
    return cosign(signed.note, name, signer, time=time).encode()


def split_view(first: bytes, second: bytes, *, log: NoteKey) -> Evidence | None:
    """Whether two checkpoints of a log prove, by themselves, that it shows two histories.

    Raises:
        NoteInvalid: One of them is not signed by the log, so it says nothing about it.
    """
    one, other = (open_checkpoint(raw, log=log).checkpoint for raw in (first, second))
    if one.size != other.size or hmac.compare_digest(one.root, other.root):
        return None
    return Evidence(f"two roots at {one.size} leaves: {one.root.hex()} and {other.root.hex()}", first, second)


def _check_extends(old: Checkpoint, new: Checkpoint, proof: Sequence[bytes], seen: bytes, raw: bytes) -> None:
    if old.size == new.size and not hmac.compare_digest(old.root, new.root):
        reason = f"two roots at {old.size} leaves: {old.root.hex()} was seen, now {new.root.hex()}"
        raise SplitView(Evidence(reason, seen, raw), where=new.origin)
    if new.size < old.size:
        raise NoteInvalid("smaller than what was seen", where=new.origin, got=new.size, expected=f"{old.size} or more")
    if old.size == 0:
        if not hmac.compare_digest(old.root, EMPTY_ROOT) or proof:
            raise ProofInvalid("every tree extends the empty one, without proof", got=len(proof), expected=0)
        return
    verify_consistency(old.size, new.size, proof, old.root, new.root)
