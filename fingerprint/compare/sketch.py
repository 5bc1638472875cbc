"""Sketch depth: fingerprints alone.

What lies in one basis is compared tensor by tensor (``correspond``, ``gridded``), norm gains folded in. What a change
of gauge moved out of it is seen through invariants (``kinship``): units tell whether the change was drawn, heads and
token angles whether it stayed as small as the units say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from fingerprint.architecture.interface import Role, Slot
from fingerprint.compare import gauge, gridded
from fingerprint.compare.changes import cast
from fingerprint.compare.correspond import Pair, correspond, grids, projections, shared_columns
from fingerprint.compare.drawn import EXACT as EXACT_PROBES
from fingerprint.compare.evidence import BaseGeometry, Evidence, Mix, SlotChange
from fingerprint.compare.full import ROUNDING, geometry
from fingerprint.compare.kinship import HeadKin, Kinship, LayerKin, kinship
from fingerprint.compare.overlap import low_rank, overlap
from fingerprint.compare.regress import Arrays, mixture
from fingerprint.compare.structure import Coherence, coherence
from fingerprint.fingerprint import Fingerprint
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

STEP_SLACK = 1.5
"""Along a step toward or away from the base, heads move as far as the reference's own training moved them, in
proportion; single heads a little farther."""

ONE_LAYER = 10.0
"""A single layer has few heads, and some heads are ill-conditioned: it may move this much more than all layers may."""


def gather(
    candidate: Fingerprint,
    reference: Fingerprint,
    *,
    base: Fingerprint | None,
    known: Mapping[str, Fingerprint],
    blank: Evidence,
) -> Evidence:
    """Evidence from fingerprints.

    Args:
        candidate: Of the candidate.
        reference: Of the reference.
        base: Of a model both may come from.
        known: Further known models by content root, tried in linear combinations.
        blank: Digests and content identity, to be filled in.
    """
    idle = gauge.identity_layers(candidate) - gauge.identity_layers(reference)
    candidate = gauge.without(candidate, idle)
    added = ["appended:identity-layers"] if idle else []
    if Slot(Role.HEAD) in candidate.slots and Slot(Role.HEAD) not in reference.slots:
        reference, base = gauge.untied(reference), None if base is None else gauge.untied(base)
        added.append("untied")
    pairs = correspond(candidate, reference)
    ours, theirs = projections(candidate, reference, pairs)
    rooted = {} if base is None else correspond(base, reference)
    words = gauge.norms(candidate, pairs)
    changes = list(_changes(candidate, reference, base, pairs, rooted))
    changes, rescaled = gauge.rescaled(changes, ROUNDING[_dtype(candidate)])
    left, lost = _unpaired(candidate, reference, pairs)
    seen = _through_invariants(candidate, reference, base, pairs, left, lost, changes)
    left -= seen.accounted
    lost -= seen.covered
    free, shifted = gauge.shifted_biases(candidate, reference, pairs)
    free |= gauge.free_vectors(reference, pairs) | (gauge.scaled_vectors(reference) if rescaled else frozenset())
    added += shifted
    steps = _Steps.of(changes, pairs, rooted, base)
    vectors = _vectors(candidate, reference, pairs, free, steps)
    before = {} if base is None else projections(base, reference, rooted)[0]
    slots = [s for s in theirs if theirs[s].ndim == 2]
    own = (*added, *words, *rescaled, *_layout(candidate, reference, pairs), *seen.words)
    matrices = (*changes, *seen.changes)
    return replace(
        blank,
        transforms=tuple(dict.fromkeys((*blank.transforms, *own))),
        exact_gauge=not (words or rescaled or seen.changes),
        changes=matrices,
        vectors=vectors,
        stacks=_stacks(candidate, reference, pairs, vectors, steps),
        unmatched=tuple((s, candidate.slots[s].numel) for s in sorted(left) if _counts(s, candidate, lost)),
        missing=tuple((s, reference.slots[s].numel) for s in sorted(lost)),
        base=_geometry(ours, theirs, before, slots) if before else None,
        mix=_mix(ours, theirs, {k: projections(f, reference, correspond(f, reference))[0] for k, f in known.items()},
                 slots, blank.reference),
        overlap=overlap(ours, theirs, before, changes) if low_rank(changes) else None,
    )  # fmt: skip


def _changes(
    candidate: Fingerprint, reference: Fingerprint, base: Fingerprint | None, pairs: Mapping[Slot, Pair],
    rooted: Mapping[Slot, Pair],
) -> Iterator[SlotChange]:  # fmt: skip
    """Changes of paired matrices."""
    for slot, pair in pairs.items():
        mine, theirs = candidate.slots[pair.candidate], reference.slots[slot]
        if len(theirs.shape) < 2:
            continue
        if gridded.same_values(mine, theirs):
            yield gridded.untouched(slot, theirs)
            continue
        c, r = _seen(candidate, reference, pair)
        before = None
        if base is not None and slot in rooted:
            mode = replace(pair, candidate=rooted[slot].candidate, projected=pair.projected and rooted[slot].projected)
            before = _seen(base, reference, mode)[0]
            if before.grid.shape != r.grid.shape:
                before = None
        columns = shared_columns(candidate, reference, pair)
        yield gridded.change(slot, mine, theirs, c, r, before, refolded=pair.folded, columns=columns)


def _seen(model: Fingerprint, reference: Fingerprint, pair: Pair) -> tuple[gridded.Seen, gridded.Seen]:
    c, r = grids(model, reference, pair)
    if not pair.projected:
        return gridded.Seen(None, c), gridded.Seen(None, r)
    ours, theirs = projections(model, reference, {pair.reference: pair})
    return gridded.Seen(ours[pair.reference], c), gridded.Seen(theirs[pair.reference], r)


def _unpaired(
    candidate: Fingerprint, reference: Fingerprint, pairs: Mapping[Slot, Pair]
) -> tuple[set[Slot], set[Slot]]:
    """Slots of either without a counterpart in one basis."""
    taken = {pair.candidate for pair in pairs.values()}
    return {s for s in candidate.slots if s not in taken}, {s for s in reference.slots if s not in pairs}


def _layout(candidate: Fingerprint, reference: Fingerprint, pairs: Mapping[Slot, Pair]) -> list[str]:
    """Words for what was moved, added or renamed."""
    words = []
    if any(candidate.slots[p.candidate].tensor != reference.slots[r].tensor for r, p in pairs.items()):
        words.append("renamed")
    if any(p.candidate.expert != r.expert for r, p in pairs.items()):
        words.append("permuted:experts")
    embed, head = pairs.get(Slot(Role.EMBED)), pairs.get(Slot(Role.HEAD))
    tables = [pair for pair in (embed, head) if pair is not None]
    if any(candidate.slots[p.candidate].shape != reference.slots[p.reference].shape for p in tables):
        words.append("padded:vocabulary")
    if head is not None and not head.projected and gridded.is_shift(*grids(candidate, reference, head)):
        words.append("shifted:head")
    return list(dict.fromkeys(words))


def _counts(slot: Slot, candidate: Fingerprint, lost: set[Slot]) -> bool:
    """Whether an unpaired slot is held against the candidate: not a tensor that no role uses, beside a whole model."""
    return slot.role is not Role.OTHER or candidate.meta.family == "generic" or bool(lost)


@dataclass(frozen=True)
class _Seen:
    """What invariants show of slots without a counterpart in one basis."""

    changes: tuple[SlotChange, ...] = ()
    words: tuple[str, ...] = ()
    accounted: frozenset[Slot] = frozenset()
    covered: frozenset[Slot] = frozenset()


def _through_invariants(
    candidate: Fingerprint, reference: Fingerprint, base: Fingerprint | None, pairs: Mapping[Slot, Pair],
    left: set[Slot], lost: set[Slot], changes: Sequence[SlotChange],
) -> _Seen:  # fmt: skip
    if not (_much(left, candidate) or _much(lost, reference)):
        return _Seen()
    kin = kinship(candidate, reference, base)
    own = () if base is None or abs(kin.toward_base) < STEP else kinship(base, reference).heads
    found = _Invariants(candidate, reference, kin, own, pairs, left, lost, changes)
    found.units()
    found.heads()
    found.tables()
    return _Seen(tuple(found.changes), tuple(dict.fromkeys(found.words)), frozenset(found.accounted),
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
                Coherence(0.0, 0.0, 0.0 if settled else 1.0), channel="kinship" if settled else gridded.UNSETTLED,
            )  # fmt: skip
            self.words += _head_words(layer.ordered, wanted, moved, self._rotated)

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
        agree = Coherence(0.0, float(np.mean([c.z for c in judged])), 1.0) if judged else gridded.NOTHING
        level = float(np.median([layer.size for layer in self._kin.layers])) if self._kin.layers else 0.0
        settled = self._kin.head_shift is None or self._kin.head_shift <= max(HEAD_ANGLES * self._level(), 2e-3)
        self._add(slot, size, self._kin.tokens, level, agree, channel="kinship" if settled else gridded.UNSETTLED)
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
            SlotChange(slot, numel, similarity, relative, ROUNDING[_dtype(self._candidate)], 1.0, 0.0, toward,
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


def _dtype(fingerprint: Fingerprint) -> torch.dtype:
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


@dataclass(frozen=True)
class _Steps:
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
    ) -> _Steps:  # fmt: skip
        """From the changes of matrices."""
        found = [c.toward_base for c in changes if c.relative > 0.0]
        toward = float(np.median(found)) if found else 0.0
        if base is None or abs(toward) < STEP:
            return cls(0.0, {})
        shared = {s: base.slots[p.candidate].linear for s, p in rooted.items() if s in pairs}
        return cls(toward, {s: x.astype(np.float64) for s, x in shared.items()})

    def delta(self, slot: Slot, ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
        """The change of a vector without the step."""
        x, y = ours.astype(np.float64), theirs.astype(np.float64)
        before = self.before.get(slot)
        return x - y if before is None or before.shape != y.shape else x - y - self.toward * (y - before)


STEP = 0.01
"""Smallest step along the base that is taken out of vectors."""


def _vectors(
    candidate: Fingerprint, reference: Fingerprint, pairs: Mapping[Slot, Pair], free: frozenset[Slot], steps: _Steps
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
        found.append(
            SlotChange(slot, theirs.numel, cosine, relative, 0.0, 1.0, 0.0, 0.0, relative, gridded.NOTHING, kind)
        )
    return tuple(found)


VECTOR_EXACT = 1e-6
"""Relative size below which a vector's change is float32 arithmetic."""

STACK_LEAST = 4
"""Vectors of one length that make a stack worth judging."""


def _stacks(
    candidate: Fingerprint, reference: Fingerprint, pairs: Mapping[Slot, Pair], vectors: Sequence[SlotChange],
    steps: _Steps,
) -> tuple[SlotChange, ...]:  # fmt: skip
    """Changes of equally long norms (and biases) of all layers as one matrix each, as ``full.stacked``."""
    groups: dict[str, list[SlotChange]] = {}
    for c in vectors:
        if c.relative > VECTOR_EXACT and reference.slots[c.slot].whole:
            kind = "biases" if c.slot.role.value.endswith("_bias") else "norms"
            groups.setdefault(f"{kind}:{c.numel}", []).append(c)
    out = []
    for name, members in groups.items():
        if len(members) < STACK_LEAST:
            continue
        delta = np.stack(
            [
                steps.delta(c.slot, candidate.slots[pairs[c.slot].candidate].linear, reference.slots[c.slot].linear)
                for c in members
            ]
        )
        relative = float(np.mean([c.relative for c in members]))
        agree = coherence(torch.from_numpy(delta))
        slot = Slot(Role.OTHER, name=name)
        out.append(SlotChange(slot, delta.size, 1.0, relative, 0.0, 1.0, 0.0, 0.0, relative, agree, channel="vectors"))
    return tuple(out)


def _geometry(
    ours: Mapping[Slot, np.ndarray], theirs: Mapping[Slot, np.ndarray], before: Mapping[Slot, np.ndarray],
    slots: Sequence[Slot],
) -> BaseGeometry | None:  # fmt: skip
    return geometry(_tensors(ours), _tensors(theirs), _tensors(before), slots)


def _tensors(arrays: Mapping[Slot, np.ndarray]) -> dict[Slot, torch.Tensor]:
    return {s: torch.from_numpy(x) for s, x in arrays.items()}


def _mix(
    ours: Mapping[Slot, np.ndarray], theirs: Mapping[Slot, np.ndarray],
    known: Mapping[str, Mapping[Slot, np.ndarray]], slots: Sequence[Slot], root: str,
) -> Mix | None:  # fmt: skip
    pool: dict[str, Arrays] = {root: _tensors(theirs)}
    pool |= {k: _tensors(v) for k, v in known.items() if k != root}
    shared = [s for s in slots if all(s in a and a[s].shape == theirs[s].shape for a in pool.values())]
    if len(pool) < 2 or not shared:
        return None
    result = mixture(_tensors(ours), list(pool.values()), shared)
    return Mix(tuple(zip(pool, result.weights, strict=True)), result.residual)
