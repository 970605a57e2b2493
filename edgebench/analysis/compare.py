"""Two sweeps compared, point by point, with a test that can fail.

Points are paired by workload settings and limits (:mod:`edgebench.analysis.shared_points`). A time
is called slower only if the ratio of medians passes the threshold *and* a t-test on the logarithms
of the repeats (:mod:`edgebench.analysis.significance`), corrected (Holm) for how many comparisons
were made, says chance would seldom do that. All times together are one more question
(:mod:`edgebench.analysis.overall`). Repeats are trials: rounds within a trial share one process and
are none.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace

from edgebench.analysis.comparison import (
    ALPHA,
    PointComparison,
    SweepComparison,
    Verdict,
    judged_rows,
)
from edgebench.analysis.environments import environment_differences
from edgebench.analysis.overall import PointTime, compare_overall
from edgebench.analysis.shared_points import shared_points
from edgebench.analysis.significance import moderated_t_tests
from edgebench.answers.warnings import Warned, WarningKind, warning_lines
from edgebench.errors import UsageError
from edgebench.records import TrialRecord
from edgebench.results.rounds import START, STEADY, TIMES, trial_times
from edgebench.results.sweep_reader import Sweep
from edgebench.results.watched import how_watched
from edgebench.results.workload_key import workload_label
from edgebench.throughput import THROUGHPUT, throughput_unit

#: Changes up to this share are ignored. Half of the least change that the default repeats must
#: find: at the change itself every second one would fall short of it by chance.
THRESHOLD = 0.05
#: A variance needs two values.
LEAST_REPEATS = 2
ACROSS_REMEDY = "to compare them anyway: --across-devices"


def compare_sweeps(
    a: Sweep,
    b: Sweep,
    *,
    threshold: float = THRESHOLD,
    across_devices: bool = False,
    across_storage: bool = False,
) -> SweepComparison:
    """Compare sweep b with the earlier sweep a; a change within ``threshold`` (a share) is none.

    Raises:
        UsageError: the sweeps are of different devices, or of different storage.
        ResultsError: they have no point in common.
    """
    if a.device != b.device and not across_devices:
        raise UsageError(
            f"the sweeps are of different devices: {a.device} and {b.device}",
            remedy=ACROSS_REMEDY,
        )
    shared = shared_points(a, b, across_storage)
    made = [row for pair in shared.pairs for row in _compare_point(*pair)]
    times = [one.time for one in made if one.time and one.is_testable and one.time.kind in TIMES]
    return SweepComparison(
        rows=judged_rows(_tested(made), threshold),
        overall=compare_overall(times, threshold),
        only_a=shared.only_a,
        only_b=shared.only_b,
        warnings=_watched_differently(a, b),
        machine=environment_differences(a.environment, b.environment),
    )


def _watched_differently(a: Sweep, b: Sweep) -> list[str]:
    ways = how_watched(a), how_watched(b)
    if ways[0] is None or ways[1] is None or ways[0] == ways[1]:
        return []
    return warning_lines([Warned(WarningKind.WATCHED, workload="one of both")])


@dataclass(frozen=True)
class _Made:
    """A comparison not tested yet, with the repeats of both sides; none: there is no test."""

    row: PointComparison
    time: PointTime | None = None

    @property
    def is_testable(self) -> bool:
        """Whether both sides have enough repeats."""
        if self.time is None:
            return False
        return min(len(self.time.before), len(self.time.after)) >= LEAST_REPEATS


def _compare_point(a: Sequence[TrialRecord], b: Sequence[TrialRecord]) -> list[_Made]:
    rows = [_Made(_viable(a, b))]
    workload, limits = workload_label(a[0].settings), a[0].limits
    # ``total`` is the steady rounds' time, or the start's where there is no other round.
    same_as_total = STEADY if _values(a, STEADY) and _values(b, STEADY) else START
    times = [name for name in TIMES if name != same_as_total]
    for quantity in (*times, THROUGHPUT, "demand"):
        repeats_a, repeats_b = _values(a, quantity), _values(b, quantity)
        if repeats_a and repeats_b:
            middles = _middle(repeats_a), _middle(repeats_b)
            counts = len(repeats_a), len(repeats_b)
            row = PointComparison(workload, limits, quantity, *middles, *counts, "unsure")
            unit = throughput_unit(a[0].settings) if quantity == THROUGHPUT else ""
            time = PointTime(quantity, (workload, limits), _logs(repeats_a), _logs(repeats_b))
            rows.append(_Made(replace(row, ratio=row.b / row.a, unit=unit), time))
    return rows


def _middle(repeats: Sequence[tuple[int, float]]) -> float:
    return statistics.median(value for _, value in repeats)


def _logs(repeats: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    return [(block, math.log(value)) for block, value in repeats]


def _tested(made: Sequence[_Made]) -> list[PointComparison]:
    """The rows with their test; demand apart from times and throughput: it spreads differently."""
    rows = [one.row for one in made]
    testable = {i: one.time for i, one in enumerate(made) if one.time and one.is_testable}
    for kind in (True, False):
        chosen = {i: time for i, time in testable.items() if (time.kind == "demand") == kind}
        pairs = [(_plain(time.before), _plain(time.after)) for time in chosen.values()]
        found = moderated_t_tests(pairs, ALPHA / len(testable)) if pairs else ()
        for index, tested in zip(chosen, found, strict=True):
            rows[index] = replace(rows[index], **asdict(tested))
    return rows


def _plain(logs: Sequence[tuple[int, float]]) -> list[float]:
    return [log for _, log in logs]


def _values(records: Iterable[TrialRecord], quantity: str) -> list[tuple[int, float]]:
    found: list[tuple[int, float | None]]
    if quantity == "demand":
        found = [(record.block, record.demand_bytes) for record in records]
    elif quantity == THROUGHPUT:
        found = [(r.block, r.throughput_per_s) for r in records if r.outcome == "ok"]
    else:
        found = [(record.block, trial_times(record).get(quantity)) for record in records]
    return [(block, value) for block, value in found if value is not None and value > 0]


def _viable(a: Sequence[TrialRecord], b: Sequence[TrialRecord]) -> PointComparison:
    """All were viable and now none is, or the other way round; what lies between is unsure."""
    share_a, share_b = (sum(r.outcome == "ok" for r in s) / len(s) for s in (a, b))
    verdict: Verdict = "same" if share_a == share_b else "unsure"
    if (share_a, share_b) == (1, 0):
        verdict = "lost"
    elif (share_a, share_b) == (0, 1):
        verdict = "gained"
    shares, repeats = (share_a, share_b), (len(a), len(b))
    label = workload_label(a[0].settings)
    return PointComparison(label, a[0].limits, "viable", *shares, *repeats, verdict)
