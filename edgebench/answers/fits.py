"""The table of curves that were fitted: where each is slow, its cliff, and the model's error."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from edgebench.answers.table import Table, filled_table, share, size
from edgebench.results.spread import SLIGHT

if TYPE_CHECKING:
    from edgebench.slowdown.models.fitting import CurveFits, Errors

_TITLES = ("curve", "points", "unlimited", "1.1x down to", "cliff", "model", "error")
#: A cliff: between two limits the slowdown grows by this factor or more.
_CLIFF = 1.5


def fits_table(fits: Iterable[CurveFits]) -> Table:
    """Make a row for each curve; the error is at limits that were left out of the fit."""
    return filled_table(_TITLES, map(_row, fits), "curve", "cliff", "model")


def _row(fits: CurveFits) -> list[str]:
    curve, best = fits.curve, fits.best
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
        best.model if best else "?",
        error_cells(best.errors if best else None)[0],
    ]


def models_tables(fits: Iterable[CurveFits]) -> Iterator[Table]:
    """Make a table of all models for each curve."""
    for one in fits:
        rows = [[each.model, *error_cells(each.errors)] for each in one.fits]
        titles = ("model", "error", "median", "inside", "outside")
        yield Table(titles, rows, ("model",), one.curve.label)


def error_cells(errors: Errors | None) -> list[str]:
    """Mean and median error, and the mean inside and outside the range of the other limits."""
    if errors is None:
        return ["?"] * 4
    every = (errors.mape, errors.median_ape, errors.mape_inside, errors.mape_outside)
    return [share(one) or "?" for one in every]
