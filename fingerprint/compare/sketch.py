"""Sketch depth: fingerprints alone. What linear sketches can carry is compared as values are at full depth.

A sketch is an orthonormal projection on both sides, so the sketch of a drawn change is again drawn, and the sketch of a
learned one is coherent: the same statistics apply, with less power. Where the gauge was changed and sketches no longer
correspond, ``kinship`` takes over with the symmetry invariants.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment

from fingerprint.architecture.interface import Role, Slot
from fingerprint.compare.evidence import Evidence, Mix, SlotChange
from fingerprint.compare.full import ROUNDING, geometry
from fingerprint.compare.kinship import Kinship, kinship
from fingerprint.compare.regress import Arrays, mixture, project
from fingerprint.compare.structure import Coherence, coherence
from fingerprint.fingerprint import Fingerprint, SlotSketch
from fingerprint.sketch.linear import common

SAME_BASIS = 0.5
"""Cosine of two sketches from which two tensors share values in one basis. Chance gives 1 / side (.02 to .06)."""

EXACT = 1e-6
"""Relative size below which a sketched delta is float32 summation noise."""


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
    pairs = correspond(candidate, reference)
    ours, theirs = sketches(candidate, reference, pairs)
    rooted = {} if base is None else _of(base, reference, theirs)
    changes = [_change(r, ours[r], theirs[r], reference.slots[r], rooted.get(r)) for r in pairs]
    left = {s for s in candidate.slots if s not in set(pairs.values())}
    lost = {s for s in reference.slots if s not in pairs}
    kin = kinship(candidate, reference) if _much(left, candidate) or _much(lost, reference) else None
    seen = () if kin is None else tuple(_kindred(kin, left, lost, candidate, reference))
    changes += [change for change, _ in seen]
    left -= {slot for _, slots in seen for slot in slots}
    lost -= {change.slot for change, _ in seen} | {s for s in lost if kin is not None and _covered(s, kin)}
    slots = [r for r in pairs if len(reference.slots[r].shape) >= 2]
    return replace(
        blank,
        transforms=tuple(dict.fromkeys((*blank.transforms, *_renamed(candidate, reference, pairs), *_moved(seen)))),
        exact_gauge=not seen,
        changes=tuple(c for c in changes if len(reference.slots[c.slot].shape) >= 2),
        vectors=tuple(c for c in changes if len(reference.slots[c.slot].shape) < 2),
        unmatched=tuple((s, candidate.slots[s].numel) for s in sorted(left)),
        missing=tuple((s, reference.slots[s].numel) for s in sorted(lost)),
        base=geometry(ours, theirs, rooted, slots) if rooted else None,
        mix=_mix(ours, theirs, {k: _of(f, reference, theirs) for k, f in known.items()}, slots, blank.reference),
    )


def _much(slots: set[Slot], fingerprint: Fingerprint) -> bool:
    """Whether these slots hold more than a few per cent of the matrices' parameters."""
    matrices = {s: k.numel for s, k in fingerprint.slots.items() if len(k.shape) >= 2}
    return sum(matrices.get(s, 0) for s in slots) > 0.02 * sum(matrices.values())


def _covered(slot: Slot, kin: Kinship) -> bool:
    """Whether a reference slot lies in a matched layer, or in matched embeddings."""
    if slot.layer >= 0:
        return any(k.reference == slot.layer for k in kin.layers)
    return kin.embedded


def _kindred(
    kin: Kinship, left: set[Slot], lost: set[Slot], candidate: Fingerprint, reference: Fingerprint
) -> Iterator[tuple[SlotChange, set[Slot]]]:
    """Changes seen through invariants, each with the candidate slots it accounts for.

    A layer's units stand for all of its slots that have no counterpart in one basis; the angles between tokens stand
    for embeddings and head.
    """
    for layer in kin.layers:
        mine = {s for s in left if s.layer == layer.candidate}
        wanted = {s for s in lost if s.layer == layer.reference}
        if not mine or not wanted:
            continue
        size = sum(candidate.slots[s].numel for s in mine)
        for role, agree in layer.coherence.items():
            slot = next((s for s in sorted(reference.slots) if s.role is role and s.layer == layer.reference), None)
            if slot is not None:
                share = size // len(layer.coherence)
                yield _through(slot, share, layer.cosine, layer.size, agree), mine
    outside = {s for s in left if s.layer < 0}
    if kin.embedded and outside and any(s.layer < 0 for s in lost):
        slot = next((s for s in sorted(lost) if s.role in (Role.EMBED, Role.HEAD)), None)
        if slot is not None:
            size = sum(candidate.slots[s].numel for s in outside)
            yield _through(slot, size, kin.tokens, kin.token_shift, Coherence(0.0, 0.0, 0.0)), outside


def _through(slot: Slot, numel: int, similarity: float, relative: float, agree: Coherence) -> SlotChange:
    return SlotChange(
        slot, numel, similarity, relative, ROUNDING[torch.bfloat16], 1.0, 0.0, 0.0, relative, agree, channel="kinship"
    )


def _moved(seen: Sequence[tuple[SlotChange, set[Slot]]]) -> list[str]:
    """Which symmetries must have been used for these slots to have lost their basis."""
    roles = {s.role for _, slots in seen for s in slots}
    if roles & {Role.EMBED}:
        return ["rotated:residual"]
    words = ["permuted:mlp"] if roles & {Role.GATE, Role.UP, Role.DOWN} else []
    if roles & {Role.QUERY, Role.KEY}:
        words.append("rotated:query-key" if not roles & {Role.VALUE} else "permuted:heads")
    elif roles & {Role.VALUE, Role.OUT}:
        words.append("mixed:value-output")
    return words


def correspond(candidate: Fingerprint, reference: Fingerprint) -> dict[Slot, Slot]:
    """Reference slot to the candidate slot that carries its values in the same basis.

    Roles are tried first; what they leave is matched by values among equal shapes, so that names and order of layers
    do not matter (equal shapes share projections).
    """
    pairs: dict[Slot, Slot] = {}
    for slot, sketch in reference.slots.items():
        other = candidate.slots.get(slot)
        if other is not None and _alike(other, sketch):
            pairs[slot] = slot
    taken = set(pairs.values())
    by_shape: dict[tuple[int, ...], tuple[list[Slot], list[Slot]]] = defaultdict(lambda: ([], []))
    for slot, sketch in reference.slots.items():
        if slot not in pairs:
            by_shape[sketch.shape][0].append(slot)
    for slot, sketch in candidate.slots.items():
        if slot not in taken and sketch.shape in by_shape:
            by_shape[sketch.shape][1].append(slot)
    for wanted, offered in by_shape.values():
        pairs |= _assign(wanted, offered, reference, candidate)
    return pairs


def _assign(
    wanted: Sequence[Slot], offered: Sequence[Slot], reference: Fingerprint, candidate: Fingerprint
) -> dict[Slot, Slot]:
    """One-to-one matching of equal shapes by cosine."""
    if not wanted or not offered:
        return {}
    cosines = np.array([[_cosine(candidate.slots[c], reference.slots[r]) for c in offered] for r in wanted])
    rows, columns = linear_sum_assignment(-cosines)
    floor = [SAME_BASIS if len(reference.slots[r].shape) >= 2 else VECTOR_MATCH for r in wanted]
    return {wanted[i]: offered[j] for i, j in zip(rows, columns, strict=True) if cosines[i, j] >= floor[i]}


VECTOR_MATCH = 0.999
"""Vectors (norms, biases) reach cosine .9 by chance: only near-equal ones are matched out of order."""


def _alike(a: SlotSketch, b: SlotSketch) -> bool:
    return a.shape == b.shape and a.whole == b.whole and (_cosine(a, b) >= SAME_BASIS or a.norm == b.norm == 0.0)


def _cosine(a: SlotSketch, b: SlotSketch) -> float:
    if a.whole != b.whole or a.linear.ndim != b.linear.ndim:
        return 0.0
    x, y = common(a.linear, b.linear)
    scale = float(np.linalg.norm(x) * np.linalg.norm(y))
    return float((x * y).sum()) / scale if scale > 0 else float(a.norm == b.norm)


def sketches(
    candidate: Fingerprint, reference: Fingerprint, pairs: Mapping[Slot, Slot]
) -> tuple[dict[Slot, torch.Tensor], dict[Slot, torch.Tensor]]:
    """Paired sketches by reference slot, cut to their common size, float64."""
    ours, theirs = {}, {}
    for r, c in pairs.items():
        x, y = common(candidate.slots[c].linear, reference.slots[r].linear)
        ours[r], theirs[r] = torch.from_numpy(x), torch.from_numpy(y)
    return ours, theirs


def _of(other: Fingerprint, reference: Fingerprint, theirs: Arrays) -> dict[Slot, torch.Tensor]:
    """Another known model's sketches by reference slot, where it shares the reference's basis."""
    pairs = correspond(other, reference)
    ours, _ = sketches(other, reference, pairs)
    return {s: x for s, x in ours.items() if s in theirs and x.shape == theirs[s].shape}


def _change(slot: Slot, c: torch.Tensor, r: torch.Tensor, sketch: SlotSketch, base: torch.Tensor | None) -> SlotChange:
    """One slot's change as its sketch shows it."""
    size = float(r.norm()) or 1.0
    delta = c - r
    relative = float(delta.norm()) / size
    cosine = float((c * r).sum()) / max(float(c.norm()) * size, 1e-300)
    if relative <= EXACT:
        return SlotChange(slot, sketch.numel, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, Coherence(0.0, 0.0, 0.0))
    directions = [r] if base is None else [r, r - base]
    fit = project(delta, directions)
    left = float(fit.residual.norm()) / size
    matrix = fit.residual.ndim == 2 and left > EXACT
    return SlotChange(
        slot=slot,
        numel=sketch.numel,
        similarity=cosine,
        relative=relative,
        rounding=0.0,
        changed=1.0,
        scale=fit.coefficients[0],
        toward_base=fit.coefficients[1] if base is not None else 0.0,
        residual=left if left > EXACT else 0.0,
        coherence=coherence(fit.residual) if matrix else Coherence(0.0, 0.0, 0.0),
        channel=f"sketch-{max(r.shape)}",
    )


def _renamed(candidate: Fingerprint, reference: Fingerprint, pairs: Mapping[Slot, Slot]) -> list[str]:
    """Whether the tensors that match go by other names."""
    moved = any(candidate.slots[c].tensor != reference.slots[r].tensor for r, c in pairs.items())
    return ["renamed"] if moved else []


def _mix(ours: Arrays, theirs: Arrays, known: Mapping[str, Arrays], slots: Sequence[Slot], root: str) -> Mix | None:
    pool: dict[str, Arrays] = {root: theirs, **{k: v for k, v in known.items() if k != root}}
    shared = [s for s in slots if all(s in a for a in pool.values())]
    if len(pool) < 2 or not shared:
        return None
    result = mixture(ours, list(pool.values()), shared)
    return Mix(tuple(zip(pool, result.weights, strict=True)), result.residual)
