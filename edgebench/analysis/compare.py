"""Two sweeps compared, point by point, with a test that can fail.

Points are paired by workload settings and limits. A time is called slower only if the ratio of
medians passes the threshold *and* a t-test on the logarithms of the repeats
(:mod:`edgebench.analysis.significance`), corrected (Holm) for how many comparisons were made,
says chance would seldom do that. All times together are one more question
(:mod:`edgebench.analysis.overall`). Repeats are trials: rounds within a trial share one process and
are none.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace

from edgebench.analysis.comparison import (
    OverallComparison,
    PointComparison,
    SweepComparison,
    Verdict,
)
from edgebench.analysis.environments import environment_differences
from edgebench.analysis.overall import PointTime, compare_overall
from edgebench.analysis.significance import moderated_t_tests
from edgebench.analysis.verdicts import ALPHA, judged_rows
from edgebench.errors import ResultsError, UsageError
from edgebench.records import LimitSetting, TrialRecord
from edgebench.results.kill_rate import how_watched
from edgebench.results.stages import START, STEADY
from edgebench.results.sweep_reader import Sweep
from edgebench.results.trial_lines import TIMES, trial_times
from edgebench.results.workload_labels import workload_key, workload_label
from edgebench.storage_speed import AS_IS, storage_words
from edgebench.throughput import THROUGHPUT, throughput_unit

#: Changes up to this share are ignored. Half of the least change that the default repeats must
#: find: at the change itself every second one would fall short of it by chance.
THRESHOLD = 0.05
#: A variance needs two values.
LEAST_REPEATS = 2
COLLECTOR_REMEDY = (
    'one ran with gc = "default" (all sweeps did before it was a setting): run the other with '
    'gc = "default" in [workload] too'
)
ACROSS_REMEDY = "to compare them anyway: --across-devices"
STORAGE_REMEDY = "to compare them anyway: --across-storage"


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
        MachineError: scipy isn't installed.
    """
    if a.device != b.device and not across_devices:
        raise UsageError(
            f"the sweeps are of different devices: {a.device} and {b.device}",
            remedy=ACROSS_REMEDY,
        )
    other_storage = _other_storage(a, b, across_storage)
    points_a, points_b = _points(a, other_storage), _points(b, other_storage)
    common = [key for key in points_a if key in points_b]
    if not common:
        raise ResultsError(
            "the sweeps have no point in common: no workload ran at the same limit in both",
            where=f"{a.path} and {b.path}",
            remedy=COLLECTOR_REMEDY if _but_for_gc(a, b) else "compare two sweeps of one scenario",
        )
    made = [row for key in common for row in _compare_point(points_a[key], points_b[key])]
    rows = _tested(made)
    return SweepComparison(
        rows=judged_rows(rows, threshold),
        overall=_overall(made, threshold),
        only_a=[_words(points_a[key]) for key in points_a if key not in points_b],
        only_b=[_words(points_b[key]) for key in points_b if key not in points_a],
        warnings=_watched_differently(a, b),
        machine=environment_differences(a.environment, b.environment),
    )


def _watched_differently(a: Sweep, b: Sweep) -> list[str]:
    ways = how_watched(a), how_watched(b)
    if None in ways or ways[0] == ways[1]:
        return []
    return [
        f"trials under a limit were watched differently (a: {ways[0]}, b: {ways[1]}): reading "
        "memory.stat while a trial runs can prevent kills, so viable limits may differ by it"
    ]


def _other_storage(a: Sweep, b: Sweep, wanted: bool) -> bool:
    """Whether points of different storage are paired: they share none, and that is wanted."""
    of_a, of_b = ({record.limits.storage for record in sweep.records} for sweep in (a, b))
    if not of_a or not of_b or of_a & of_b:
        return False
    if not wanted or len(of_a) > 1 or len(of_b) > 1:
        names = [" and ".join(map(storage_words, sorted(of))) for of in (of_a, of_b)]
        remedy = STORAGE_REMEDY if not wanted else "compare sweeps that have one storage each"
        raise UsageError(
            f"the sweeps are of different storage, so their times can't be compared: {names[0]} "
            f"in a, {names[1]} in b",
            remedy=remedy,
        )
    return True


def _points(sweep: Sweep, any_storage: bool) -> dict[tuple[str, LimitSetting], list[TrialRecord]]:
    points: dict[tuple[str, LimitSetting], list[TrialRecord]] = {}
    for record in sweep.records:
        # A share's bytes follow from that sweep's own demand, so the label pairs them.
        limits = replace(record.limits, memory_bytes=None)
        limits = replace(limits, storage=AS_IS) if any_storage else limits
        points.setdefault((workload_key(record.settings), limits), []).append(record)
    return points


def _but_for_gc(a: Sweep, b: Sweep) -> bool:
    """Whether a workload of both differs in its use of the garbage collector alone."""
    keys = [
        {workload_key({**record.settings, "gc": None}) for record in sweep.records}
        for sweep in (a, b)
    ]
    return bool(keys[0] & keys[1])


def _words(records: Sequence[TrialRecord]) -> str:
    limits = records[0].limits
    held = "" if limits.storage == AS_IS else f", {storage_words(limits.storage)}"
    return f"{workload_label(records[0].settings)} at {limits.label}{held}"


@dataclass(frozen=True)
class _Made:
    """A comparison not tested yet, with the repeats of both sides; none: there is no test.

    A repeat is its trial's block and its value.
    """

    row: PointComparison
    before: Sequence[tuple[int, float]] = ()
    after: Sequence[tuple[int, float]] = ()

    @property
    def is_testable(self) -> bool:
        """Whether both sides have enough repeats."""
        return min(len(self.before), len(self.after)) >= LEAST_REPEATS


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
            row = replace(row, ratio=row.b / row.a, unit=unit)
            rows.append(_Made(row, repeats_a, repeats_b))
    return rows


def _middle(repeats: Sequence[tuple[int, float]]) -> float:
    return statistics.median(value for _, value in repeats)


def _tested(made: Sequence[_Made]) -> list[PointComparison]:
    """The rows with their test; demand apart from times and throughput: it spreads differently."""
    rows = [one.row for one in made]
    testable = [index for index, one in enumerate(made) if one.is_testable]
    for kind in (True, False):
        chosen = [i for i in testable if (made[i].row.quantity == "demand") == kind]
        pairs = [(_logs(made[i].before), _logs(made[i].after)) for i in chosen]
        found = moderated_t_tests(pairs, ALPHA / len(testable)) if pairs else ()
        for index, tested in zip(chosen, found, strict=True):
            rows[index] = replace(rows[index], **asdict(tested))
    return rows


def _logs(repeats: Sequence[tuple[int, float]]) -> list[float]:
    return [math.log(value) for _, value in repeats]


def _overall(made: Sequence[_Made], threshold: float) -> OverallComparison | None:
    times = [
        PointTime(
            one.row.quantity,
            (one.row.workload, one.row.limits),
            [(block, math.log(value)) for block, value in one.before],
            [(block, math.log(value)) for block, value in one.after],
        )
        for one in made
        if one.row.quantity in TIMES and one.is_testable
    ]
    return compare_overall(times, threshold)


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
    workload = workload_label(a[0].settings)
    return PointComparison(workload, a[0].limits, "viable", *shares, *repeats, verdict)
