"""MLP units: three vectors each (gate row, up row, down column) whose mutual angles no symmetry can change.

Permuting units, rotating the stream, folding or faking gains and scaling (up, down) by any signed pair leave
cos(g,u), and up to a common sign cos(g,d) and cos(u,d), as they are. Units are chosen by the largest choosing cosine:
by content, so that a permutation chooses the same ones. Cheap: about six flops a parameter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from fingerprint.fingerprint import UnitInvariants
from fingerprint.invariants.folding import Folding
from fingerprint.invariants.probes import unit_rows
from fingerprint.sketch.statistics import quantiles


@dataclass(frozen=True)
class ChosenUnits:
    """Units of one expert (or dense layer), with their folded vectors, before probing.

    Attributes:
        expert: Expert, -1 in dense layers.
        index: int64 (N,) rows.
        cosine: float32 (all units,) choosing cosines, signed.
        gate: float32 (N, d); in plain MLPs the up rows.
        up: float32 (N, d), None in plain MLPs.
        gate_sum: float64 (d,) sum over all units of the gate rows.
    """

    expert: int
    index: np.ndarray
    cosine: np.ndarray
    gate: torch.Tensor
    up: torch.Tensor | None
    gate_sum: torch.Tensor


class GatedUnits:
    """Streams gate and up rows in lockstep; keeps the rows of the N units with the largest |cos(g, u)| so far."""

    def __init__(self, folding: Folding, keep: int, width: int, expert: int) -> None:
        self._folding, self._keep, self._expert = folding, keep, expert
        self._cosines: list[np.ndarray] = []
        self._rows = 0
        self._index = np.empty(0, dtype=np.int64)
        self._gate, self._up = torch.empty(0, width), torch.empty(0, width)
        self._sum = torch.zeros(width, dtype=torch.float64)

    def update(self, gate: torch.Tensor, up: torch.Tensor) -> None:
        """Take the same rows of both matrices, float32 (rows, d)."""
        g, u = self._folding.reader(gate), self._folding.reader(up)
        scale = torch.linalg.vector_norm(g, dim=1) * torch.linalg.vector_norm(u, dim=1)
        cosine = torch.linalg.vecdot(g, u) / torch.where(scale > 0, scale, torch.ones_like(scale))
        self._sum += g.sum(dim=0, dtype=torch.float32)
        seen = np.concatenate([*self._cosines, cosine.numpy()]) if self._cosines else cosine.numpy()
        self._cosines = [seen]
        chosen = _largest(seen, self._keep)
        fresh = chosen[chosen >= self._rows]
        stay = np.isin(self._index, chosen)
        if fresh.size:
            rows = torch.from_numpy(fresh - self._rows)
            kept = torch.from_numpy(stay)
            self._gate = torch.cat([self._gate[kept], g[rows]])
            self._up = torch.cat([self._up[kept], u[rows]])
            self._index = np.concatenate([self._index[stay], fresh])
        self._rows += gate.shape[0]

    @property
    def chosen(self) -> ChosenUnits:
        """The units kept at the end."""
        cosine = self._cosines[0] if self._cosines else np.empty(0, dtype=np.float32)
        return ChosenUnits(self._expert, self._index, cosine, self._gate, self._up, self._sum)


def plain_units(folding: Folding, up: torch.Tensor, down: torch.Tensor, keep: int, expert: int) -> ChosenUnits:
    """Choose the units of an MLP without a gate by |cos(up, down)|.

    Args:
        folding: Of the norm before the MLP.
        up: (I, d), any float dtype.
        down: (d, I), any float dtype.
        keep: N.
        expert: Expert, -1 in dense layers.
    """
    cosines, total = [], torch.zeros(up.shape[1], dtype=torch.float64)
    for start in range(0, up.shape[0], 128):
        u = folding.reader(up[start : start + 128].to(torch.float32))
        d = folding.writer(down[:, start : start + 128].to(torch.float32).T)
        scale = u.norm(dim=1) * d.norm(dim=1)
        cosines.append(((u * d).sum(1) / torch.where(scale > 0, scale, torch.ones_like(scale))).numpy())
        total += u.sum(dim=0)
    cosine = np.concatenate(cosines) if cosines else np.empty(0, dtype=np.float32)
    index = _largest(cosine, keep)
    return ChosenUnits(
        expert, index, cosine, folding.reader(up[torch.from_numpy(index)].to(torch.float32)), None, total
    )


def _largest(cosine: np.ndarray, keep: int) -> np.ndarray:
    """Ascending indices of the ``keep`` largest magnitudes; ties go to the earlier unit."""
    if cosine.size <= keep:
        return np.arange(cosine.size, dtype=np.int64)
    return np.sort(np.argsort(-np.abs(cosine), kind="stable")[:keep]).astype(np.int64)


@dataclass(frozen=True)
class UnitVectors:
    """Chosen units with their folded down columns (N, d)."""

    units: ChosenUnits
    down: torch.Tensor


def pool(parts: list[UnitVectors], keep: int) -> list[UnitVectors]:
    """The ``keep`` units with the largest choosing cosines over all experts, expert by expert."""
    strength = np.concatenate([np.abs(p.units.cosine[p.units.index]) for p in parts])
    chosen = set(_largest(strength, keep).tolist())
    kept, start = [], 0
    for part in parts:
        size = part.units.index.size
        local = np.array([i for i in range(size) if start + i in chosen], dtype=np.int64)
        rows, units, start = torch.from_numpy(local), part.units, start + size
        up = None if units.up is None else units.up[rows]
        cut = ChosenUnits(units.expert, units.index[local], units.cosine, units.gate[rows], up, units.gate_sum)
        kept.append(UnitVectors(cut, part.down[rows]))
    return kept


def invariants(parts: list[UnitVectors], probes: dict[str, torch.Tensor]) -> UnitInvariants:
    """Invariants of one layer's units.

    Args:
        parts: Per expert (one part for a dense layer).
        probes: Basis to float32 (d, k). Up and down rows are probed in the first basis only.
    """
    gate = torch.cat([p.units.gate for p in parts])
    down = torch.cat([p.down for p in parts])
    gated = all(p.units.up is not None for p in parts)
    up = torch.cat([p.units.up for p in parts if p.units.up is not None]) if gated else None
    spread = np.concatenate([p.units.cosine for p in parts])
    centre = torch.stack([p.units.gate_sum for p in parts]).sum(0) / max(1, spread.size)
    width = gate.shape[1]
    signed_up, signed_down, triples = _signed(gate, up, down)
    first = next(iter(probes), None)
    order = {} if first is None else {first: probes[first]}
    zeros = torch.zeros(gate.shape[0])
    norms = torch.stack([gate.norm(dim=1) if gated else zeros, _norms(up if up is not None else gate), _norms(down)], 1)
    return UnitInvariants(
        count=int(spread.size),
        expert=np.concatenate([np.full(p.units.index.size, p.units.expert, dtype=np.int32) for p in parts]),
        index=np.concatenate([p.units.index for p in parts]).astype(np.int32),
        triples=(triples * np.sqrt(width)).to(torch.float16).numpy(),
        norms=norms.to(torch.float32).numpy(),
        gate={basis: unit_rows((gate - centre.to(torch.float32)) @ p) for basis, p in probes.items()},
        up={} if signed_up is None else {basis: unit_rows(signed_up @ p) for basis, p in order.items()},
        down={basis: unit_rows(signed_down @ p) for basis, p in order.items()},
        spread=quantiles(np.abs(spread) * np.sqrt(width)),
    )


def _signed(
    gate: torch.Tensor, up: torch.Tensor | None, down: torch.Tensor
) -> tuple[torch.Tensor | None, torch.Tensor, torch.Tensor]:
    """Unit-length up and down vectors with the sign that makes cos(g, u) positive, and the triples."""
    g, d = _directions(gate), _directions(down)
    if up is None:
        zero = torch.zeros(gate.shape[0])
        return None, down, torch.stack([zero, zero, (g * d).sum(1)], dim=1)
    u = _directions(up)
    first = (g * u).sum(1)
    sign = torch.where(first < 0, -1.0, 1.0)[:, None]
    u, d = u * sign, d * sign
    return u, d, torch.stack([(g * u).sum(1), (g * d).sum(1), (u * d).sum(1)], dim=1)


def _norms(rows: torch.Tensor) -> torch.Tensor:
    norms: torch.Tensor = torch.linalg.vector_norm(rows, dim=1)
    return norms


def _directions(rows: torch.Tensor) -> torch.Tensor:
    norms = _norms(rows)[:, None]
    return rows / torch.where(norms > 0, norms, torch.ones_like(norms))
