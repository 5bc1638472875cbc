"""Changes of norms and biases: alone they are too few numbers, stacked over layers they can be judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from fingerprint.architecture.interface import Role, Slot
from fingerprint.compare.changes import cast
from fingerprint.compare.correspond import Pair
from fingerprint.compare.evidence import SlotChange
from fingerprint.compare.structure import NOTHING, coherence
from fingerprint.fingerprint import Fingerprint


@dataclass(frozen=True)
class Steps:
    """A step along the reference's own change, as the matrices show it, to be taken out of norms and biases too.

    Attributes:
        toward: Coefficient; 0 without one.
        before: The base's vectors by reference slot.
    """

    toward: float
    before: Mapping[Slot, np.ndarray]

    @classmethod
    def of(
        cls, changes: Sequence[SlotChange], pairs: Mapping[Slot, Pair], rooted: Mapping[Slot, Pair],
        base: Fingerprint | None,
    ) -> Steps:  # fmt: skip
        """From the changes of matrices."""
        found = [c.toward_base for c in changes if c.relative > 0.0]
        toward = float(np.median(found)) if found else 0.0
        if base is None or abs(toward) < STEP:
            return cls(0.0, {})
        shared = {s: base.slots[p.candidate].linear for s, p in rooted.items() if s in pairs}
        return cls(toward, {s: x.astype(np.float64) for s, x in shared.items()})

    def delta(self, slot: Slot, ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
        """The change of a vector without the step, where it took one."""
        x, y = ours.astype(np.float64), theirs.astype(np.float64)
        before = self.before.get(slot)
        if before is None or before.shape != y.shape:
            return x - y
        left = x - y - self.toward * (y - before)
        return left if float(np.linalg.norm(left)) < float(np.linalg.norm(x - y)) else x - y


STEP = 0.01
"""Smallest step along the base that is taken out of vectors."""


def vector_changes(
    candidate: Fingerprint, reference: Fingerprint, pairs: Mapping[Slot, Pair], free: frozenset[Slot], steps: Steps
) -> tuple[SlotChange, ...]:
    """Changes of norms and biases, but for those that a change of gauge leaves open."""
    found = []
    for slot, pair in pairs.items():
        mine, theirs = candidate.slots[pair.candidate], reference.slots[slot]
        if len(theirs.shape) >= 2 or slot in free:
            continue
        x, y = mine.linear.astype(np.float64), theirs.linear.astype(np.float64)
        size = float(np.linalg.norm(y)) or 1.0
        relative = float(np.linalg.norm(steps.delta(slot, x, y))) / size
        cosine = float((x * y).sum()) / max(float(np.linalg.norm(x)) * size, 1e-300)
        rounded = cast(torch.from_numpy(mine.linear), torch.from_numpy(theirs.linear)) if theirs.whole else None
        kind = f"cast:{rounded}" if rounded is not None and relative > 0.0 else None
        found.append(SlotChange(slot, theirs.numel, cosine, relative, 0.0, 1.0, 0.0, 0.0, relative, NOTHING, kind))
    return tuple(found)


VECTOR_EXACT = 1e-6
"""Relative size below which a vector's change is float32 arithmetic."""

STACK_LEAST = 4
"""Vectors of one length that make a stack worth judging."""


def stacked(changed: Sequence[SlotChange], delta: Callable[[Slot], torch.Tensor]) -> tuple[SlotChange, ...]:
    """Changes of equally long norms (and biases) of all layers as one matrix each: one vector is too little to judge.

    Gradients of one residual stream agree in sign from layer to layer; noise does not.

    Args:
        changed: Vectors that changed, whose values are at hand.
        delta: Change of a vector, float64 (n,).
    """
    groups: dict[str, list[SlotChange]] = {}
    for c in changed:
        kind = "biases" if c.slot.role.value.endswith("_bias") else "norms"
        groups.setdefault(f"{kind}:{c.numel}", []).append(c)
    out = []
    for name, members in groups.items():
        if len(members) < STACK_LEAST:
            continue
        rows = torch.stack([delta(c.slot) for c in members])
        relative = float(np.mean([c.relative for c in members]))
        slot, numel = Slot(Role.OTHER, name=name), rows.numel()
        out.append(
            SlotChange(slot, numel, 1.0, relative, 0.0, 1.0, 0.0, 0.0, relative, coherence(rows), channel="vectors")
        )
    return tuple(out)
