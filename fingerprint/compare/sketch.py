"""Sketch depth: fingerprints alone.

What lies in one basis is compared tensor by tensor (``correspond``, ``gridded``), norm gains folded in. What a change
of gauge moved out of it is seen through invariants (``kinship``): units tell whether the change was drawn, heads and
token angles whether it stayed as small as the units say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch

from fingerprint.architecture.interface import Role, Slot
from fingerprint.compare import gauge, gridded
from fingerprint.compare.correspond import Pair, correspond, grids, projections, shared_places
from fingerprint.compare.evidence import BaseGeometry, Evidence, Mix, SlotChange
from fingerprint.compare.full import ROUNDING, geometry
from fingerprint.compare.overlap import low_rank, overlap
from fingerprint.compare.regress import Arrays, mixture
from fingerprint.compare.unpaired import through_invariants, usual_dtype
from fingerprint.compare.vectors import VECTOR_EXACT, Steps, stacked, vector_changes
from fingerprint.fingerprint import Fingerprint


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
    changes, rescaled = gauge.rescaled(changes, ROUNDING[usual_dtype(candidate)])
    left, lost = _unpaired(candidate, reference, pairs)
    seen = through_invariants(candidate, reference, base, pairs, left, lost, changes)
    left -= seen.accounted
    lost -= seen.covered
    free, shifted = gauge.shifted_biases(candidate, reference, pairs)
    free |= gauge.free_vectors(reference, pairs) | (gauge.scaled_vectors(reference) if rescaled else frozenset())
    added += shifted
    steps = Steps.of(changes, pairs, rooted, base)
    vectors = vector_changes(candidate, reference, pairs, free, steps)

    def delta(slot: Slot) -> torch.Tensor:
        mine, other = candidate.slots[pairs[slot].candidate].linear, reference.slots[slot].linear
        return torch.from_numpy(steps.delta(slot, mine, other))

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
        stacks=stacked([c for c in vectors if c.relative > VECTOR_EXACT and reference.slots[c.slot].whole], delta),
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
        places = shared_places(candidate, reference, pair)
        yield gridded.change(slot, mine, theirs, c, r, before, refolded=pair.folded, places=places)


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
