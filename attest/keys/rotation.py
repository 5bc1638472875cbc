"""Hand-overs between hotkeys, and the history they make.

A hand-over counts from where the chain shows it: the anchor of the statement that both keys signed, or the hotkey
swap itself. Claims of the old key are judged at their own position, before it; they stay with the line and so with
the heir. After it, the old key speaks for nobody. Nothing here knows a uid: a recycled uid transfers nothing.

Hostile statements cannot break a line. The first hand-over of a key counts and a second is refused; two at the same
position are both refused and left to a person; a key that has a past of its own cannot be given another, and a key
that was handed over never comes back (so there are no cycles).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby

from attest.checking import Checked
from attest.errors import KeyRotated, RotationRefused
from attest.keys.hotkey import Hotkey
from attest.predicates import KeyRotation
from attest.priority import Position


@dataclass(frozen=True, slots=True)
class Swap:
    """A hotkey swap seen on chain, signed there by the coldkey of both.

    Args:
        old: Hotkey before.
        new: Hotkey after.
        genesis: Chain.
        netuid: Subnet; None when the swap was for all of them.
        position: Where it stands.
    """

    old: Hotkey
    new: Hotkey
    genesis: str
    netuid: int | None
    position: Position


@dataclass(frozen=True, slots=True)
class HandOver:
    """An agreed hand-over with its effective position.

    Args:
        old: Who hands over.
        new: Who takes over.
        position: From where on it counts.
        evidence: Digest of the rotation statement, or a name for the swap.
    """

    old: Hotkey
    new: Hotkey
    position: Position
    evidence: str


def hand_over(rotation: Checked[KeyRotation], *, anchor: Position | None, swaps: Collection[Swap] = ()) -> HandOver:
    """What a checked rotation statement amounts to.

    Args:
        rotation: Signed by both keys, or by the successor when it cites chain evidence.
        anchor: Earliest anchor of the statement; needed unless it cites chain evidence.
        swaps: Swaps seen on this chain, against which cited evidence is checked.

    Raises:
        RotationRefused: Not anchored, or the swap it cites is not on the chain.
    """
    said, context = rotation.predicate, rotation.context
    old, new = said.predecessor.key, said.successor.key
    if said.evidence is None:
        if anchor is None:
            raise RotationRefused(
                "the rotation is not anchored yet", where=rotation.digest, remedy="Wait for an anchor"
            )
        return HandOver(old, new, anchor, rotation.digest)
    position = Position(said.evidence.block, said.evidence.extrinsic_index)
    for swap in swaps:
        here = swap.genesis == context.genesis and swap.netuid in (None, context.netuid)
        if here and (swap.old, swap.new, swap.position) == (old, new, position):
            return HandOver(old, new, position, rotation.digest)
    raise RotationRefused(
        "the chain shows no such swap",
        where=rotation.digest,
        got=f"{old} to {new} at {position}",
        expected="a hotkey swap",
    )


class KeyHistory:
    """All lines of keys on one subnet, worked out from the hand-overs known.

    Args:
        hand_overs: In any order; the result does not depend on it.
    """

    def __init__(self, hand_overs: Iterable[HandOver] = ()) -> None:
        self._next: dict[Hotkey, Hotkey] = {}
        self._previous: dict[Hotkey, Hotkey] = {}
        self._until: dict[Hotkey, Position] = {}
        self._refused: list[tuple[HandOver, str]] = []
        ordered = sorted(set(hand_overs), key=lambda h: (h.position, h.old, h.new, h.evidence))
        for _, together in groupby(ordered, key=lambda h: h.position):
            self._take(list(together))

    @property
    def refused(self) -> tuple[tuple[HandOver, str], ...]:
        """Hand-overs that do not count, with the reason in words."""
        return tuple(self._refused)

    def origin(self, hotkey: Hotkey) -> Hotkey:
        """The key this one's owner started with; itself when nothing was handed to it."""
        return _walk(hotkey, self._previous)[-1]

    def heir(self, hotkey: Hotkey) -> Hotkey:
        """The key that speaks for this one's line today."""
        return _walk(hotkey, self._next)[-1]

    def line(self, hotkey: Hotkey) -> tuple[Hotkey, ...]:
        """All keys of one owner, first to last."""
        return tuple(_walk(self.origin(hotkey), self._next))

    def check_valid(self, hotkey: Hotkey, at: Position) -> None:
        """Whether a claim by this key counts at that position.

        Raises:
            KeyRotated: The key had been handed over by then.
        """
        until = self._until.get(hotkey)
        if until is not None and at >= until:
            raise KeyRotated(
                "the key had been handed over",
                where=str(hotkey),
                got=f"a claim at {at}",
                expected=f"before {until}",
                remedy=f"The line is continued by {self._next[hotkey]}",
            )

    def _take(self, together: list[HandOver]) -> None:
        for step in together:
            reason = self._why_not(step, together)
            if reason:
                self._refused.append((step, reason))
            else:
                self._next[step.old], self._previous[step.new] = step.new, step.old
                self._until[step.old] = step.position

    def _why_not(self, step: HandOver, together: list[HandOver]) -> str:
        if step.old == step.new:
            return "a key cannot succeed itself"
        if step.old in self._next:
            return "the key was handed over before"
        if step.new in self._previous or step.new in self._next:
            return "the successor has a past of its own"
        rivals = [o for o in together if (o.old, o.new) != (step.old, step.new)]
        if any({o.old, o.new} & {step.old, step.new} for o in rivals):
            return "two hand-overs at one position contradict each other"
        return ""


def _walk(start: Hotkey, step: Mapping[Hotkey, Hotkey]) -> list[Hotkey]:
    """Follow a chain to its end; ``_why_not`` keeps it free of cycles, the length bound keeps it finite regardless."""
    line = [start]
    while line[-1] in step and len(line) <= len(step) + 1:
        line.append(step[line[-1]])
    return line
