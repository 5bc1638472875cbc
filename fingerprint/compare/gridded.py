"""What became of one tensor, as its linear sketch and its grid of values show it.

The linear sketch sees all of the tensor: sizes, cosines, and the coefficients of a regression on the reference and on
its own change from the base. The grid sees few values exactly: the remainder of that regression, taken there, keeps the
sign-flip null exact whatever noise was drawn, and shows zeros and untouched entries.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from fingerprint.architecture.interface import Role, Slot
from fingerprint.compare import changes
from fingerprint.compare.correspond import BETTER
from fingerprint.compare.evidence import SlotChange
from fingerprint.compare.full import ROUNDING, SHIFT_ROUNDING, distinct_rows
from fingerprint.compare.nuisance import remove_scalings
from fingerprint.compare.regress import project
from fingerprint.compare.structure import NOTHING, Coherence, coherence
from fingerprint.fingerprint import Lattice, SlotSketch
from fingerprint.sketch.grid import is_bfloat16

LEAST_EFFECTIVE = 200
"""Entries that must carry what pruning left, for it to be judged: a light update sits in the smallest weights."""

REFOLDED = ROUNDING[torch.bfloat16]

EXACT = 1e-6
"""Relative size below which a sketched delta is float32 summation noise."""

UNSETTLED = "unsettled"
"""Channel without a tail: nothing measured by it is ever called a copy."""

COMMON_ROW = 0.5
"""Share of a head's change that one row added to all rows must explain to be taken out."""


@dataclass(frozen=True)
class Seen:
    """One model's view of a tensor.

    Attributes:
        linear: Linear sketch cut to the common size, float64; None where it cannot be compared.
        grid: Values on the common grid, in the gauge they are compared in, float64.
    """

    linear: np.ndarray | None
    grid: np.ndarray


def untouched(slot: Slot, sketch: SlotSketch) -> SlotChange:
    """The change of a tensor that did not change."""
    return SlotChange(slot, sketch.numel, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, NOTHING)


def same_values(a: SlotSketch, b: SlotSketch) -> bool:
    """Whether two tensors are stored alike, as far as grid, norm and zeros can tell."""
    return (
        a.grid is not None and b.grid is not None and a.shape == b.shape and a.norm == b.norm
        and a.statistics.peak == b.statistics.peak and np.array_equal(a.grid, b.grid)
    )  # fmt: skip


def change(
    slot: Slot, ours: SlotSketch, theirs: SlotSketch, c: Seen, r: Seen, base: Seen | None, *, refolded: bool,
    places: Places,
) -> SlotChange:  # fmt: skip
    """One matrix's change.

    Args:
        slot: Its place in the reference.
        ours: Of the candidate.
        theirs: Of the reference.
        c: The candidate's view.
        r: The reference's view.
        base: A common ancestor's view, where it has one.
        refolded: Whether the norm before it was folded away or made up: its rounded gains then leave a scaling of
            columns, which is taken out.
        places: Where the rows and columns of the common grid stand in the tensor.
    """
    if _misfolded(c, r):
        c, r = replace(c, linear=None), replace(r, linear=None)
    values = [(x.linear if x.linear is not None else x.grid) for x in (c, r)]
    size = float(np.linalg.norm(values[1])) or 1.0
    delta = values[0] - values[1]
    relative = float(np.linalg.norm(delta)) / size
    if relative <= EXACT:
        return untouched(slot, theirs)
    row = _common_row(slot, c.grid, r.grid, base)
    if row is not None and c.linear is None:
        delta = delta - row
    if base is not None and c.linear is not None and base.linear is None:
        c, r = replace(c, linear=None), replace(r, linear=None)
        delta = c.grid - r.grid - (0.0 if row is None else row)
        size = float(np.linalg.norm(r.grid)) or 1.0
        values = [c.grid, r.grid]
    fit = _fit(delta, values[1], base, c.linear is not None)
    left = _remainder(c.grid if row is None else c.grid - row, r.grid, base)
    residual = fit.left / size
    if residual < MOSTLY * relative and left.any():
        residual = min(residual, float(np.linalg.norm(left)) / (float(np.linalg.norm(r.grid)) or 1.0))
    kind = None if refolded else _kind(ours, theirs, c.grid, r.grid)
    channel = f"grid-{0 if theirs.grid is None else max(theirs.grid.shape)}"
    if kind is not None and kind.startswith("pruned"):
        left, residual = _unpruned(c.grid, r.grid)
        channel = channel if not left.any() or _effective(left) >= LEAST_EFFECTIVE else UNSETTLED
    elif kind is not None and kind.startswith("quantised"):
        if in_order(c.grid, r.grid, places, _length(theirs)):
            left, residual = np.zeros_like(left), 0.0
        else:
            channel = UNSETTLED
    elif abs(fit.scale) > SCALED and _multiplied(c.grid, r.grid):
        left, residual = np.zeros_like(left), 0.0
    elif left.any() and float((c.grid != r.grid).mean()) < LEAST_SHARE:
        channel = UNSETTLED
    elif row is not None:
        left, residual = _unshifted(left, r.grid, row)
    elif refolded:
        left = remove_scalings(torch.from_numpy(left), torch.from_numpy(r.grid)).numpy()
        residual = min(residual, float(np.linalg.norm(left)) / (float(np.linalg.norm(r.grid)) or 1.0))
    return SlotChange(
        slot=slot,
        numel=theirs.numel,
        similarity=float((values[0] * values[1]).sum()) / max(float(np.linalg.norm(values[0])) * size, 1e-300),
        relative=relative,
        rounding=REFOLDED if refolded else 0.0,
        changed=float((c.grid != r.grid).mean()) if c.grid.size else 1.0,
        scale=fit.scale,
        toward_base=fit.toward,
        residual=residual if residual > EXACT else 0.0,
        coherence=_coherence(slot, left, r.grid),
        kind=kind,
        rank=_rank(slot, left),
        channel=channel,
    )


MOSTLY = 0.3
"""Where a fit leaves less than this fraction of a change, what it leaves is measured on the grid, which is exact."""


def _remainder(c: np.ndarray, r: np.ndarray, base: Seen | None) -> np.ndarray:
    """The change on the grid without its components along the reference and along the reference's own change."""
    directions = [torch.from_numpy(r)] + ([] if base is None else [torch.from_numpy(r - base.grid)])
    return np.asarray(project(torch.from_numpy(c - r), directions).residual.numpy())


def _misfolded(c: Seen, r: Seen) -> bool:
    """Whether stored values agree much better than linear sketches, which had other gains folded in."""
    if c.linear is None or r.linear is None or not (c.grid != r.grid).any():
        return False
    on_grid = float(np.linalg.norm(c.grid - r.grid)) / (float(np.linalg.norm(r.grid)) or 1.0)
    return on_grid < BETTER * float(np.linalg.norm(c.linear - r.linear)) / (float(np.linalg.norm(r.linear)) or 1.0)


@dataclass(frozen=True)
class _Fit:
    scale: float
    toward: float
    left: float


def _fit(delta: np.ndarray, reference: np.ndarray, base: Seen | None, projected: bool) -> _Fit:
    """Regression of the change on the reference and on its own change; ``left`` is the norm of the remainder."""
    before = None if base is None else (base.linear if projected else base.grid)
    if before is not None and before.shape != reference.shape:
        before = None
    directions = [torch.from_numpy(reference)]
    if before is not None:
        directions.append(torch.from_numpy(reference - before))
    found = project(torch.from_numpy(delta), directions)
    toward = found.coefficients[1] if before is not None else 0.0
    return _Fit(found.coefficients[0], toward, float(found.residual.norm()))


def _kind(ours: SlotSketch, theirs: SlotSketch, c: np.ndarray, r: np.ndarray) -> str | None:
    """Name of a drawn change that the candidate's own values give away."""
    rounded = changes.cast(torch.from_numpy(c), torch.from_numpy(r)) if c.size else None
    if rounded is not None:
        return f"cast:{rounded}"
    scheme = _scheme(ours.lattice)
    if scheme is not None and scheme != _scheme(theirs.lattice):
        return f"quantised:{scheme}"
    fraction = changes.pruned(torch.from_numpy(c), torch.from_numpy(r)) if c.size else None
    return f"pruned:{fraction:.2g}" if fraction is not None and fraction >= PRUNED else None


LEAST_SHARE = 0.07
"""Share of the grid's entries that must have changed for their coherence to be judged: a fine-tune at a very low rate
on a bf16 grid changes 1 to 5% of the values, and shows no more on a grid than drawn flips would. Reward-driven updates
at usual rates change 17% and more."""

SCALED = 4e-3
"""Smallest factor less one that is tried as a scaling: a unit in bfloat16's last place."""


def _multiplied(c: np.ndarray, r: np.ndarray) -> bool:
    """Whether the candidate's values are the reference's times one factor, rounded, and nothing else."""
    factor = float((c * r).sum()) / (float((r * r).sum()) or 1.0)
    ours, theirs = torch.from_numpy(c).float(), torch.from_numpy(r).float()
    dtype = torch.bfloat16 if is_bfloat16(c) else torch.float32
    return changes.computed(ours, theirs, torch.from_numpy(r) * factor, dtype)


FEW_ROWS, LEAST_FEW = 8, 64
"""Rows of a matrix that is no more than some vectors (BERT's two token types): this many pairs do for it."""

GROUPS = (0, 128, 64, 32)
"""Columns that may share a scale; 0: the whole row."""

LEAST_PAIRS = 100
"""Pairs of neighbours that order must be seen on, in every matrix: an honest light update, quantised, swaps 6 to 60 in
a thousand in each of them (calibration families)."""


def in_order(c: np.ndarray, r: np.ndarray, places: Places, width: int) -> bool:
    """Whether rounding the reference alone can have given the candidate: rounding to levels never swaps two values.

    Whatever the levels and the scale, values that share a scale keep their order. A learned change that was then
    quantised hides under the rounding, which is larger, but it swaps values that lay close together. Groups run along
    rows, or, as bitsandbytes makes them, through the flattened tensor.

    Args:
        c: float (m, n) the candidate's values, on few levels.
        r: float (m, n) the reference's.
        places: int (m,) and (n,) where they stand in the tensor.
        width: Columns of the tensor.
    """
    rows, columns = places
    flat = rows.astype(np.int64)[:, None] * width + columns[None, :]
    beside = [np.broadcast_to(columns // group if group else np.zeros_like(columns), c.shape) for group in GROUPS]
    through = [flat // group for group in GROUPS if group and width % group]
    return any(_unswapped(c, r, labels) for labels in (*beside, *through))


def _length(sketch: SlotSketch) -> int:
    return max(1, int(np.prod(sketch.shape[1:], dtype=np.int64)))


Places = tuple[np.ndarray, np.ndarray]
"""Rows and columns of a grid in its tensor."""


def _unswapped(c: np.ndarray, r: np.ndarray, labels: np.ndarray) -> bool:
    """Whether no two neighbours by reference value within a group of a row are swapped, over enough of them."""
    order = np.lexsort((c, r, labels), axis=1)
    ours, theirs, group = (np.take_along_axis(x, order, 1) for x in (c, r, labels))
    beside = np.diff(group, axis=1) == 0
    if (beside & (np.diff(ours, axis=1) < 0)).any():
        return False
    pairs = int((beside & (np.diff(theirs, axis=1) > 0)).sum())
    return pairs >= LEAST_PAIRS or (c.shape[0] <= FEW_ROWS and pairs >= LEAST_FEW)


PRUNED = 0.02
"""Fraction of zeros from which they count as pruning; rounding to few levels makes some."""


def _scheme(lattice: Lattice | None) -> str | None:
    """``int8``, ``int4``, ``nf4`` or ``fp8`` from a lattice's scheme; None without one."""
    if lattice is None or lattice.bits == 0:
        return None
    name = lattice.scheme.split("-")[0]
    return {"levels8": "fp8", "levels4": "nf4"}.get(name, name.replace("levels", "int"))


def _unpruned(c: np.ndarray, r: np.ndarray) -> tuple[np.ndarray, float]:
    """What is left of entries that were not set to zero, and its relative size."""
    kept = (c != 0) | (r == 0)
    delta = (c - r) * kept
    fit = project(torch.from_numpy(delta), [torch.from_numpy(r * kept)])
    size = float(np.linalg.norm(r)) or 1.0
    residual = fit.residual.numpy()
    return residual, float(np.linalg.norm(residual)) / size


def _effective(left: np.ndarray) -> float:
    """Number of entries that carry the energy."""
    squares = left**2
    fourth = float((squares**2).sum())
    return float(squares.sum()) ** 2 / fourth if fourth > 0 else 0.0


def _common_row(slot: Slot, c: np.ndarray, r: np.ndarray, base: Seen | None) -> np.ndarray | None:
    """A row added to all rows of a head (probabilities do not see it), where most of the change is nothing else."""
    delta = c - r
    if slot.role is not Role.HEAD or delta.shape[0] < 3 or not delta.any():
        return None
    row = np.median(delta, axis=0)
    without = float((_remainder(c - row, r, base) ** 2).sum())
    return np.asarray(row) if without <= COMMON_ROW * float((_remainder(c, r, base) ** 2).sum()) else None


def _unshifted(rest: np.ndarray, r: np.ndarray, row: np.ndarray) -> tuple[np.ndarray, float]:
    """What is left without the common row, and its relative size.

    What rounding after such an addition leaves is coherent, but bounded by the size of what was added.
    """
    bound = SHIFT_ROUNDING * (np.abs(r) + np.sqrt((r**2).mean(0)) + np.abs(row)) + 1e-9
    size = float(np.linalg.norm(r)) or 1.0
    remainder = float(np.linalg.norm(rest)) / size
    if (np.abs(rest) <= bound).mean() > 0.999:
        return np.zeros_like(rest), remainder
    return rest, remainder


def _coherence(slot: Slot, left: np.ndarray, r: np.ndarray) -> Coherence:
    if left.ndim != 2 or min(left.shape, default=0) < 2:
        return NOTHING
    delta = torch.from_numpy(left)
    if slot.role in (Role.EMBED, Role.HEAD):
        delta = delta[distinct_rows(torch.from_numpy(r))]
    return coherence(delta)


def _rank(slot: Slot, left: np.ndarray) -> float:
    """Numerical rank on the grid as a fraction of full rank; tables and small grids count as full."""
    short = min(left.shape, default=0)
    if short < 16 or slot.role in (Role.EMBED, Role.HEAD) or not left.any():
        return 1.0
    return changes.numerical_rank(torch.from_numpy(left)) / short


def is_shift(c: np.ndarray, r: np.ndarray) -> bool:
    """Whether a head differs by one row added to all rows and little else."""
    row = _common_row(Slot(Role.HEAD), c, r, None)
    return row is not None and float(np.linalg.norm(c - r - row)) <= 0.3 * float(np.linalg.norm(c - r))
