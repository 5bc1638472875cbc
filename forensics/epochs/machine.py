r"""The life of an epoch as a pure function: state and facts in, next state out.

    committed -> anchored -> mixing -> open -> closed -> revealed
         \----------\---------\--------------------------> void

What cannot be taken back happens on proof alone: a block that holds the commitment, or a verified signature of the
beacon, which nobody can have before its round. No clock decides anything but ``mixing``, which opens and reveals
nothing; so a clock that jumps, here or on the chain, can make an epoch wait and cannot open, reveal or void it. A
beacon that is late makes it wait too; there is no other source.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from attest.seeds.beacon import Network
from attest.seeds.verify import ANCHOR_MARGIN


class State(StrEnum):
    """How far an epoch is."""

    COMMITTED = "committed"
    """The commitment is stored and on its way into the log."""
    ANCHORED = "anchored"
    """A final block holds it, early enough; submissions are open."""
    MIXING = "mixing"
    """R_mix is due: submissions are closed, the beacon's value is awaited."""
    OPEN = "open"
    """S exists; validators of the roster fetch their items and evaluate."""
    CLOSED = "closed"
    """R_open is out: nothing is handed out any more."""
    REVEALED = "revealed"
    """Secret and seed are public."""
    VOID = "void"
    """It counts for nothing; ``void_reason`` says why."""


FINAL: Final = (State.REVEALED, State.VOID)
LATE, UNANCHORED, MISSED = "late_commitment", "unanchored", "window_missed"


@dataclass(frozen=True)
class Moment:
    """The newest final block and its time (POSIX seconds)."""

    block: int
    time: int


@dataclass(frozen=True)
class Facts:
    """What is known for certain.

    Args:
        moment: The newest final block.
        anchored_at: Time of the first block that holds the commitment.
        mixed: The beacon's signature of R_mix is here and verified.
        opened: The beacon's signature of R_open is here and verified.
    """

    moment: Moment
    anchored_at: int | None = None
    mixed: bool = False
    opened: bool = False


@dataclass(frozen=True)
class Change:
    """The next state, and why where that is ``void``."""

    state: State
    reason: str = ""


def next_change(state: State, *, mix_round: int, network: Network, facts: Facts) -> Change | None:
    """What follows from the facts; None when there is nothing to do but wait."""
    due = network.time_of(mix_round)
    if state is State.COMMITTED:
        return _from_committed(due, facts)
    if state is State.ANCHORED and (facts.mixed or facts.moment.time >= due):
        return Change(State.MIXING)
    if state is State.MIXING and facts.mixed:
        return Change(State.VOID, MISSED) if facts.opened else Change(State.OPEN)
    if state is State.OPEN and facts.opened:
        return Change(State.CLOSED)
    if state is State.CLOSED:
        return Change(State.REVEALED)
    return None


def _from_committed(due: int, facts: Facts) -> Change | None:
    if facts.anchored_at is not None:
        early = facts.anchored_at + ANCHOR_MARGIN <= due
        return Change(State.ANCHORED) if early else Change(State.VOID, LATE)
    return Change(State.VOID, UNANCHORED) if facts.mixed else None
