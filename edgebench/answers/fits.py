"""The table of curves that were fitted: where each is slow, its cliff, and its error."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import TYPE_CHECKING

from edgebench.answers.table import Table, filled_table, share, size
from edgebench.results.spread import SLIGHT

if TYPE_CHECKING:
    from edgebench.slowdown.fit import Fit

_TITLES = ("curve", "points", "unlimited", "1.1x down to", "cliff", "error")
#: A cliff: between two limits the slowdown grows by this factor or more.
_CLIFF = 1.5


def fits_table(fits: Iterable[Fit]) -> Table:
    """Make a row for each curve; errors are at limits that were left out of the fit."""
    return filled_table(_TITLES, map(_row, fits), "curve", "cliff")


def _row(fit: Fit) -> list[str]:
    curve = fit.curve
    points = sorted(zip(map(float, curve.limits), map(float, curve.medians), strict=True))
    fine = itertools.takewhile(lambda point: point[1] <= SLIGHT, reversed(points))
    least = min((limit for limit, _ in fine), default=None)
    steps = ((tight[1] / wide[1], tight[0], wide[0]) for tight, wide in itertools.pairwise(points))
    rise, low, high = max(steps, default=(1.0, 0.0, 0.0))
    return [
        curve.label,
        str(len(points)),
        curve.unlimited_words,
        "none" if least is None else size(least),
        f"{size(low)} to {size(high)}" if rise >= _CLIFF else "",
        share(fit.errors.mape) if fit.errors else "?",
    ]
