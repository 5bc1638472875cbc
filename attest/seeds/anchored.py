"""The link ``anchor``: a block held the commitment before R_mix, by a margin.

An anchor in a file is signed by nobody, so by itself it can show that all is well and cannot show a fault. What counts
against the operator is its own signed word (``anchored`` names the block and its time, ``void`` may admit that there
was none), the chain's answer for an epoch that was used all the same, and the whole log.
"""

from __future__ import annotations

from typing import Final

from attest.predicates.seeds import Step

from .course import GIVEN_UP, Said
from .epoch_file import Stamp
from .errors import SeedError
from .report import Fault, NotChecked, Pending, Unproven
from .walk import Walk

ANCHOR_MARGIN: Final = 60
"""Seconds that the anchoring block must precede R_mix: more than a block's own clock can be wrong (12 s blocks)."""


def anchored(walk: Walk) -> str:
    """A block held the commitment long enough before R_mix."""
    if walk.checkpoint is None:
        raise NotChecked("no checkpoint that can be believed")
    walk.read_steps()
    due = walk.network.time_of(walk.bound.mix_round)
    signed = walk.signed(Step.ANCHORED)
    _check_word(walk, signed, due)
    stamp = walk.stamp_of(walk.checkpoint)
    if stamp is None:
        return _unanchored(walk, signed)
    if signed is not None and _differs(stamp, signed):
        raise SeedError(
            "not the anchor that the service signed",
            where="stamps",
            got=f"block {stamp.block}, time {stamp.block_time}",
            expected=f"block {signed.block}, time {signed.block_time}",
            code="other_anchor",
        )
    spare = due - stamp.block_time
    if spare < ANCHOR_MARGIN:
        _late(walk, stamp, spare)
    asked = "confirmed by the chain" if walk.confirm else "as stated; ask the chain for this block"
    return f"block {stamp.block}, {spare} s before round {walk.bound.mix_round} ({asked})"


def _check_word(walk: Walk, signed: Said | None, due: int) -> None:
    """What the service itself signed about its anchor, whatever the file says."""
    void = walk.signed(Step.VOID)
    if void is not None and void.reason in GIVEN_UP:
        raise Fault(void.reason, f"the service says so itself, leaf {void.leaf}: {_stated(walk, due)}")
    if signed is not None and due - signed.block_time < ANCHOR_MARGIN:
        raise Fault("late_commitment", f"the service says so itself, leaf {signed.leaf}: {_stated(walk, due)}")


def _stated(walk: Walk, due: int) -> str:
    assert walk.checkpoint is not None  # noqa: S101 - the anchor is not looked at without one
    stamp, round_ = walk.stamp_of(walk.checkpoint), walk.bound.mix_round
    if stamp is None:
        return f"no block holds the commitment before round {round_}"
    return _held(stamp, due - stamp.block_time, round_)


def _held(stamp: Stamp, spare: int, round_: int) -> str:
    return f"block {stamp.block} holds it {spare} s before round {round_}, at least {ANCHOR_MARGIN} needed"


def _differs(stamp: Stamp, signed: Said) -> bool:
    said = (signed.block, signed.block_time, signed.evidence)
    return (stamp.block, stamp.block_time, "sha256:" + stamp.digest) != said


def _unanchored(walk: Walk, signed: Said | None) -> str:
    round_ = walk.bound.mix_round
    if signed is not None:
        raise SeedError(
            "the anchor is left out",
            where="stamps",
            expected=f"block {signed.block}, by leaf {signed.leaf}",
            code="anchor_left_out",
        )
    if not walk.reached(round_):
        raise Pending("no block holds it yet")
    detail = f"no block is named that holds the commitment, and round {round_} is out"
    if walk.story is not None and walk.signed(Step.OPEN) is not None:
        raise Fault("unanchored", f"{detail}; the log has no anchor, and the epoch was opened")
    raise Unproven("unanchored", f"{detail}; the log tells whether it was ever anchored")


def _late(walk: Walk, stamp: Stamp, spare: int) -> None:
    """A late block that the service did not sign: a fault only if the chain has it and the epoch was used."""
    detail = (
        f"block {stamp.block} holds it {spare} s before round {walk.bound.mix_round}, at least {ANCHOR_MARGIN} needed"
    )
    if walk.confirm is None:
        raise Unproven("late_commitment", f"{detail}, as stated; nothing signed says so, ask the chain or the log")
    if walk.signed(Step.OPEN) is None:
        raise Unproven("late_commitment", f"{detail}, by the chain; an earlier one may be left out, ask the log")
    raise Fault("late_commitment", f"{detail}, confirmed by the chain")
