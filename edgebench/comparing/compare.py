"""Two sweeps compared, point by point, with a test that can fail.

Points are paired by workload settings and limits. A time is called slower only if the ratio of
medians passes the threshold *and* a t-test on the logarithms of the repeats
(:mod:`edgebench.comparing.significance`), corrected (Holm) for how many comparisons were made,
says chance would seldom do that. Repeats are trials: rounds within a trial share one process and
are none.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal

from edgebench.comparing.significance import moderated
from edgebench.errors import ResultsError, UsageError
from edgebench.records.records import LimitSetting, TrialRecord
from edgebench.results.reading import Sweep
from edgebench.results.summary import workload_key, workload_label
from edgebench.results.times import TIMES, trial_times

#: How seldom chance alone may call anything a change, over all of the comparisons together.
ALPHA = 0.05
#: Changes up to this share are none. Half of the least change that the default repeats must find:
#: at the change itself every second one would fall short of it by chance.
THRESHOLD = 0.05
#: A variance needs two values.
LEAST_REPEATS = 2
ACROSS_REMEDY = "to compare them all the same: --across-devices"

Verdict = Literal["slower", "faster", "more", "less", "same", "unsure", "lost", "gained"]
#: Verdicts that are regressions.
REGRESSIONS: tuple[Verdict, ...] = ("slower", "more", "lost")


@dataclass(frozen=True)
class Comparison:
    """One quantity of one point in both sweeps.

    ``quantity`` is one of :data:`~edgebench.results.times.TIMES` (seconds), ``demand`` (bytes) or
    ``viable`` (share of trials that ended ``ok``). ``ratio`` is b / a, with a 95 % interval.
    ``p`` is corrected. From ``least_ratio`` on a change is found 19 times in 20. Missing values:
    too few repeats, or the quantity isn't there.
    """

    workload: str
    limits: LimitSetting
    quantity: str
    a: float
    b: float
    repeats_a: int
    repeats_b: int
    verdict: Verdict
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    p: float | None = None
    least_ratio: float | None = None

    @property
    def is_regression(self) -> bool:
        """Whether it got worse beyond threshold and chance."""
        return self.verdict in REGRESSIONS


@dataclass(frozen=True)
class Compared:
    """All comparisons, and the points that only one of the sweeps has."""

    rows: list[Comparison]
    only_a: list[str]
    only_b: list[str]

    @property
    def regressions(self) -> list[Comparison]:
        """What got worse beyond threshold and chance."""
        return [row for row in self.rows if row.is_regression]

    @property
    def least_times_ratio(self) -> float | None:
        """From which ratio on the middle one of the times is found; None: nothing was tested."""
        least = [row.least_ratio for row in self.rows if row.least_ratio and row.quantity in TIMES]
        return statistics.median(least) if least else None

    def repeats_for(self, ratio: float) -> int | None:
        """About how many repeats a side it takes to find such a ratio of the middle one."""
        least = self.least_times_ratio
        if least is None:
            return None
        repeats = min(min(row.repeats_a, row.repeats_b) for row in self.rows if row.least_ratio)
        # The error of a mean falls with the root of the repeats.
        return math.ceil(repeats * (math.log(least) / math.log(ratio)) ** 2)


def compare_sweeps(
    a: Sweep, b: Sweep, *, threshold: float = THRESHOLD, across_devices: bool = False
) -> Compared:
    """Compare sweep b with the earlier sweep a; a change within ``threshold`` (a share) is none.

    Raises:
        UsageError: the sweeps are of different devices.
        ResultsError: they have no point in common.
        MachineError: scipy isn't installed.
    """
    if a.device != b.device and not across_devices:
        raise UsageError(
            f"the sweeps are of different devices: {a.device} and {b.device}",
            remedy=ACROSS_REMEDY,
        )
    points_a, points_b = _points(a), _points(b)
    common = [key for key in points_a if key in points_b]
    if not common:
        raise ResultsError(
            "the sweeps have no point in common: no same workload at a same limit",
            where=f"{a.path} and {b.path}",
            remedy="compare two sweeps of one scenario",
        )
    made = [row for key in common for row in _compare_point(points_a[key], points_b[key])]
    rows = _tested(made)
    return Compared(
        rows=_judged(rows, threshold),
        only_a=[_words(points_a[key]) for key in points_a if key not in points_b],
        only_b=[_words(points_b[key]) for key in points_b if key not in points_a],
    )


def _points(sweep: Sweep) -> dict[tuple[str, LimitSetting], list[TrialRecord]]:
    points: dict[tuple[str, LimitSetting], list[TrialRecord]] = {}
    for record in sweep.records:
        # A share's bytes follow from that sweep's own demand, so the label pairs them.
        limits = replace(record.limits, memory_bytes=None)
        points.setdefault((workload_key(record.settings), limits), []).append(record)
    return points


def _words(records: Sequence[TrialRecord]) -> str:
    return f"{workload_label(records[0].settings)} at {records[0].limits.label}"


@dataclass(frozen=True)
class _Made:
    """A comparison not tested yet, with the repeats of both sides; none: there is no test."""

    row: Comparison
    before: Sequence[float] = ()
    after: Sequence[float] = ()


def _compare_point(a: Sequence[TrialRecord], b: Sequence[TrialRecord]) -> list[_Made]:
    rows = [_Made(_viable(a, b))]
    for quantity in (*TIMES, "demand"):
        values_a, values_b = _values(a, quantity), _values(b, quantity)
        if values_a and values_b:
            rows.append(_Made(_row(a, quantity, values_a, values_b), values_a, values_b))
    return rows


def _tested(made: Sequence[_Made]) -> list[Comparison]:
    """The rows with their test; times and demand apart, for they spread differently."""
    rows = [one.row for one in made]
    testable = [
        index
        for index, one in enumerate(made)
        if min(len(one.before), len(one.after)) >= LEAST_REPEATS
    ]
    for kind in (True, False):
        chosen = [i for i in testable if (made[i].row.quantity == "demand") == kind]
        pairs = [(_logs(made[i].before), _logs(made[i].after)) for i in chosen]
        found = moderated(pairs, ALPHA / len(testable)) if pairs else ()
        for index, tested in zip(chosen, found, strict=True):
            rows[index] = replace(rows[index], **asdict(tested))
    return rows


def _logs(values: Sequence[float]) -> list[float]:
    return [math.log(value) for value in values]


def _values(records: Iterable[TrialRecord], quantity: str) -> list[float]:
    if quantity == "demand":
        found: list[float | None] = [record.demand_bytes for record in records]
    else:
        found = [trial_times(record).get(quantity) for record in records]
    return [value for value in found if value is not None and value > 0]


def _viable(a: Sequence[TrialRecord], b: Sequence[TrialRecord]) -> Comparison:
    """All were viable and now none is, or the other way round; what lies between is unsure."""
    share_a, share_b = (sum(r.outcome == "ok" for r in s) / len(s) for s in (a, b))
    verdict: Verdict = "same" if share_a == share_b else "unsure"
    if (share_a, share_b) == (1, 0):
        verdict = "lost"
    elif (share_a, share_b) == (0, 1):
        verdict = "gained"
    return Comparison(
        workload=workload_label(a[0].settings),
        limits=a[0].limits,
        quantity="viable",
        a=share_a,
        b=share_b,
        repeats_a=len(a),
        repeats_b=len(b),
        verdict=verdict,
    )


def _row(
    records: Sequence[TrialRecord], quantity: str, a: Sequence[float], b: Sequence[float]
) -> Comparison:
    median_a, median_b = statistics.median(a), statistics.median(b)
    return Comparison(
        workload=workload_label(records[0].settings),
        limits=records[0].limits,
        quantity=quantity,
        a=median_a,
        b=median_b,
        repeats_a=len(a),
        repeats_b=len(b),
        verdict="unsure",
        ratio=median_b / median_a,
    )


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction: each p as if it were the only comparison made."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    corrected, floor = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        floor = max(floor, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = floor
    return corrected


def _judged(rows: Sequence[Comparison], threshold: float) -> list[Comparison]:
    tested = [index for index, row in enumerate(rows) if row.p is not None]
    corrected = dict(zip(tested, holm([rows[i].p or 0.0 for i in tested]), strict=True))
    judged = []
    for index, row in enumerate(rows):
        if index in corrected:
            row = replace(row, p=corrected[index])
        judged.append(row if row.quantity == "viable" else _with_verdict(row, threshold))
    return judged


def _with_verdict(row: Comparison, threshold: float) -> Comparison:
    ratio = row.ratio or 1.0
    worse, better = ratio > 1 + threshold, ratio < 1 / (1 + threshold)
    words: Mapping[bool, tuple[Verdict, Verdict]]
    words = {True: ("more", "less"), False: ("slower", "faster")}
    up, down = words[row.quantity == "demand"]
    if not (worse or better):
        return replace(row, verdict="same")
    if row.p is None or row.p > ALPHA:
        return replace(row, verdict="unsure")
    return replace(row, verdict=up if worse else down)
