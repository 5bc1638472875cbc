"""Undoing a change of the residual basis and of its scale, provisionally first, then on all that matches.

What ``residual`` finds from embeddings is a start: a rotation is fitted again once units and heads are in order, a
scale is kept only if everything that writes to the stream has it and nothing that reads from it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from fingerprint.architecture.interface import Role, Slot

from .alignment import Witness
from .matching import cosine, relative
from .norms import fold_all, uneven
from .residual import find_turn, refined, rescale, turn, turn_others
from .side import RESIDUAL_COLUMNS, RESIDUAL_ROWS, TABLES, WRITERS, Side, norms
from .units import AGREEMENT, ROUNDING, WORTHWHILE, agreement

_REFINE = 0.6
_SCALED = 0.005
_REFINE_ROWS = 8


def undo_basis(c: Side, r: Side, witness: Witness) -> set[str]:
    """Find and undo a change of the residual basis, in place."""
    found = find_turn(c, r)
    if found is None:
        return set()
    done = {"rotated:residual"}
    witness.rotation_held_out = found.held_out
    if found.dense:
        done |= fold_all(c, r, witness)
        witness.rotation = found.matrix
        witness.orthogonality = _orthogonality(found.matrix)
    elif found.order is not None and found.signs is not None:
        witness.permutations["residual"] = found.order
        witness.scales["residual-signs"] = found.signs
        witness.rotation = torch.zeros(len(found.order), len(found.order))
        witness.rotation[found.order, torch.arange(len(found.order))] = found.signs
    turn(c, found)
    turn_others(c, r, found)
    return done


def without_basis(witness: Witness) -> Witness:
    """A witness that says nothing of the basis: the rotation fitted, but no layer matched under it."""
    kept = {k: v for k, v in witness.permutations.items() if k != "residual"}
    evidence = {**witness.evidence, "rotation:refused": witness.rotation_held_out}
    return Witness(permutations=kept, padded_rows=witness.padded_rows, evidence=evidence)


def _orthogonality(matrix: torch.Tensor | None) -> float:
    if matrix is None:
        return 0.0
    return float((matrix.T @ matrix - torch.eye(matrix.shape[0])).abs().max())


def provisional_scale(c: Side, r: Side) -> float:
    """Divide out the embedding's scale for now, in place; ``_settle_scale`` decides. 1.0 if there is none."""
    x, y = c.get(Role.EMBED), r.get(Role.EMBED)
    if x is None or y is None or x.shape != y.shape or not r.layout.pre_norm or cosine(x, y) < 0.5:
        return 1.0
    scale = float(x.norm() / y.norm().clamp_min(1e-30))
    if abs(math.log(max(scale, 1e-30))) < _SCALED:
        return 1.0
    rescale(c, scale)
    return scale


def settle_scale(c: Side, r: Side, scale: float, witness: Witness) -> set[str]:
    """Keep the provisional scale if what writes to the residual stream has it and what reads from it has not."""
    if scale == 1.0:
        return set()
    writers = [s for s in r.slots(*TABLES, *WRITERS) if s in c.tensors and c.tensors[s].shape == r.tensors[s].shape]
    kept = [relative(c.tensors[s], r.tensors[s]) for s in writers]
    back = [relative(c.tensors[s] * scale, r.tensors[s]) for s in writers]
    logs = [math.log(max(float(c.tensors[s].norm()), 1e-30) / max(float(r.tensors[s].norm()), 1e-30)) for s in writers]
    gates = [s for s in r.slots(Role.GATE, Role.UP) if s in c.tensors and c.tensors[s].shape == r.tensors[s].shape]
    read = [
        float(c.reader(s).norm() / r.reader(s).norm().clamp_min(1e-30))
        for s in gates
        if s.role is Role.GATE or not r.layout.gated
    ]
    size = abs(math.log(scale))
    reads = abs(math.log(max(_median(read), 1e-30))) if read else 0.0
    rest = _median([abs(x) for x in logs])
    before, after = _mean_square(back), _mean_square(kept)
    witness.evidence |= {"residual-scale:before": before, "residual-scale:after": after}
    if reads < 0.5 * size and rest < 0.25 * size and (after < 0.5 * before or (size > 0.02 and after < 0.9 * before)):
        witness.residual_scale = scale
        return {"rescaled:residual"}
    return set()


def scale_back(c: Side, scale: float, scaled: dict[int, tuple[torch.Tensor, torch.Tensor]]) -> None:
    """Take the provisional scale back, in place; tensors that nothing else changed are the very ones that came in.

    ``scaled`` holds the scaled tensors beside the originals, since an identity is only good while its object lives.
    """
    touched = {s: x for s, x in c.tensors.items() if id(x) not in scaled}
    for slot, x in c.tensors.items():
        if id(x) in scaled:
            c.tensors[slot] = scaled[id(x)][1]
    changed = Side(c.layout, touched)
    rescale(changed, 1.0 / scale)
    c.tensors.update(changed.tensors)


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2] if values else 0.0


def _mean_square(values: list[float]) -> float:
    finite = [v for v in values if math.isfinite(v)]
    return (sum(v * v for v in finite) / len(finite)) ** 0.5 if finite else 0.0


def refine(c: Side, r: Side, witness: Witness) -> None:
    """Fit the rotation again on everything that matches by now, in place."""
    width = r.layout.dims.hidden or r.tensors[Slot(Role.EMBED)].shape[1]
    found = refined(_residual_pairs(c, r, width), width)
    turn(c, found)
    if found.matrix is not None and witness.rotation is not None:
        witness.rotation = witness.rotation @ found.matrix
    witness.orthogonality = _orthogonality(witness.rotation)


def small_turn(c: Side, r: Side, witness: Witness) -> set[str]:
    """Undo a rotation so small that the basis looks the same, in place.

    Only a model whose gains are folded can hide one. Tables and layers tell it apart, and must agree.
    """
    shared = [n for n in norms(r) if n in c.tensors]
    if witness.rotation is not None or not shared or any(uneven(c.gain(n)) for n in shared):
        return set()
    kept = dict(c.tensors), dict(r.tensors)
    words = fold_all(c, r, Witness())
    width = r.tensors[shared[0]].shape[0]
    pairs = [list(_residual_pairs(c, r, width, tables=only)) for only in (True, False)]
    eye = torch.eye(width)
    turns = [refined(part, width).columns(eye) for part in pairs]
    before, after, agree = math.inf, math.inf, 0.0
    if all(pairs):
        agree = agreement(*(t - eye for t in turns))
        before, after = (_mean_square([relative(x @ by, y) for x, y in pairs[1]]) for by in (eye, turns[0]))
    witness.evidence["small-turn"] = agree
    if agree < AGREEMENT or before < ROUNDING or after > WORTHWHILE * before:
        c.tensors, r.tensors = kept
        return set()
    witness.rotation = torch.eye(width)
    return words | {"rotated:residual"}


def _residual_pairs(
    c: Side, r: Side, width: int, *, tables: bool | None = None
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Matched matrices with residual vectors as rows, large ones thinned; only (or no) tables if asked."""
    for slot, y in r.tensors.items():
        x = c.tensors.get(slot)
        if tables is not None and tables != (slot.role in (*TABLES, Role.HEAD)):
            continue
        if x is None or x.shape != y.shape or x.ndim != 2:
            continue
        if slot.role in RESIDUAL_ROWS:
            x, y = x.T, y.T
        elif slot.role not in RESIDUAL_COLUMNS:
            continue
        if slot.role is Role.HEAD:
            x, y = x - x.mean(dim=0), y - y.mean(dim=0)
        step = max(1, x.shape[0] // (_REFINE_ROWS * width))
        x, y = x[::step], y[::step]
        if cosine(x, y) > _REFINE:
            yield x, y
