"""The convolution micro-benchmark: cost per image, its bends, and their tables.

The experiment of Agarwal, Paulsen and Hancock, "Performance Analysis of Machine Learning Model
Training on Low Power Devices".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgebench.analysis.studies.tables import Column, StudyTable, frame_rows
from edgebench.errors import ResultsError
from edgebench.text import MIB

if TYPE_CHECKING:
    import pandas as pd

    from edgebench.results.results import Results


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
        """Compute the value on the two lines."""
        given = np.asarray(x, dtype=float)
        rise = (self.after - self.before) * np.maximum(given - self.at, 0.0)
        return self.start + self.before * given + rise


def find_bend(x: ArrayLike, y: ArrayLike) -> Bend:
    """Find the place where the best two lines meet.

    Every place of a fine grid between the second and the last but one x is tried. The doubt is
    simulated with 999 seeded straight lines that have the fitted noise, searched alike.

    Args:
        x: where it was observed; a place may have several observations.
        y: what was observed there, above 0.

    Raises:
        ResultsError: x has fewer than 5 places.
    """
    from scipy import stats

    xs, ys = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    places = np.unique(xs)
    if len(places) < _LEAST_PLACES:
        count = len(places)
        raise ResultsError(f"{count} places are too few to find a bend; needed: {_LEAST_PLACES}")
    tried = np.linspace(places[1], places[-2], _CANDIDATES)
    weights = 1 / ys
    # Divided by y: relative errors are squared.
    bases = np.stack([_basis(_hinge(xs, place), weights) for place in tried])
    line = _basis(np.stack([np.ones_like(xs), xs], 1), weights)
    observed = np.ones_like(ys)
    errors = _errors(bases, observed[:, None])[:, 0]
    best, free = int(np.argmin(errors)), max(len(xs) - 4, 1)
    # The places whose fit is no worse than the best one's by an F test of one parameter; a step of
    # the grid wider: the interval may end anywhere up to there.
    reach = errors.min() * (1 + float(stats.f.ppf(LEVEL, 1, free)) / free)
    near = np.flatnonzero(errors <= reach)
    low, high = tried[max(near[0] - 1, 0)], tried[min(near[-1] + 1, len(tried) - 1)]
    (start, before, change), *_ = np.linalg.lstsq(
        _hinge(xs, tried[best]) * weights[:, None], observed, rcond=None
    )
    return Bend(
        at=float(tried[best]),
        low=float(low),
        high=float(high),
        before=float(before),
        after=float(before + change),
        start=float(start),
        doubt=_doubt(bases[::_COARSE], line, observed, free),
    )


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
    straight = line @ (line.T @ observed)
    noise = float(np.sqrt(_errors(line[None], observed[:, None])[0, 0] / (free + 2)))
    random: Any = np.random.default_rng(0)
    simulated = straight[:, None] + noise * random.standard_normal((len(observed), _SIMULATED))
    observations = np.column_stack([observed, simulated])
    gain = _errors(line[None], observations)[0] / _errors(bases, observations).min(0)
    return float((1 + (gain[1:] >= gain[0]).sum()) / (1 + _SIMULATED))


KIND, FORWARD, BOTH = "convolution", "forward", "forward + backward"
#: What one line of cost against kernel, or against batch, holds fixed.
SHARED = ("limit_label", "channels", "image", "work", "stack")
_SETTINGS = ("kernel", "stack", "batch", "channels", "image", "backward", "warm")
_PASS = ("sweep", "trial", "round")


def pass_frame(results: Results) -> pd.DataFrame:
    """Make one row per counted pass: ``seconds``, ``peak_bytes``, and its point's settings.

    Raises:
        ResultsError: no convolution finished in this sweep.
    """
    trials = results.trials
    done = trials[(trials["kind"] == KIND) & (trials["outcome"] == "ok")]
    if done.empty:
        raise ResultsError("no convolution finished in this sweep")
    names = dict.fromkeys(("sweep", "trial", "point", "limit_label", "base_bytes", *_SETTINGS))
    phases = results.phases[results.phases["phase"].isin(("forward", "backward"))]
    grouped = phases.groupby(list(_PASS), as_index=False)
    # Both phases of a pass: their seconds add up, their peaks don't.
    passes = grouped.agg(seconds=("wall_s", "sum"), peak_bytes=("peak_bytes", "max"))
    frame = passes.merge(done[list(names)], on=["sweep", "trial"])
    frame = frame[frame["round"] >= frame["warm"]]
    work = np.where(frame["backward"].astype(bool), BOTH, FORWARD)
    return frame.assign(work=work).reset_index(drop=True)


def cost_frame(results: Results) -> pd.DataFrame:
    """Make one row per trial: its cost per image.

    ``image_s`` is the median pass over its images; ``image_bytes`` the highest peak above the
    base, over the images; ``field`` how many pixels of the input an output pixel sees along a side.

    Raises:
        ResultsError: as :func:`pass_frame`.
    """
    passes = pass_frame(results)
    keys = ["sweep", "trial", "point", *SHARED, "kernel", "batch", "base_bytes"]
    grouped = passes.groupby(keys, dropna=False, as_index=False)
    frame = grouped.agg(pass_s=("seconds", "median"), peak_bytes=("peak_bytes", "max"))
    return frame.assign(
        image_s=frame["pass_s"] / frame["batch"],
        image_bytes=(frame["peak_bytes"] - frame["base_bytes"]) / frame["batch"],
        field=frame["stack"] * (frame["kernel"] - 1) + 1,
    )


@dataclass(frozen=True)
class CostBend:
    """Where the time per image bends, along kernels at one batch or along batches at one kernel.

    Along kernels x is the kernel's area: the arithmetic of a convolution is a straight line in it,
    so a bend is the machine's. Along batches x is the batch's logarithm to base 2.
    """

    along: str
    shared: dict[str, object]
    bend: Bend

    @property
    def at(self) -> float:
        """The kernel (its side) or the batch at the bend."""
        return self.back(self.bend.at)

    @property
    def interval(self) -> tuple[float, float]:
        """The place's 90 % interval, as :attr:`at`."""
        return self.back(self.bend.low), self.back(self.bend.high)

    def back(self, x: float) -> float:
        """Convert the fit's x to a kernel or batch."""
        return float(x**0.5 if self.along == "kernel" else 2**x)


def cost_bends(costs: pd.DataFrame) -> Iterator[CostBend]:
    """Find bends along kernels for each batch, and along batches for each kernel, of five each."""
    for along, other in (("kernel", "batch"), ("batch", "kernel")):
        fixed = [*SHARED, other]
        for values, rows in costs.groupby(fixed, sort=True):
            if rows[along].nunique() < 5:
                continue
            given = rows[along].to_numpy(dtype=float)
            x = given**2 if along == "kernel" else np.log2(given)
            bend = find_bend(x, rows["image_s"].to_numpy(dtype=float))
            yield CostBend(along, dict(zip(fixed, tuple(values), strict=True)), bend)


#: What was done, and at which limit: the first columns of each table.
_WHERE = (Column("work", "pass", words=True), Column("limit_label", "limit", words=True))
_COSTS = (
    *_WHERE,
    Column("stack", "stacked", "{:g}"),
    Column("kernel", "kernel", "{:g}"),
    Column("batch", "batch", "{:g}"),
    Column("image_s", "ms per image", "{:.3f}", 1e-3),
    Column("image_bytes", "MiB per image", "{:.2f}", MIB),
)
_BENDS = (
    *_WHERE,
    Column("along", "along", words=True),
    Column("stack", "stacked", "{:g}"),
    Column("other", "at the other's", "{:g}"),
    Column("at", "bend at", "{:.1f}"),
    Column("low", "from", "{:.1f}"),
    Column("high", "to", "{:.1f}"),
    Column("steeper", "slope after / before", "{:.2f}"),
    Column("doubt", "doubt", "{:.3f}"),
)


def convolution_tables(results: Results) -> list[StudyTable]:
    """Make the tables: cost per image of every point, and its bends.

    Raises:
        ResultsError: no convolution finished in this sweep.
    """
    costs = cost_frame(results)
    keys = ["work", "limit_label", "stack", "kernel", "batch"]
    medians = costs.groupby(keys, as_index=False)[["image_s", "image_bytes"]].median()
    title = "Time and memory of a convolution per image"
    tables = [StudyTable("convolution", title, _COSTS, frame_rows(medians))]
    bends = []
    for cost in cost_bends(costs):
        at, bend = (cost.at, *cost.interval) if cost.bend.found else (None, None, None), cost.bend
        bends.append(
            {
                **cost.shared,
                "along": cost.along,
                "other": cost.shared["batch" if cost.along == "kernel" else "kernel"],
                **dict(zip(("at", "low", "high"), at, strict=True)),
                "steeper": bend.after / bend.before if bend.before else None,
                "doubt": bend.doubt,
            }
        )
    if bends:
        says = ("no place: a straight line with the same noise looks as bent more than once in 20",)
        tables.append(StudyTable("bends", "Bends of the time per image", _BENDS, bends, says))
    return tables
