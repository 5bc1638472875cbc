"""A curve through most units, whatever a minority does, and the spread around it.

Tukey's bisquare by iteratively reweighted least squares, started from Theil and Sen's median slope, which holds up to
29% of arbitrary points. The curve is a polynomial in the standardised abscissa, of a degree that the number of units
can carry; spread is the median absolute deviation, made consistent for a Gaussian.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from .results import Floats

FEWEST: Final = 8
"""Units below which no curve is fitted: the answer is inconclusive."""
MAD_TO_SD: Final = 1.4826022185056018
"""1 / the upper quartile of the standard Gaussian."""
_BISQUARE: Final = 4.685  # 95% efficient at the Gaussian
_STEPS: Final = 40
_PAIRS: Final = 400  # Theil-Sen compares every two of at most that many points


@dataclass(frozen=True, eq=False)
class Curve:
    """A fitted polynomial.

    Args:
        centre: Abscissa that became 0.
        width: What became 1.
        coefficients: Lowest power first.
        inverse: (X'WX)^-1 of the last step, for leverage.
        units: Number of points fitted.
    """

    centre: float
    width: float
    coefficients: Floats
    inverse: Floats
    units: int

    @property
    def freedom(self) -> int:
        """Degrees of freedom left."""
        return self.units - self.coefficients.size

    def at(self, x: ArrayLike) -> Floats:
        """Values at ``x``, any shape."""
        return np.asarray(self._basis(x) @ self.coefficients)

    def leverage(self, x: ArrayLike) -> Floats:
        """Variance of the curve at ``x`` in units of a residual's variance."""
        basis = self._basis(x)
        return np.asarray(np.einsum("...i,ij,...j->...", basis, self.inverse, basis))

    def _basis(self, x: ArrayLike) -> Floats:
        scaled = (np.asarray(x, dtype=float) - self.centre) / self.width
        return np.asarray(scaled[..., None] ** np.arange(self.coefficients.size))


def degree_for(units: int) -> int:
    """Degree of the polynomial that so many units can carry."""
    return 1 if units < 20 else 2 if units < 60 else 3


def fit(x: Floats, y: Floats) -> Curve | None:
    """The curve through the points (x, y), each shape (units,); None when there are too few of them."""
    if x.size < FEWEST:
        return None
    centre = float(np.median(x))
    width = max(spread(x), float(np.ptp(x)) / 6, 1e-12)
    flat = float(np.ptp(x)) < 1e-9
    degree = 0 if flat else degree_for(x.size)
    basis = ((x - centre) / width)[:, None] ** np.arange(degree + 1)
    coefficients = _start(basis, y)
    weights = np.ones_like(y)
    for _ in range(_STEPS):
        residual = y - basis @ coefficients
        scale = max(spread(residual), 1e-12)
        weights = np.clip(1 - (residual / (_BISQUARE * scale)) ** 2, 0, None) ** 2
        updated = np.linalg.pinv(basis.T @ (weights[:, None] * basis)) @ (basis.T @ (weights * y))
        done = np.allclose(updated, coefficients, rtol=1e-9, atol=1e-12)
        coefficients = updated
        if done:
            break
    inverse = np.linalg.pinv(basis.T @ (weights[:, None] * basis))
    return Curve(centre, width, coefficients, np.asarray(inverse, dtype=float), x.size)


def spread(values: Floats) -> float:
    """Robust standard deviation around the median."""
    return MAD_TO_SD * float(np.median(np.abs(values - np.median(values))))


def _start(basis: Floats, y: Floats) -> Floats:
    coefficients = np.zeros(basis.shape[1])
    if basis.shape[1] > 1:
        step = max(1, y.size // _PAIRS)
        x, ordinate = basis[::step, 1], y[::step]
        first, second = np.triu_indices(x.size, 1)
        run = x[second] - x[first]
        apart = np.abs(run) > 1e-12
        coefficients[1] = np.median((ordinate[second] - ordinate[first])[apart] / run[apart])
    coefficients[0] = np.median(y - basis @ coefficients)
    return coefficients
