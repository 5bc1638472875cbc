"""Full depth: both checkpoints are read, symmetries undone, and every matched tensor compared value by value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch

from fingerprint.architecture.interface import Dims, Norm, Role, Slot
from fingerprint.compare import changes, nuisance
from fingerprint.compare.align import Alignment, Canonical, align
from fingerprint.compare.evidence import BaseGeometry, Evidence, Mix, SlotChange
from fingerprint.compare.fitting import Fitted, along, fitted, flat
from fingerprint.compare.moments import Moments
from fingerprint.compare.regress import Arrays, inner, mixture, project
from fingerprint.compare.structure import Coherence, coherence, gain
from fingerprint.compare.vectors import stacked

ROUNDING = {torch.bfloat16: 1.7e-3, torch.float16: 2.1e-4, torch.float32: 3e-6, torch.float64: 3e-6}
"""RMS relative error of storing a Gaussian matrix, and of aligning it in float32 (measured on 4096 x 1024)."""

RELABELLING = frozenset(
    {
        "renamed", "resharded", "transposed", "axes-permuted", "retied", "untied", "fused", "split-fused",
        "padded:vocabulary", "permuted:vocabulary", "permuted:mlp", "permuted:heads", "permuted:experts",
        "appended:identity-layers", "dropped:layers",
    }
)  # fmt: skip
"""Transforms that move values without computing new ones: after undoing them an untouched copy has delta zero."""


def relabelled(transforms: Sequence[str]) -> bool:
    """Whether undoing ``transforms`` computed no new values."""
    return all(t in RELABELLING for t in transforms)


MAX_RANK_SIDE = 1024
"""Shorter side up to which a numerical rank is measured (an eigendecomposition, cubic)."""


def gather(
    candidate: Canonical,
    reference: Canonical,
    *,
    stored: torch.dtype,
    base: Canonical | None = None,
    known: Mapping[str, Canonical] | None = None,
    moments: Callable[[], Mapping[Slot, Moments]] | None = None,
    blank: Evidence,
) -> Evidence:
    """Evidence from whole tensors.

    Args:
        candidate: All tensors of the candidate.
        reference: All tensors of the reference.
        stored: Dtype the candidate's matrices are stored in (decides what rounding alone would leave).
        base: A model both may come from, in the reference's own gauge.
        known: Further known models by content root, tried in linear combinations.
        moments: Runs the reference and returns where its inputs and gradients point; only called for low-rank changes.
        blank: Digests and content identity, to be filled in.
    """
    found = align(candidate, reference)
    exact = relabelled(found.transforms)
    rounding = 0.0 if exact else ROUNDING.get(stored, ROUNDING[torch.bfloat16])
    others = _in_gauge(found, reference, {"base": base} if base is not None else {})
    base_arrays = others.get("base")
    matched = [slot for slot in found.matched if found.matched[slot] > 0.0 and _taken_over(slot, found)]
    rooted = {} if base is None else _base_directions(found, reference, base)
    fits = {s: fitted(s, found, rooted.get(s, []), stored, exact) for s in matched}
    if exact and rooted:
        fits |= along(found, fits, rooted, stored)
    left = {s: f.left for s, f in fits.items()}
    if rooted and _turned(found):
        left = _apart(left, found, rooted, reference.layout.dims)
    views = _views(found, left, reference.layout.dims)
    compared = tuple(_change(s, found, fits[s], views, rounding, reference.layout.dims) for s in matched)
    matrices = tuple(c for c in compared if found.reference[c.slot].ndim >= 2)
    vectors = tuple(c for c in compared if found.reference[c.slot].ndim < 2)
    slots = [c.slot for c in matrices]

    def delta(slot: Slot) -> torch.Tensor:
        return found.aligned[slot].double() - found.reference[slot].double()

    adapter = moments is not None and low_rank(matrices)
    return replace(
        blank,
        transforms=tuple(dict.fromkeys((*blank.transforms, *found.transforms))),
        exact_gauge=exact,
        changes=matrices,
        vectors=vectors,
        stacks=stacked([c for c in vectors if c.relative > 0.0], delta) if exact else (),
        unmatched=_sizes(_counted(found, candidate), candidate.tensors)
        + tuple((s, found.reference[s].numel()) for s in found.matched if not _taken_over(s, found)),
        missing=_sizes(found.unmatched_reference, reference.tensors),
        base=None if base_arrays is None else geometry(found.aligned, found.reference, base_arrays, slots),
        mix=_mix(found, reference, known or {}, slots, blank.reference),
        gain=_gain(found, reference, matrices, moments()) if adapter and moments is not None else None,
        statistics={**blank.statistics, **{f"align.{k}": v for k, v in found.witness.evidence.items()}},
    )


LOW_RANK = 0.2
"""Numerical rank (90% of the energy) as a fraction of full rank, up to which a change may be an adapter."""


def low_rank(matrices: Sequence[SlotChange]) -> bool:
    """Whether every changed matrix is changed by something of low rank, as an adapter does."""
    live = [c.rank for c in matrices if c.residual > 0.0 and c.rank < 1.0]
    return bool(live) and float(np.median(live)) <= LOW_RANK


def _gain(
    found: Alignment, reference: Canonical, matrices: Sequence[SlotChange], where: Mapping[Slot, Moments]
) -> tuple[float, float] | None:
    """Mean z of the deltas' gains on real inputs and on output gradients, over slots in the reference's own gauge."""
    values = []
    for c in matrices:
        m = where.get(c.slot)
        if m is None or c.residual == 0.0 or not _untouched(found, reference, c.slot):
            continue
        delta = found.aligned[c.slot].double() - found.reference[c.slot].double()
        if delta.shape == (m.gradients.shape[0], m.inputs.shape[0]):
            values.append((gain(delta, m.inputs).z, gain(delta.T, m.gradients).z))
    if not values:
        return None
    mean = np.mean(np.array(values), axis=0)
    return float(mean[0]), float(mean[1])


def geometry(candidate: Arrays, reference: Arrays, base: Arrays, slots: Sequence[Slot]) -> BaseGeometry | None:
    """Delta-space geometry over ``slots`` that all three have in one gauge; None when there is nothing to compare."""
    shared = [s for s in slots if s in base and base[s].shape == reference[s].shape == candidate[s].shape]
    if not shared:
        return None
    c = {s: candidate[s].double() - base[s].double() for s in shared}
    r = {s: reference[s].double() - base[s].double() for s in shared}
    cc, rr, cr = inner(c, c, shared), inner(r, r, shared), inner(c, r, shared)
    bb = inner(base, base, shared)
    if bb <= 0.0:
        return None
    cosine = cr / (cc * rr) ** 0.5 if cc > 0 and rr > 0 else 0.0
    return BaseGeometry(
        cosine, cr / rr if rr > 0 else 0.0, cr / cc if cc > 0 else 0.0, (cc / bb) ** 0.5, (rr / bb) ** 0.5
    )


def _turned(found: Alignment) -> bool:
    """Whether a dense rotation was fitted and undone."""
    return "rotated:residual" in found.transforms and found.witness.permutations.get("residual") is None


ROUNDS = 6
"""Alternating projections between the rotation's tangent space and the parent's own change."""


def _apart(
    left: Mapping[Slot, torch.Tensor], found: Alignment, rooted: Mapping[Slot, Sequence[torch.Tensor]], dims: Dims
) -> dict[Slot, torch.Tensor]:
    """Remaining deltas without a rotation and the parent's own change, which were fitted one after the other.

    The rotation was fitted to a candidate that also holds a part of that change, so each fit took some of the other's.
    """
    reference = {s: flat(found.reference[s]).double() for s in left}
    out = dict(left)
    for _ in range(ROUNDS):
        out = nuisance.remove_rotation(out, reference, dims.hidden)
        for slot, others in rooted.items():
            if slot in out and out[slot].ndim == 2:
                out[slot] = project(out[slot], [reference[slot] - flat(b).double() for b in others]).residual
    return out


View = tuple[Mapping[Slot, torch.Tensor], Mapping[Slot, torch.Tensor]]
"""What is left of the deltas, and the reference, both in one gauge."""


def _views(found: Alignment, left: Mapping[Slot, torch.Tensor], dims: Dims) -> list[View]:
    """The remaining deltas in the reference's gauge and, where it differs by more than relabelling, the candidate's.

    A learned change is coherent in both; what was drawn, or rounded, is iid where that happened.
    """
    matrices = {s: x for s, x in left.items() if x.ndim == 2}
    reference = {s: flat(found.reference[s]) for s in matrices}
    views: list[View] = [_cleaned(found, matrices, reference, dims)]
    if found.witness.rotation is not None or any(nuisance.heads(s, found.transforms) for s in matrices):
        mine = {s: nuisance.own_gauge(s, x, found.witness, dims) for s, x in matrices.items()}
        theirs = {s: nuisance.own_gauge(s, x, found.witness, dims) for s, x in reference.items()}
        views.append(_cleaned(found, mine, theirs, dims))
    return views


def _cleaned(
    found: Alignment, left: Mapping[Slot, torch.Tensor], reference: Mapping[Slot, torch.Tensor], dims: Dims
) -> View:
    """Without what the estimation errors of the undone transforms leave behind."""
    if relabelled(found.transforms):
        return left, reference
    out = {s: nuisance.remove_scalings(x, reference[s]) for s, x in left.items()}
    if _turned(found):
        out = nuisance.remove_rotation(out, reference, dims.hidden)
        out = {s: nuisance.remove_scalings(x, reference[s]) for s, x in out.items()}
    return out, reference


def _change(
    slot: Slot, found: Alignment, fitted: Fitted, views: Sequence[View], rounding: float, dims: Dims
) -> SlotChange:
    c, r = flat(found.aligned[slot]), flat(found.reference[slot])
    nothing = Coherence(0.0, 0.0, 0.0)
    if fitted.relative == 0.0:
        return SlotChange(slot, r.numel(), 1.0, 0.0, rounding, 0.0, 0.0, 0.0, 0.0, nothing)
    options = [_coherence(slot, left[slot], ref[slot], found, dims) for left, ref in views if slot in left]
    if slot.role is Role.HEAD and "shifted:head" in found.transforms and within_rounding(fitted.left, found, slot):
        options = []
    left = views[0][0].get(slot, fitted.left)
    return SlotChange(
        slot=slot,
        numel=r.numel(),
        similarity=fitted.similarity,
        relative=fitted.relative,
        rounding=rounding,
        changed=float((c != r).double().mean()),
        scale=fitted.coefficients[0],
        toward_base=fitted.coefficients[1] if len(fitted.coefficients) > 1 else 0.0,
        residual=float(left.norm()) / (float(r.double().norm()) or 1.0),
        coherence=min(options, key=lambda o: o.z) if options else nothing,
        kind=fitted.kind,
        rank=_rank(left) if left.ndim == 2 and slot.role not in TABLES else 1.0,
    )


TABLES = (Role.EMBED, Role.HEAD)

QUIET = 1e-2
"""Heads with less than this share of the loudest head's energy only show how exactly they were undone."""


def _coherence(slot: Slot, delta: torch.Tensor, reference: torch.Tensor, found: Alignment, dims: Dims) -> Coherence:
    """Coherence in coordinates that undoing could not have touched, averaged over mixed heads, over distinct rows."""
    if slot.role in TABLES:
        rows = distinct_rows(reference)
        delta, reference = delta[rows], reference[rows]
    blocks = list(nuisance.blocks(slot, delta, reference, found.transforms, dims))
    energies = [float((b.double() ** 2).sum()) for b in blocks]
    telling = [b for b, e in zip(blocks, energies, strict=True) if e >= QUIET * max(energies)]
    parts = [coherence(b) for b in telling]
    if len(parts) == 1:
        return parts[0]
    return Coherence(
        float(np.mean([p.excess for p in parts])),
        float(np.sum([p.z for p in parts]) / np.sqrt(len(parts))),
        float(np.sum([p.effective for p in parts])),
    )


SHIFT_ROUNDING = 2.0**-7
"""Half a unit in the last place of bf16, relative, with room for the shift's own rounding."""


def within_rounding(delta: torch.Tensor, found: Alignment, slot: Slot) -> bool:
    """Whether a shifted head differs by no more than rounding of what was stored, entry by entry.

    Rounding after a common row was added depends on the few bits that rows have in common, so it is coherent; but it
    is bounded by the size of the row that was added, which no training is.
    """
    shift = found.witness.scales.get("head-shift")
    head = found.reference[slot]
    size = head.abs() + head.square().mean(0).sqrt() + (0.0 if shift is None else shift.abs())
    return bool((delta.abs() <= SHIFT_ROUNDING * size + 1e-9).double().mean() > 0.999)


def distinct_rows(table: torch.Tensor) -> torch.Tensor:
    """Rows of a vocabulary that are not near-copies of an earlier one, int64.

    Tokens that training never met keep one common vector: they round alike, and their agreement is no learning. Rows
    with one 16-bit sign code (centred) are near-copies.
    """
    generator = torch.Generator().manual_seed(0)
    x = table.double()
    signs = (x - x.mean(0)) @ torch.randn(x.shape[1], 16, generator=generator, dtype=torch.float64) > 0
    codes = (signs.long() << torch.arange(16)).sum(1)
    _, inverse = torch.unique(codes, return_inverse=True)
    first = torch.full((int(inverse.max()) + 1,), x.shape[0], dtype=torch.long) if x.shape[0] else inverse
    first = first.scatter_reduce(0, inverse, torch.arange(x.shape[0]), "amin")
    return first.sort().values


def _rank(delta: torch.Tensor) -> float:
    short = min(delta.shape)
    if short < 8 or short > MAX_RANK_SIDE:
        return 1.0
    return changes.numerical_rank(delta) / short


SEED_COSINE = 0.7
"""Cosine that a tensor without a role must exceed: parts that training hardly moved keep what a common seed gave them
(.24 to .54 in two tagging pipelines that share nothing else), embeddings that were taken over keep .87 and more."""


def _taken_over(slot: Slot, found: Alignment) -> bool:
    if slot.role is not Role.OTHER:
        return True
    x, y = found.aligned[slot].double(), found.reference[slot].double()
    size = float(x.norm() * y.norm())
    return size == 0.0 or float((x * y).sum()) / size >= SEED_COSINE


def _counted(found: Alignment, candidate: Canonical) -> list[Slot]:
    """Unmatched candidate slots that matter: not those of identity layers, nor tensors that no role uses.

    A layer whose two writers are zero adds nothing. Tensors without a role are only discounted in a known family.
    """
    idle = {
        n
        for n in {s.layer for s in candidate.tensors if s.layer >= 0} - set(found.layer_map)
        if not any(candidate.tensors[s].any() for s in candidate.tensors if s.layer == n and s.role in nuisance.WRITERS)
    }
    known = candidate.layout.family != "generic"
    return [
        s
        for s in found.unmatched_candidate
        if s.layer not in idle and not (known and s.role is Role.OTHER and not found.unmatched_reference)
    ]


def _sizes(slots: Sequence[Slot], tensors: Mapping[Slot, torch.Tensor]) -> tuple[tuple[Slot, int], ...]:
    return tuple((s, tensors[s].numel()) for s in slots if s in tensors)


def _in_gauge(found: Alignment, reference: Canonical, others: Mapping[str, Canonical | None]) -> dict[str, Arrays]:
    """Other models of the reference's own gauge, with norms folded where the reference's were.

    Slots whose gauge changed in any other way are left out.
    """
    ratios = {s: r for s in found.reference if (r := _column_ratio(found, reference, s)) is not None}
    out: dict[str, Arrays] = {}
    for name, model in others.items():
        if model is None:
            continue
        arrays = {}
        for slot, ratio in ratios.items():
            x = model.tensors.get(slot)
            if x is not None and x.shape == found.reference[slot].shape:
                arrays[slot] = x if ratio.numel() == 0 else x * _own_gain(ratio, slot, reference, model)
        out[name] = arrays
    return out


def _base_directions(found: Alignment, reference: Canonical, base: Canonical) -> dict[Slot, list[torch.Tensor]]:
    """Per slot, the models whose differences to the reference span its own change from the base.

    Where a norm is folded in, that change has two parts, the weights' and the gain's; amplifying or taking back both
    by one factor leaves only their product, which is of second order.
    """
    out: dict[Slot, list[torch.Tensor]] = {}
    for slot in found.reference:
        ratio, x = _column_ratio(found, reference, slot), base.tensors.get(slot)
        if ratio is None or x is None or x.shape != found.reference[slot].shape:
            continue
        if ratio.numel() == 0:
            out[slot] = [x]
        else:
            own = _own_gain(ratio, slot, reference, base)
            out[slot] = [x * ratio, reference.tensors[slot] * own]
    return out


def _column_ratio(found: Alignment, reference: Canonical, slot: Slot) -> torch.Tensor | None:
    """What the reference's columns were multiplied by; empty when nothing was done, None when it is neither."""
    now, raw = found.reference[slot], reference.tensors.get(slot)
    if raw is None or now.shape != raw.shape:
        return None
    if torch.equal(now, raw):
        return now.new_empty(0)
    if now.ndim != 2:
        return None
    ratio = (now * raw).sum(0) / (raw * raw).sum(0).clamp_min(1e-30)
    return ratio if float((raw * ratio - now).norm()) <= 1e-4 * float(now.norm()) else None


def _own_gain(ratio: torch.Tensor, slot: Slot, reference: Canonical, model: Canonical) -> torch.Tensor:
    """The fold factor of ``model``: the reference's, corrected by the ratio of their gains."""
    norm = Slot(NORM_BEFORE[slot.role], slot.layer) if slot.role in NORM_BEFORE else None
    norm = norm if slot.layer >= 0 else Slot(Role.FINAL_NORM)
    ours, theirs = model.tensors.get(norm or slot), reference.tensors.get(norm or slot)
    if norm is None or ours is None or theirs is None or ours.shape != ratio.shape:
        return ratio
    offset = 1.0 if reference.layout.norm is Norm.RMS_OFFSET else 0.0
    return ratio * (ours + offset) / torch.where(theirs + offset == 0, torch.ones_like(theirs), theirs + offset)


NORM_BEFORE = {
    Role.QUERY: Role.NORM_ATTENTION, Role.KEY: Role.NORM_ATTENTION, Role.VALUE: Role.NORM_ATTENTION,
    Role.GATE: Role.NORM_MLP, Role.UP: Role.NORM_MLP, Role.ROUTER: Role.NORM_MLP, Role.SHARED_GATE: Role.NORM_MLP,
}  # fmt: skip
"""The norm whose gain folds into a reader."""


def _untouched(found: Alignment, reference: Canonical, slot: Slot) -> bool:
    a, b = found.reference[slot], reference.tensors[slot]
    return a.shape == b.shape and torch.equal(a, b)


def _mix(
    found: Alignment, reference: Canonical, known: Mapping[str, Canonical], slots: Sequence[Slot], root: str
) -> Mix | None:
    """Convex combination of the reference and other known models in its gauge, over the matrices all of them have."""
    arrays = _in_gauge(found, reference, {k: v for k, v in known.items() if k != root})
    pool = {root: found.reference, **arrays}
    shared = [s for s in slots if all(s in a for a in pool.values())]
    if len(pool) < 2 or not shared:
        return None
    result = mixture(found.aligned, list(pool.values()), shared)
    return Mix(tuple(zip(pool, result.weights, strict=True)), result.residual)
