"""Gains folded into their readers, replaced by fake ones, or left alone (2-weights section 4).

A changed gain is only a change of gauge if its readers carry the inverse, coordinate by coordinate. Fine-tuning moves
gains too, by little and without that; then nothing is folded and the delta stays what was trained.
"""

from __future__ import annotations

import torch

from fingerprint.architecture.interface import Slot

from .alignment import Witness
from .matching import relative
from .side import TABLES, WRITERS, Side, centre, fold, norms, readers
from .units import AGREEMENT, ROUNDING, WORTHWHILE, agreement

_EXACTLY = 1e-6
_UNEVEN = 1e-2
_UNIFORM = 0.2
"""A side is called folded if its gains spread less than this part of the other side's."""


def word(candidate: torch.Tensor, reference: torch.Tensor) -> str:
    """``folded:norms`` if the candidate's gains are (nearly) one number, else ``regained:norms``."""
    return "folded:norms" if float(candidate.std()) < _UNIFORM * float(reference.std()) else "regained:norms"


def gains_differ(candidate: Side, reference: Side) -> bool:
    """Whether any gain moved by more than rounding."""
    for norm in norms(reference):
        if norm in candidate.tensors and candidate.tensors[norm].shape == reference.tensors[norm].shape:
            c, r = candidate.gain(norm), reference.gain(norm)
            if float((c - r).norm()) > 1e-3 * float(r.norm()):
                return True
    return False


def fold_all(candidate: Side, reference: Side, witness: Witness) -> set[str]:
    """Fold every norm on both sides, in place: the only gauge in which a rotated residual can be compared."""
    shared = [n for n in norms(reference) if n in candidate.tensors]
    words = _record(candidate, reference, shared, witness)
    words |= {"folded:norms"} if words else set()
    fold(candidate, [n for n in norms(candidate)])
    fold(reference, [n for n in norms(reference)])
    if reference.centred:
        centre(candidate)
        centre(reference)
    return words


def fold_moved(candidate: Side, reference: Side, witness: Witness) -> set[str]:
    """Fold those norms whose gains were moved into or out of their readers, on both sides, in place.

    Rows must be in the reference's order already.

    Returns:
        Transforms undone.
    """
    chosen = []
    for norm in norms(reference):
        if norm not in candidate.tensors or candidate.tensors[norm].shape != reference.tensors[norm].shape:
            continue
        if relative(candidate.gain(norm), reference.gain(norm)) < ROUNDING:
            continue
        before, after, agree = _judge(candidate, reference, norm)
        told = agree > AGREEMENT and after < WORTHWHILE * before
        if before > ROUNDING and (told or (after < before and _flattened(candidate, reference, norm))):
            chosen.append(norm)
    if not chosen:
        return set()
    words = _record(candidate, reference, chosen, witness)
    fold(candidate, chosen)
    fold(reference, chosen)
    if reference.centred:
        centre(candidate)
        centre(reference)
    return words


def centre_moved(candidate: Side, reference: Side) -> set[str]:
    """Centre both sides if only the component along 1 that LayerNorm never sees sets them apart, in place."""
    if not reference.centred or not candidate.centred:
        return set()
    before, after = 0.0, 0.0
    for slot, r in reference.tensors.items():
        c = candidate.tensors.get(slot)
        if c is None or c.shape != r.shape or c.ndim != 2:
            continue
        axis = 1 if slot.role in TABLES else 0 if slot.role in WRITERS else None
        if axis is None:
            continue
        if torch.equal(c, r):
            continue
        size = float(r.square().sum().clamp_min(1e-30))
        gap = c - r
        before += float(gap.square().sum()) / size
        after += float((gap - gap.mean(dim=axis, keepdim=True)).square().sum()) / size
    if before < ROUNDING**2 or after >= (0.5 * before):
        return set()
    centre(candidate)
    centre(reference)
    return {"folded:norms"}


def _record(candidate: Side, reference: Side, chosen: list[Slot], witness: Witness) -> set[str]:
    words = set()
    for norm in chosen:
        c, r = candidate.gain(norm), reference.gain(norm)
        if c.shape != r.shape:
            words.add(word(c, r))
            continue
        witness.gains[norm] = (c, r)
        if float((c - r).norm()) > 0.02 * float(r.norm()):
            words.add(word(c, r))
    return words


def _flattened(candidate: Side, reference: Side, norm: Slot) -> bool:
    """Whether the candidate's gains are one number and the reference's are not: no training does that."""
    return not uneven(candidate.gain(norm), _EXACTLY) and uneven(reference.gain(norm))


def uneven(gain: torch.Tensor, least: float = _UNEVEN) -> bool:
    """Whether gains differ among themselves by more than ``least`` of their mean size."""
    return float(gain.std()) > least * float(gain.abs().mean())


def _judge(candidate: Side, reference: Side, norm: Slot) -> tuple[float, float, float]:
    """(residual of readers as they are, with gains folded, agreement of gain ratio and inverse reader ratio)."""
    before, after, size = 0.0, 0.0, 0.0
    energy = [torch.zeros_like(reference.tensors[norm]) for _ in range(2)]
    for slot in readers(reference, norm):
        if slot not in candidate.tensors or candidate.tensors[slot].shape != reference.tensors[slot].shape:
            continue
        c, r = candidate.tensors[slot], reference.tensors[slot]
        fc, fr = candidate.reader(slot), reference.reader(slot)
        before += float((c - r).square().sum() / r.square().sum().clamp_min(1e-30))
        after += float((fc - fr).square().sum() / fr.square().sum().clamp_min(1e-30))
        size += 1.0
        weight = 1.0 / r.square().sum().clamp_min(1e-30)
        energy[0] += weight * c.square().sum(dim=0)
        energy[1] += weight * r.square().sum(dim=0)
    if not size:
        return 0.0, 0.0, 0.0
    gain_c, gain_r = candidate.gain(norm).abs(), reference.gain(norm).abs()
    gains = (gain_c.clamp_min(1e-12) / gain_r.clamp_min(1e-12)).log()
    inverse = -0.5 * (energy[0].clamp_min(1e-30) / energy[1].clamp_min(1e-30)).log()
    return (before / size) ** 0.5, (after / size) ** 0.5, agreement(gains, inverse)
