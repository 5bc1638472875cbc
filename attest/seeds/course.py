"""The course of an epoch as its signed steps tell it, and the first place where it is not the one that was promised.

    commitment -> anchored -> mixing -> open -> closed -> reveal        void may follow anything before open

Two kinds of wrong are told apart. The order of *leaves* in the log is signed: a step that was logged out of its order,
said twice or said after the epoch was given up is the operator's doing. What a *file* lists, and in which order, is
signed by nobody: a step that is left out, listed twice or in another place says something about the file alone, unless
the whole log was read and does not have it either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from attest.predicates import EpochStep
from attest.predicates.seeds import Step

from .errors import SeedError
from .report import Fault, Unproven

ORDER: Final = (Step.ANCHORED, Step.MIXING, Step.OPEN, Step.CLOSED)
GIVEN_UP: Final = ("late_commitment", "unanchored")
"""Reasons of a void by which the service itself says that the commitment was not held in time."""


@dataclass(frozen=True)
class Said:
    """A step as it was signed, and where it stands in the log.

    Args:
        leaf: Number of its leaf.
        step: What happened.
        block: The block of which it speaks.
        block_time: POSIX time of that block.
        evidence: Digest that it binds.
        reason: Why, for ``void``.
    """

    leaf: int
    step: Step
    block: int
    block_time: int
    evidence: str | None = None
    reason: str | None = None

    @classmethod
    def of(cls, leaf: int, found: EpochStep) -> Said:
        """A step's statement at its leaf."""
        return cls(leaf, found.step, found.block, found.block_time, found.evidence, found.reason)

    def __str__(self) -> str:
        return f"{self.step} (leaf {self.leaf})"


@dataclass(frozen=True)
class Story:
    """All that a whole log says of one commitment.

    Args:
        steps: In the order of the log.
        reveal: Leaf of the reveal; None when there is none.
        size: Leaves of the log.
    """

    steps: tuple[Said, ...]
    reveal: int | None
    size: int

    def first(self, step: Step) -> Said | None:
        """The first statement of a step."""
        return next((said for said in self.steps if said.step is step), None)


def check(listed: Sequence[Said], *, committed: int, reveal: int | None, story: Story | None) -> None:
    """Walk the steps in the order of the file, and raise for the first that is wrong.

    Args:
        listed: The file's steps, each proven to be in the log.
        committed: Leaf of the commitment.
        reveal: Leaf of the reveal in the file.
        story: What the whole log says, where it was read.

    Raises:
        SeedError: The file lists them in a way that the log does not bear out; blames nobody.
        Fault: The log itself has them in a way that was not promised.
        Unproven: The log has gone on since the file was made.
    """
    _check_listing(listed)
    _check_order(story.steps if story is not None else listed, committed, whole=story is not None)
    if story is not None:
        _check_whole(listed, story)
    last = story.reveal if story is not None else reveal
    if last is not None:
        _check_end(story.steps if story is not None else listed, last, whole=story is not None)


def _check_listing(listed: Sequence[Said]) -> None:
    places: dict[int, int] = {}
    for place, said in enumerate(listed):
        if said.leaf in places:
            raise SeedError(
                "one step is given twice",
                where=f"steps {places[said.leaf]} and {place}",
                got=said,
                expected="every statement once",
                code="step_twice",
            )
        places[said.leaf] = place
    for place, (said, after) in enumerate(pairwise(listed)):
        if after.leaf < said.leaf:
            raise SeedError(
                "steps are not in the order in which they were said",
                where=f"steps {place} and {place + 1}",
                got=f"{said}, {after}",
                expected=f"{after} first",
                code="steps_reordered",
            )


def _check_order(steps: Sequence[Said], committed: int, *, whole: bool) -> None:
    done: list[Said] = []
    for said in steps:
        before = done[-1] if done else None
        same = next((other for other in done if other.step is said.step), None)
        if same is not None:
            raise Fault(
                "said_twice", f"two statements say that the epoch is {said.step}: leaves {same.leaf}, {said.leaf}"
            )
        if before is not None and before.step is Step.VOID:
            raise Fault("after_void", f"{said} follows {before}: a void epoch went on")
        if said.leaf < committed:
            raise Fault("out_of_order", f"{said} was said before the commitment, leaf {committed}")
        rank = -1 if before is None else ORDER.index(before.step)
        if said.step is Step.VOID:
            if rank >= ORDER.index(Step.OPEN):
                raise Fault("void_after_open", f"{said} follows {before}: items were out, and it was called void")
        elif ORDER.index(said.step) < rank:
            raise Fault("out_of_order", f"{said} follows {before}")
        else:
            gap = ORDER[rank + 1 : ORDER.index(said.step)]
            late = next((other for other in steps if other.step in gap), None)
            if late is not None:
                raise Fault("out_of_order", f"{late} follows {said}")
            _check_gap(gap, f"before {said}", whole=whole)
        done.append(said)


def _check_end(steps: Sequence[Said], reveal: int, *, whole: bool) -> None:
    last = max(steps, key=lambda said: said.leaf, default=None)
    if last is not None and last.step is Step.VOID:
        raise Fault("after_void", f"the reveal (leaf {reveal}) follows {last}: a void epoch went on")
    if last is not None and last.leaf > reveal:
        raise Fault("out_of_order", f"{last} was said after the reveal, leaf {reveal}")
    rank = -1 if last is None else ORDER.index(last.step)
    _check_gap(ORDER[rank + 1 :], f"before the reveal (leaf {reveal})", whole=whole)


def _check_gap(missing: Sequence[Step], where: str, *, whole: bool) -> None:
    if not missing:
        return
    named = " and ".join(missing)
    if whole:
        raise Fault("step_skipped", f"{named} was never said {where}, in the whole log")
    raise SeedError(f"{named} is missing {where}", where="steps", expected=", ".join(ORDER), code="step_missing")


def _check_whole(listed: Sequence[Said], story: Story) -> None:
    known = {said.leaf for said in listed}
    left_out = [said for said in story.steps if said.leaf not in known]
    if not left_out:
        return
    if any(said.leaf < max(known, default=-1) for said in left_out):
        raise SeedError("the file leaves out what was said", where="steps", got=left_out[0], code="step_missing")
    raise Unproven("older_than_log", f"the log has gone on: {left_out[0]}; get the file again")
