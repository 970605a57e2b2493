"""Where a curve bends: a fit of two straight lines that meet, and a test for the bend."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgebench.errors import ResultsError

Floats = NDArray[np.float64]

#: Of the interval that is reported.
LEVEL = 0.9
#: A bend counts if one straight line with the same noise looks as bent less often than this.
_MOST_DOUBT = 0.05
_CANDIDATES, _SIMULATED = 1201, 999
#: Of them, one in so many is tried on the simulated lines too.
_COARSE = 4
_LEAST_PLACES = 5


@dataclass(frozen=True)
class Bend:
    """Two lines that meet at a place, fitted by least squares of relative errors.

    Args:
        at: the place, in the unit of x; ``low`` and ``high`` are its 90 % interval.
        before, after: the lines' slopes, in y's unit per unit of x.
        start: the first line's value at x = 0.
        doubt: how often one straight line with the same noise looks as bent, 0 … 1.
    """

    at: float
    low: float
    high: float
    before: float
    after: float
    start: float
    doubt: float

    @property
    def found(self) -> bool:
        """Whether there is a bend, rather than noise around one straight line."""
        return self.doubt <= _MOST_DOUBT

    def value(self, x: ArrayLike) -> Floats:
        """The two lines."""
        given = np.asarray(x, dtype=float)
        rise = (self.after - self.before) * np.maximum(given - self.at, 0.0)
        return self.start + self.before * given + rise


def find_bend(x: ArrayLike, y: ArrayLike) -> Bend:
    """The place where the best two lines meet.

    Every place of a fine grid between the second and the last but one x is tried. The doubt is
    simulated with 999 seeded straight lines that have the fitted noise, searched alike.

    Args:
        x: where it was observed; a place may have several observations.
        y: what was observed there, above 0.

    Raises:
        ResultsError: x has fewer than 5 places.
    """
    xs, ys = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    places = np.unique(xs)
    if len(places) < _LEAST_PLACES:
        found = len(places)
        raise ResultsError(f"{found} places are too few to find a bend; needed: {_LEAST_PLACES}")
    tried = np.linspace(places[1], places[-2], _CANDIDATES)
    weights = 1 / ys
    # Divided by y: relative errors are squared.
    bases = np.stack([_basis(_hinge(xs, place), weights) for place in tried])
    line = _basis(np.stack([np.ones_like(xs), xs], 1), weights)
    observed = np.ones_like(ys)
    errors = _errors(bases, observed[:, None])[:, 0]
    best, free = int(np.argmin(errors)), max(len(xs) - 4, 1)
    low, high = _interval(tried, errors, free)
    (start, before, change), *_ = np.linalg.lstsq(
        _hinge(xs, tried[best]) * weights[:, None], observed, rcond=None
    )
    return Bend(
        at=float(tried[best]),
        low=low,
        high=high,
        before=float(before),
        after=float(before + change),
        start=float(start),
        doubt=_doubt(bases[::_COARSE], line, observed, free),
    )


def _interval(tried: Floats, errors: Floats, free: int) -> tuple[float, float]:
    """The places whose fit is no worse than the best one's by an F test of one parameter."""
    from scipy import stats

    reach = errors.min() * (1 + float(stats.f.ppf(LEVEL, 1, free)) / free)
    near = np.flatnonzero(errors <= reach)
    # A step of the grid wider: the interval may end anywhere up to there.
    return float(tried[max(near[0] - 1, 0)]), float(tried[min(near[-1] + 1, len(tried) - 1)])


def _hinge(x: Floats, place: float) -> Floats:
    return np.stack([np.ones_like(x), x, np.maximum(x - place, 0.0)], 1)


def _basis(columns: Floats, weights: Floats) -> Floats:
    """Orthonormal columns that span what the fit can reach."""
    return np.linalg.qr(columns * weights[:, None])[0]


def _errors(bases: Floats, observed: Floats) -> Floats:
    """Sum of squares left by each basis (rows) of each observation (columns)."""
    count, places, columns = bases.shape
    # One product of matrices: a thousand observations at once.
    reached = bases.transpose(0, 2, 1).reshape(-1, places) @ observed
    left: Floats = (observed**2).sum(0) - (reached**2).reshape(count, columns, -1).sum(1)
    return np.maximum(left, 1e-30)


def _doubt(bases: Floats, line: Floats, observed: Floats, free: int) -> float:
    """The share of simulated straight lines whose best bend gains as much as the real one's."""
    straight = line @ (line.T @ observed)
    noise = float(np.sqrt(_errors(line[None], observed[:, None])[0, 0] / (free + 2)))
    random: Any = np.random.default_rng(0)
    made = straight[:, None] + noise * random.standard_normal((len(observed), _SIMULATED))
    seen = np.column_stack([observed, made])
    gain = _errors(line[None], seen)[0] / _errors(bases, seen).min(0)
    return float((1 + (gain[1:] >= gain[0]).sum()) / (1 + _SIMULATED))
