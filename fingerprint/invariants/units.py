"""MLP units: two or three vectors each (gate row, up row, down column) whose mutual angles no symmetry can change.

Permuting units, rotating the stream, folding or faking gains and scaling (up, down) by any signed pair leave
cos(g,u), and up to a common sign cos(g,d) and cos(u,d), as they are. Units are chosen by the largest norm of their
folded gate row (plain MLPs: up row), which all of these leave alone too: by content, so that a permutation chooses the
same ones, and by something that noise and fine-tuning barely move.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from fingerprint.fingerprint import UnitInvariants, strongest
from fingerprint.invariants.folding import Folding
from fingerprint.sketch.statistics import quantiles


@dataclass(frozen=True)
class ChosenUnits:
    """Units of one expert (or dense layer), by their leading matrix: gate, or up in plain MLPs.

    Attributes:
        expert: Expert, -1 in dense layers.
        index: int64 (N,) rows.
        strength: float32 (N,) norms of the folded leading rows.
        norms: float32 (all units,) the same of all units.
        rows: float32 (N, d) folded leading rows.
        total: float64 (d,) sum over all units of the folded leading rows.
    """

    expert: int
    index: np.ndarray
    strength: np.ndarray
    norms: np.ndarray
    rows: torch.Tensor
    total: torch.Tensor


class UnitChooser:
    """Streams a leading matrix; keeps the N rows with the largest folded norm so far."""

    def __init__(self, folding: Folding, keep: int, width: int, expert: int) -> None:
        self._folding, self._keep, self._expert = folding, keep, expert
        self._norms: list[np.ndarray] = []
        self._row = 0
        self._index, self._strength = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32)
        self._rows = torch.empty(0, width)
        self._total = torch.zeros(width, dtype=torch.float64)
        self._buffer = torch.empty(0)

    def update(self, block: torch.Tensor) -> None:
        """Take the next rows, float32 (rows, d)."""
        if self._buffer.shape != block.shape:
            self._buffer = torch.empty_like(block)
        folded = self._folding.reader(block, out=self._buffer)
        norms = torch.linalg.vector_norm(folded, dim=1).numpy()
        self._total += torch.mv(folded.T, torch.ones(folded.shape[0]))
        self._norms.append(norms)
        self._merge(norms, folded)
        self._row += block.shape[0]

    def _merge(self, norms: np.ndarray, folded: torch.Tensor) -> None:
        """Keep the strongest of those kept and those new; ties go to the earlier unit."""
        kept = self._index.size
        chosen = _largest(np.concatenate([self._strength, norms]), self._keep)
        old, new = chosen[chosen < kept], chosen[chosen >= kept] - kept
        if new.size:
            self._rows = torch.cat([self._rows[torch.from_numpy(old)], folded[torch.from_numpy(new)]])
            self._index = np.concatenate([self._index[old], new + self._row])
            self._strength = np.concatenate([self._strength[old], norms[new]])

    @property
    def chosen(self) -> ChosenUnits:
        """The units kept at the end."""
        norms = np.concatenate(self._norms) if self._norms else np.empty(0, dtype=np.float32)
        return ChosenUnits(self._expert, self._index, self._strength, norms, self._rows, self._total)


class RowPicker:
    """Collects chosen rows of another matrix with the same units, folded."""

    def __init__(self, folding: Folding, index: np.ndarray, width: int) -> None:
        self._folding, self._index = folding, index
        self._rows = torch.zeros(index.size, width)
        self._row = 0

    def update(self, block: torch.Tensor) -> None:
        """Take the next rows, float32 (rows, d)."""
        low, high = np.searchsorted(self._index, (self._row, self._row + block.shape[0]))
        if high > low:
            self._rows[low:high] = block[torch.from_numpy(self._index[low:high] - self._row)]
        self._row += block.shape[0]

    @property
    def value(self) -> torch.Tensor:
        """float32 (N, d)."""
        return self._folding.reader(self._rows)


def _largest(strength: np.ndarray, keep: int) -> np.ndarray:
    """Ascending indices of the ``keep`` largest values; ties go to the earlier one."""
    if strength.size <= keep:
        return np.arange(strength.size, dtype=np.int64)
    return np.sort(np.argsort(-strength, kind="stable")[:keep]).astype(np.int64)


@dataclass(frozen=True)
class UnitVectors:
    """Chosen units with the folded vectors of their other matrices.

    Attributes:
        units: The choice, and the leading rows.
        up: float32 (N, d), None in plain MLPs.
        down: float32 (N, d) down columns.
    """

    units: ChosenUnits
    up: torch.Tensor | None
    down: torch.Tensor


def pool(parts: list[UnitVectors], keep: int) -> list[UnitVectors]:
    """The ``keep`` strongest units over all experts, expert by expert."""
    chosen, kept, start = _largest(np.concatenate([p.units.strength for p in parts]), keep), [], 0
    for part in parts:
        units = part.units
        local = chosen[(chosen >= start) & (chosen < start + units.index.size)] - start
        start += units.index.size
        rows = torch.from_numpy(local)
        cut = replace(units, index=units.index[local], strength=units.strength[local], rows=units.rows[rows])
        kept.append(UnitVectors(cut, None if part.up is None else part.up[rows], part.down[rows]))
    return kept


def invariants(
    parts: list[UnitVectors], probes: dict[str, torch.Tensor], gram: int, gain: torch.Tensor | None
) -> UnitInvariants:
    """Invariants of one layer's units.

    Args:
        parts: Per expert (one part for a dense layer).
        probes: Basis to float32 (d, k). Up and down rows are probed in the first basis only.
        gram: Number of units whose mutual cosines are kept.
        gain: float32 (d,) of the norm before gate and up, already folded into them; None for no gain.
    """
    lead = torch.cat([p.units.rows for p in parts])
    down = torch.cat([p.down for p in parts])
    ups = [p.up for p in parts if p.up is not None]
    up = torch.cat(ups) if len(ups) == len(parts) else None
    norms = np.concatenate([p.units.norms for p in parts])
    centre = torch.stack([p.units.total for p in parts]).sum(0) / max(1, norms.size)
    signed_up, signed_down, triples = _signed(lead, up, down)
    first = dict(list(probes.items())[:1])
    rows = [lead, *([] if signed_up is None else [signed_up]), signed_down]
    sizes = [
        torch.zeros(lead.shape[0]) if up is None else _norms(lead),
        _norms(lead if up is None else up),
        _norms(down),
    ]
    table = torch.stack(sizes, dim=1).numpy()
    among = torch.from_numpy(strongest(table, gram))
    return UnitInvariants(
        count=int(norms.size),
        expert=np.concatenate([np.full(p.units.index.size, p.units.expert, dtype=np.int32) for p in parts]),
        index=np.concatenate([p.units.index for p in parts]).astype(np.int32),
        triples=(triples * np.sqrt(lead.shape[1])).to(torch.float16).numpy(),
        norms=table,
        gate={basis: _probed(lead, p) for basis, p in probes.items()},
        up={} if signed_up is None else {basis: _probed(signed_up, p) for basis, p in first.items()},
        down={basis: _probed(signed_down, p) for basis, p in first.items()},
        centre={basis: (centre.to(torch.float32) @ p).numpy() for basis, p in probes.items()},
        gram=np.stack([_cosines(x[among]) for x in rows]),
        seen=_seen(next(iter(first.values()), None), gain),
        spread=_spread(norms),
    )


def _spread(norms: np.ndarray) -> np.ndarray:
    """Quantiles of the norms over their median."""
    found = quantiles(norms)
    return found / found[4] if found[4] > 0 else found


def _cosines(rows: torch.Tensor) -> np.ndarray:
    unit = _directions(rows)
    return (unit @ unit.T).to(torch.float16).numpy()


def _seen(probes: torch.Tensor | None, gain: torch.Tensor | None) -> np.ndarray:
    """Gram matrix of the probes under squared gains, of unit diagonal on average, float16 (k, k)."""
    if probes is None or gain is None:
        return np.zeros((0, 0), dtype=np.float16)
    weighted = probes.double() * gain.double()[:, None]
    gram = weighted.T @ weighted
    return (gram / gram.diagonal().mean().clamp_min(1e-30)).to(torch.float16).numpy()


def _probed(rows: torch.Tensor, probes: torch.Tensor) -> np.ndarray:
    """Rows of unit length on the probes, float16 (N, k)."""
    return (_directions(rows) @ probes).to(torch.float16).numpy()


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
