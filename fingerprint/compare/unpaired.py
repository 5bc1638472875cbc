"""What invariants show of tensors that a change of gauge moved out of the reference's basis.

Units of a layer stand for its MLP, heads for its attention, token angles for embeddings and head (``kinship``). Units
tell whether a change was drawn; heads and angles only whether they moved no more than the units did.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from fingerprint.architecture.interface import Role, Slot
from fingerprint.compare.correspond import Pair
from fingerprint.compare.drawn import EXACT as EXACT_PROBES
from fingerprint.compare.evidence import SlotChange
from fingerprint.compare.full import ROUNDING
from fingerprint.compare.gridded import UNSETTLED
from fingerprint.compare.kinship import HeadKin, Kinship, LayerKin, kinship
from fingerprint.compare.spans import match_spans
from fingerprint.compare.structure import NOTHING, Coherence
from fingerprint.compare.vectors import STEP
from fingerprint.fingerprint import Fingerprint
from fingerprint.invariants.spans import SPANNED
from fingerprint.sketch.grid import is_bfloat16

MLP = frozenset(
    {Role.GATE, Role.UP, Role.DOWN, Role.GATE_BIAS, Role.UP_BIAS, Role.ROUTER, Role.SHARED_GATE, Role.NORM_MLP}
)
"""Roles that a layer's units stand for."""

VALUES_WITHIN, QUERIES_WITHIN = 0.6, 0.4
"""Power sums of a typical head may move this fraction of the relative change of the rest; drawn changes move them .15
to .4 of it. Beyond, attention changed by something the units do not show. Query-key sums of single heads are badly
conditioned, and only show whether attention is the same at all."""

ROUNDED_VALUES, ROUNDED_QUERIES = 8e-4, 3e-3
"""What rounding to bf16 alone does to them, after mixing."""

SPANS_WITHIN, SPANS_ROUNDED, ONE_SPAN = 3.0, 0.005, 4.0
"""Spans of a typical matrix may move this many times the relative change of the rest; noise and rounding move them 1 to
2.2 times that, and some single one, whose rows hardly differ in direction, up to ten times. The second is what rounding
to bf16 after every symmetry leaves, .002 to .005. Unrelated matrices are .33 and more apart."""

SPAN_PER_CHANGE = 1.5
"""How many times farther than a drawn change its spans move."""

STEP_SLACK = 1.5
"""Along a step toward or away from the base, heads move as far as the reference's own training moved them, in
proportion; single heads a little farther."""

ONE_LAYER = 10.0
"""A single layer has few heads, and some heads are ill-conditioned: it may move this much more than all layers may."""


@dataclass(frozen=True)
class Unpaired:
    """What invariants show of slots without a counterpart in one basis."""

    changes: tuple[SlotChange, ...] = ()
    words: tuple[str, ...] = ()
    accounted: frozenset[Slot] = frozenset()
    covered: frozenset[Slot] = frozenset()


def through_invariants(
    candidate: Fingerprint, reference: Fingerprint, base: Fingerprint | None, pairs: Mapping[Slot, Pair],
    left: set[Slot], lost: set[Slot], changes: Sequence[SlotChange],
) -> Unpaired:  # fmt: skip
    """What units, heads and token angles say of slots without a counterpart; nothing where few are without.

    Args:
        candidate: Of the candidate.
        reference: Of the reference.
        base: Of a model the reference comes from.
        pairs: What corresponds in one basis, by reference slot.
        left: Slots of the candidate that do not.
        lost: Slots of the reference that do not.
        changes: Changes of what corresponds.
    """
    if not (_much(left, candidate) or _much(lost, reference)):
        return Unpaired()
    kin = kinship(candidate, reference, base)
    own = () if base is None or abs(kin.toward_base) < STEP else kinship(base, reference).heads
    found = _Invariants(candidate, reference, kin, own, pairs, left, lost, changes)
    found.units()
    found.heads()
    found.tables()
    return Unpaired(tuple(found.changes), tuple(dict.fromkeys(found.words)), frozenset(found.accounted),
                 frozenset(found.covered))  # fmt: skip


class _Invariants:
    """Turns kinship into changes of the slots that have no counterpart in one basis.

    Args:
        candidate, reference: Fingerprints.
        kin: Their kinship.
        own: Heads of the reference's base against the reference's, where the change has a step along that.
        pairs: What corresponds in one basis.
        left: Slots of the candidate that do not.
        lost: Slots of the reference that do not.
        changes: Changes of what corresponds.
    """

    def __init__(
        self, candidate: Fingerprint, reference: Fingerprint, kin: Kinship, own: Sequence[HeadKin],
        pairs: Mapping[Slot, Pair], left: set[Slot], lost: set[Slot], changes: Sequence[SlotChange],
    ) -> None:  # fmt: skip
        self._candidate, self._reference, self._kin, self._own, self._pairs = candidate, reference, kin, own, pairs
        self._left, self._lost, self._paired = left, lost, changes
        self.changes: list[SlotChange] = []
        self.words: list[str] = []
        self.accounted: set[Slot] = set()
        self.covered: set[Slot] = set()

    def units(self) -> None:
        """A layer's matched units stand for its MLP matrices."""
        for layer in self._kin.layers:
            mine = {s for s in self._left if s.layer == layer.candidate and s.role in MLP}
            wanted = {s for s in self._lost if s.layer == layer.reference and s.role in MLP}
            matrices = [s for s in sorted(wanted) if s.role in layer.relative]
            if not mine or not matrices:
                continue
            self._take(mine, wanted)
            share = sum(self._candidate.slots[s].numel for s in mine) // len(layer.relative)
            for role, relative in layer.relative.items():
                slot = next((s for s in matrices if s.role is role), matrices[0])
                self._add(slot, share, layer.cosine, relative, layer.coherence[role], left=layer.left[role])
            self.words += _unit_words(layer, self._candidate, self._reference, self._rotated)

    def heads(self) -> None:
        """A layer's matched heads stand for attention, as long as they moved no more than the rest of the model did."""
        close = self._heads_close()
        if not close and self._spans():
            return
        for layer in self._kin.heads:
            mine = {s for s in self._left if s.layer == layer.candidate and s.role not in MLP}
            wanted = {s for s in self._lost if s.layer == layer.reference and s.role not in MLP}
            if not mine or not wanted or not self._related(layer.candidate, layer.reference):
                continue
            self._take(mine, wanted)
            size = sum(self._candidate.slots[s].numel for s in mine)
            moved = max(layer.values, layer.queries)
            slot = next((s for s in sorted(wanted) if len(self._reference.slots[s].shape) >= 2), min(wanted))
            settled = close and self._head_close(layer, ONE_LAYER)
            self._add(
                slot, size, 1.0, moved if moved > HEADS_EXACT else 0.0,
                Coherence(0.0, 0.0, 0.0 if settled else 1.0), channel="kinship" if settled else UNSETTLED,
            )  # fmt: skip
            self.words += _head_words(layer.ordered, wanted, moved, self._rotated)

    def _spans(self) -> bool:
        """Attention by the spans of single matrices, where all of it is found and moved no more than the rest did."""
        wanted = {s for s in self._lost if s.role in SPANNED}
        found = match_spans(self._candidate, self._reference, self._left, wanted)
        level = self._level()
        moved = [distance for _, distance in found.values()]
        if len(found) < len(wanted) or not moved or max(moved) > ONE_SPAN * (SPANS_WITHIN * level + SPANS_ROUNDED):
            return False
        if float(np.median(moved)) > SPANS_WITHIN * level + SPANS_ROUNDED:
            return False
        for slot, (mine, distance) in found.items():
            size, still = self._candidate.slots[mine].numel, Coherence(0.0, 0.0, 0.0)
            self._add(slot, size, 1.0, distance / SPAN_PER_CHANGE, still)
        attention = [{s for s in side if s.layer >= 0 and s.role not in MLP} for side in (self._left, self._lost)]
        self._take(*attention)
        inside = any(mine.layer != slot.layer for slot, (mine, _) in found.items())
        self.words += ["renamed"] if inside else []
        return True

    def _heads_close(self) -> bool:
        """Whether attention as a whole moved no more than a drawn change of the size seen elsewhere moves it."""
        found = [k for k in self._kin.heads if self._related(k.candidate, k.reference)]
        if not found:
            return False
        typical = replace(
            found[0],
            values=float(np.median([k.values for k in found])),
            queries=float(np.median([k.queries for k in found])),
        )
        return self._head_close(typical, 1.0)

    def _head_close(self, layer: HeadKin, slack: float) -> bool:
        level, step = self._level(), STEP_SLACK * abs(self._kin.toward_base)
        values = step * float(np.median([k.values for k in self._own])) if self._own else 0.0
        queries = step * float(np.median([k.queries for k in self._own])) if self._own else 0.0
        return (
            layer.values <= slack * max(VALUES_WITHIN * level, ROUNDED_VALUES) + values
            and layer.queries <= slack * max(QUERIES_WITHIN * level, ROUNDED_QUERIES) + queries
        )  # fmt: skip

    def tables(self) -> None:
        """Token angles stand for embeddings and head."""
        mine = {s for s in self._left if s.layer < 0 and s.role is not Role.OTHER}
        wanted = {s for s in self._lost if s.layer < 0 and s.role is not Role.OTHER}
        close = self._kin.embedded and (bool(self._kin.layers) or self._kin.token_shift <= SAME_ANGLES)
        if not mine or not wanted or not close:
            return
        self._take(mine, wanted)
        size = sum(self._candidate.slots[s].numel for s in mine)
        slot = min((s for s in wanted if s.role in (Role.EMBED, Role.HEAD)), default=min(wanted))
        judged = [c for layer in self._kin.layers for c in layer.coherence.values() if c.effective > 0]
        agree = Coherence(0.0, float(np.mean([c.z for c in judged])), 1.0) if judged else NOTHING
        level = float(np.median([layer.size for layer in self._kin.layers])) if self._kin.layers else 0.0
        settled = self._kin.head_shift is None or self._kin.head_shift <= max(HEAD_ANGLES * self._level(), 2e-3)
        self._add(slot, size, self._kin.tokens, level, agree, channel="kinship" if settled else UNSETTLED)
        if Role.EMBED in {s.role for s in wanted}:
            self.words.append("rotated:residual" if self._rotated else "permuted:vocabulary")

    @property
    def _rotated(self) -> bool:
        """Whether no matrix that reads or writes the stream kept its basis."""
        return not any(s.role in STREAM for s in self._pairs)

    def _related(self, i: int, j: int) -> bool:
        """Whether two attention layers belong together: units say so, or do not know the order of layers."""
        by_units = {layer.candidate: layer.reference for layer in self._kin.layers}
        if i in by_units:
            return by_units[i] == j or bool(self._candidate.meta.ambiguous)
        return any(s.layer == j and p.candidate.layer == i and s.role in STREAM for s, p in self._pairs.items())

    def _level(self) -> float:
        """How much the rest of the model changed, relative: its units, else what corresponds in one basis."""
        sizes = [layer.moved for layer in self._kin.layers]
        if not any(sizes):
            sizes = [c.relative if c.kind else c.residual for c in self._paired if c.slot.role in STREAM]
        return float(np.sqrt(np.mean(np.square(sizes)))) if sizes else 0.0

    def _take(self, mine: set[Slot], wanted: set[Slot]) -> None:
        self.accounted |= mine
        self.covered |= wanted

    def _add(
        self, slot: Slot, numel: int, similarity: float, relative: float, agree: Coherence, *,
        channel: str = "kinship", left: float | None = None,
    ) -> None:  # fmt: skip
        toward, residual = self._kin.toward_base, relative if left is None else left
        self.changes.append(
            SlotChange(slot, numel, similarity, relative, ROUNDING[usual_dtype(self._candidate)], 1.0, 0.0, toward,
                       residual if residual > EXACT_PROBES else 0.0, agree, channel=channel)
        )  # fmt: skip


SAME_ANGLES = 0.02
"""Token angles as close as this are one embedding's by themselves; else only together with units that match."""

HEADS_EXACT = 1e-6
HEAD_ANGLES = 0.5
"""Cosines between head rows may move by this fraction of the relative change of the rest; noise moves them .2 of it."""

STREAM = frozenset({Role.QUERY, Role.KEY, Role.VALUE, Role.OUT, Role.GATE, Role.UP, Role.DOWN})


def _unit_words(layer: LayerKin, candidate: Fingerprint, reference: Fingerprint, rotated: bool) -> list[str]:
    """What must have been done to units that lost their place, or keep it and lost their basis."""
    a, b = candidate.layers[layer.candidate].units, reference.layers[layer.reference].units
    if a is not None and b is not None and a.count != b.count:
        return ["split:mlp"] if layer.ordered else ["split:mlp", "permuted:mlp"]
    if not layer.ordered:
        return ["permuted:mlp"]
    return [] if rotated else ["rescaled:mlp"]


def _head_words(ordered: bool, wanted: set[Slot], moved: float, rotated: bool) -> list[str]:
    """The same for heads."""
    words = [] if ordered else ["permuted:heads"]
    roles = {s.role for s in wanted}
    if ordered and not rotated:
        words += ["mixed:value-output"] if roles & {Role.VALUE, Role.OUT} else []
        words += ["rotated:query-key"] if roles & {Role.QUERY, Role.KEY} else []
    return words


def usual_dtype(fingerprint: Fingerprint) -> torch.dtype:
    """Dtype that most values were rounded to, whatever they are stored in."""
    sizes: dict[str, int] = {}
    for entry in fingerprint.tensors:
        sizes[entry.dtype] = sizes.get(entry.dtype, 0) + entry.numel
    name = max(sizes, key=lambda k: sizes[k]) if sizes else ""
    kept = [s.grid for s in fingerprint.slots.values() if s.grid is not None]
    if name == "F32" and kept and sum(map(is_bfloat16, kept)) > 0.5 * len(kept):
        return torch.bfloat16
    return {"BF16": torch.bfloat16, "F16": torch.float16}.get(name, torch.float32)


def _much(slots: set[Slot], fingerprint: Fingerprint) -> bool:
    """Whether these slots hold more than a few per cent of the matrices' parameters."""
    matrices = {s: k.numel for s, k in fingerprint.slots.items() if len(k.shape) >= 2}
    return sum(matrices.get(s, 0) for s in slots) > 0.02 * sum(matrices.values())
