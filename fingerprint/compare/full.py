"""Full depth: both checkpoints are read, symmetries undone, and every matched tensor compared value by value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from fingerprint.architecture.interface import Dims, Role, Slot
from fingerprint.compare import changes, nuisance
from fingerprint.compare.align import Alignment, Canonical, align
from fingerprint.compare.evidence import BaseGeometry, Evidence, Mix, SlotChange
from fingerprint.compare.moments import Moments
from fingerprint.compare.regress import Arrays, inner, mixture, project
from fingerprint.compare.structure import Coherence, coherence, gain

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
    exact = all(t.split(":")[0] in RELABELLING or t in RELABELLING for t in found.transforms)
    rounding = 0.0 if exact else ROUNDING.get(stored, ROUNDING[torch.bfloat16])
    others = _in_gauge(found, reference, {"base": base} if base is not None else {})
    base_arrays = others.get("base")
    matched = [slot for slot in found.matched if found.matched[slot] > 0.0]
    fits = {s: _fitted(s, found, None if base_arrays is None else base_arrays.get(s), stored, exact) for s in matched}
    views = _views(found, {s: f.left for s, f in fits.items()}, reference.layout.dims)
    compared = tuple(_change(s, found, fits[s], views, rounding, reference.layout.dims) for s in matched)
    matrices = tuple(c for c in compared if found.reference[c.slot].ndim >= 2)
    vectors = tuple(c for c in compared if found.reference[c.slot].ndim < 2)
    slots = [c.slot for c in matrices]
    adapter = moments is not None and low_rank(matrices)
    return replace(
        blank,
        transforms=tuple(dict.fromkeys((*blank.transforms, *found.transforms))),
        exact_gauge=exact,
        changes=matrices,
        vectors=vectors,
        unmatched=_sizes(found.unmatched_candidate, candidate.tensors),
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


@dataclass(frozen=True)
class _Fitted:
    """A slot's delta after regression on the reference and on its own change from the base."""

    relative: float
    similarity: float
    kind: str | None
    coefficients: tuple[float, ...]
    left: torch.Tensor


def _fitted(slot: Slot, found: Alignment, base: torch.Tensor | None, stored: torch.dtype, exact: bool) -> _Fitted:
    c, r = _flat(found.aligned[slot]), _flat(found.reference[slot])
    delta = c.double() - r.double()
    size = float(r.double().norm()) or 1.0
    cosine = float((c.double() * r.double()).sum()) / max(float(c.double().norm()) * size, 1e-300)
    if not delta.any():
        return _Fitted(0.0, 1.0, None, (0.0, 0.0), delta)
    kind = _kind(c, r, stored) if exact and r.ndim == 2 else None
    pruned = kind is not None and kind.startswith("pruned")
    kept = (c != 0) | (r == 0) if pruned else torch.ones_like(c, dtype=torch.bool)
    directions = [r * kept]
    if base is not None and base.shape == found.reference[slot].shape:
        directions.append((r - _flat(base)) * kept)
    fit = project(delta * kept, directions)
    return _Fitted(float(delta.norm()) / size, cosine, kind, fit.coefficients, fit.residual)


View = tuple[Mapping[Slot, torch.Tensor], Mapping[Slot, torch.Tensor]]
"""What is left of the deltas, and the reference, both in one gauge."""


def _views(found: Alignment, left: Mapping[Slot, torch.Tensor], dims: Dims) -> list[View]:
    """The remaining deltas in the reference's gauge and, where it differs by more than relabelling, the candidate's.

    A learned change is coherent in both; what was drawn, or rounded, is iid where that happened.
    """
    matrices = {s: x for s, x in left.items() if x.ndim == 2}
    reference = {s: _flat(found.reference[s]) for s in matrices}
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
    out = dict(left)
    if set(found.transforms) & nuisance.GAINS:
        out = {s: nuisance.remove_scalings(x, reference[s]) for s, x in out.items()}
    if "rotated:residual" in found.transforms and found.witness.permutations.get("residual") is None:
        out = nuisance.remove_rotation(out, reference, dims.hidden)
        if set(found.transforms) & nuisance.GAINS:
            out = {s: nuisance.remove_scalings(x, reference[s]) for s, x in out.items()}
    return out, reference


def _change(
    slot: Slot, found: Alignment, fitted: _Fitted, views: Sequence[View], rounding: float, dims: Dims
) -> SlotChange:
    c, r = _flat(found.aligned[slot]), _flat(found.reference[slot])
    nothing = Coherence(0.0, 0.0, 0.0)
    if fitted.relative == 0.0:
        return SlotChange(slot, r.numel(), 1.0, 0.0, rounding, 0.0, 0.0, 0.0, 0.0, nothing)
    options = [_coherence(slot, left[slot], ref[slot], found, dims) for left, ref in views if slot in left]
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


def _coherence(slot: Slot, delta: torch.Tensor, reference: torch.Tensor, found: Alignment, dims: Dims) -> Coherence:
    """Coherence in the coordinates that undoing could not have touched; averaged over mixed heads, over distinct rows."""
    if slot.role in TABLES:
        rows = distinct_rows(reference)
        delta, reference = delta[rows], reference[rows]
    parts = [coherence(b) for b in nuisance.blocks(slot, delta, reference, found.transforms, dims)]
    if len(parts) == 1:
        return parts[0]
    return Coherence(
        float(np.mean([p.excess for p in parts])),
        float(np.sum([p.z for p in parts]) / np.sqrt(len(parts))),
        float(np.sum([p.effective for p in parts])),
    )


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


def _kind(c: torch.Tensor, r: torch.Tensor, stored: torch.dtype) -> str | None:
    scheme = changes.quantised(c, r, dtype=stored)
    if scheme is not None:
        return f"quantised:{scheme}"
    fraction = changes.pruned(c, r)
    return None if fraction is None else f"pruned:{fraction:.2g}"


def _rank(delta: torch.Tensor) -> float:
    short = min(delta.shape)
    if short < 8 or short > MAX_RANK_SIDE:
        return 1.0
    return changes.numerical_rank(delta) / short


def _flat(x: torch.Tensor) -> torch.Tensor:
    """Matrices as they are, higher ranks as (first axis x rest)."""
    return x if x.ndim <= 2 else x.reshape(x.shape[0], -1)


def _sizes(slots: Sequence[Slot], tensors: Mapping[Slot, torch.Tensor]) -> tuple[tuple[Slot, int], ...]:
    return tuple((s, tensors[s].numel()) for s in slots if s in tensors)


def _in_gauge(found: Alignment, reference: Canonical, others: Mapping[str, Canonical | None]) -> dict[str, Arrays]:
    """Other models of the reference's own gauge, dropped where aligning changed the gauge of a slot."""
    same = [s for s in found.reference if s in reference.tensors and _untouched(found, reference, s)]
    return {
        name: {s: t for s in same if (t := model.tensors.get(s)) is not None and t.shape == found.reference[s].shape}
        for name, model in others.items()
        if model is not None
    }


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
