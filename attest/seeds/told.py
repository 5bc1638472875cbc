"""The links ``steps`` and ``reveal``: what the service said of the epoch, and that it published the secret.

That something is *not* in a file proves nothing: whoever passed the file on could have left it out. Only the whole log
shows that a reveal was never made.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from attest.checking import Checked
from attest.errors import AttestError
from attest.log.errors import ProofInvalid
from attest.log.merkle import verify_consistency
from attest.log.note import Checkpoint
from attest.log.proof import ProvenLeaf, verify_receipt
from attest.predicates import SeedReveal

from . import beacon, course
from .errors import BeaconInvalid, SeedError
from .report import Fault, NotChecked, Pending, Unproven
from .walk import Walk

REVEAL_GRACE: Final = 3600
"""Seconds after R_open within which the reveal must be in the file."""


def stepped(walk: Walk) -> str:
    """The steps are those of an epoch's course, each once and none left out."""
    if walk.checkpoint is None:
        raise NotChecked("the commitment is not in the log")
    walk.read_steps()
    if walk.misread is not None:
        raise walk.misread
    said, reveal = walk.steps or (), None
    with suppress(AttestError):  # what is wrong with the reveal is said of that link
        reveal = None if walk.epoch.reveal is None else _read(walk, walk.epoch.reveal)[0].index
    course.check(said, committed=walk.leaf, reveal=reveal, story=walk.story)
    return ", ".join(str(step.step) for step in said) or "none so far"


def revealed(walk: Walk) -> str:
    """The secret was published in the same log, after R_open and not long after."""
    statement, text = walk.statement, walk.epoch.reveal
    if text is None:
        return _unrevealed(walk)
    proven, found = _read(walk, text)
    said = found.predicate
    if said.commitment != statement.predicate.commitment:
        raise SeedError("the reveal is of another commitment", where="reveal", got=said.commitment)
    walk.revealed = found
    _one_log(walk, proven.signed.checkpoint)
    _check_not_early(walk, proven.signed.checkpoint)
    if said.mix_signature != walk.epoch.mix_signature:
        _check_stated_beacon(walk, bytes.fromhex(said.mix_signature))
    return f"logged as leaf {proven.index}"


def _read(walk: Walk, text: str) -> tuple[ProvenLeaf, Checked[SeedReveal]]:
    proven = verify_receipt(text.encode(), log=walk.key)
    found = walk.spoken(proven.leaf, SeedReveal, "reveal")
    if found.predicate.statement != walk.statement.digest:
        raise SeedError("the reveal is of another commitment", where="reveal", got=found.predicate.statement)
    return proven, found


def _unrevealed(walk: Walk) -> str:
    round_, story = walk.bound.open_round, walk.story
    if walk.void:
        raise NotChecked(f"the epoch is void: {walk.void}")
    if story is not None and story.reveal is not None:
        raise Unproven("reveal_left_out", f"the log has it as leaf {story.reveal}; get the file again")
    if walk.now <= walk.network.time_of(round_) + REVEAL_GRACE:
        raise Pending(f"due after round {round_}")
    if story is not None:
        raise Fault("missing_reveal", f"round {round_} is long out and nothing was revealed, in {story.size} leaves")
    raise Unproven("missing_reveal", f"round {round_} is long out and no reveal is in the file; ask the log for one")


def _check_not_early(walk: Walk, checkpoint: Checkpoint) -> None:
    round_ = walk.bound.open_round
    stamp = walk.stamp_of(checkpoint)
    if stamp is not None and stamp.block_time < walk.network.time_of(round_):
        detail = f"block {stamp.block} holds the secret before round {round_}"
        if walk.confirm is None:
            raise Unproven("early_reveal", f"{detail}, as stated; ask the chain for this block")
        raise Fault("early_reveal", detail)
    if not walk.reached(round_) and not _is_out(walk, round_):
        raise Fault("early_reveal", f"the secret is out and round {round_} is not")


def _is_out(walk: Walk, round_: int) -> bool:
    """Whether the file proves that the round is out, whatever a clock says."""
    text = walk.epoch.open_signature
    if text is None:
        return False
    try:
        beacon.verify(round_, bytes.fromhex(text), network=walk.network)
    except BeaconInvalid:
        return False
    return True


def _check_stated_beacon(walk: Walk, signature: bytes) -> None:
    try:
        beacon.verify(walk.bound.mix_round, signature, network=walk.network)
    except BeaconInvalid as error:
        raise Fault("wrong_beacon", f"the reveal names what the beacon never signed: {error.what}") from None
    walk.mix = walk.mix or signature


def _one_log(walk: Walk, later: Checkpoint) -> None:
    """The reveal's tree continues the commitment's: nobody was shown another log."""
    earlier, path = walk.checkpoint, walk.epoch.consistency
    if earlier is None or path is None:
        raise ProofInvalid("no proof that both are in one log", where="consistency")
    verify_consistency(earlier.size, later.size, tuple(map(bytes.fromhex, path)), earlier.root, later.root)
