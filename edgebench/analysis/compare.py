"""Two sweeps compared, point by point, with a test that can fail.

Points are paired by workload settings and limits. A time is called slower only if the ratio of
medians passes the threshold *and* a t-test on the logarithms of the repeats
(:mod:`edgebench.analysis.significance`), corrected (Holm) for how many comparisons were made,
says chance would seldom do that. Repeats are trials: rounds within a trial share one process and
are none.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from edgebench.analysis.comparison import PointComparison, SweepComparison, Verdict
from edgebench.analysis.environments import environment_differences
from edgebench.analysis.significance import moderated_t_tests
from edgebench.errors import ResultsError, UsageError
from edgebench.records import LimitSetting, TrialRecord
from edgebench.results.kill_rate import how_watched
from edgebench.results.stages import START, STEADY
from edgebench.results.sweep_reader import Sweep
from edgebench.results.trial_lines import TIMES, trial_times
from edgebench.results.workload_labels import workload_key, workload_label
from edgebench.storage_speed import AS_IS, storage_words
from edgebench.throughput import THROUGHPUT, throughput_unit

#: How seldom chance alone may call anything a change, over all of the comparisons together.
ALPHA = 0.05
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
        rows=_judged(rows, threshold),
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
    """A comparison not tested yet, with the repeats of both sides; none: there is no test."""

    row: PointComparison
    before: Sequence[float] = ()
    after: Sequence[float] = ()


def _compare_point(a: Sequence[TrialRecord], b: Sequence[TrialRecord]) -> list[_Made]:
    rows = [_Made(_viable(a, b))]
    workload, limits = workload_label(a[0].settings), a[0].limits
    # ``total`` is the steady rounds' time, or the start's where there is no other round.
    same_as_total = STEADY if _values(a, STEADY) and _values(b, STEADY) else START
    times = [name for name in TIMES if name != same_as_total]
    for quantity in (*times, THROUGHPUT, "demand"):
        values_a, values_b = _values(a, quantity), _values(b, quantity)
        if values_a and values_b:
            medians = statistics.median(values_a), statistics.median(values_b)
            repeats = len(values_a), len(values_b)
            row = PointComparison(workload, limits, quantity, *medians, *repeats, "unsure")
            unit = throughput_unit(a[0].settings) if quantity == THROUGHPUT else ""
            row = replace(row, ratio=row.b / row.a, unit=unit)
            rows.append(_Made(row, values_a, values_b))
    return rows


def _tested(made: Sequence[_Made]) -> list[PointComparison]:
    """The rows with their test; demand apart from times and throughput: it spreads differently."""
    rows = [one.row for one in made]
    repeats = [min(len(one.before), len(one.after)) for one in made]
    testable = [index for index, count in enumerate(repeats) if count >= LEAST_REPEATS]
    for kind in (True, False):
        chosen = [i for i in testable if (made[i].row.quantity == "demand") == kind]
        pairs = [(_logs(made[i].before), _logs(made[i].after)) for i in chosen]
        found = moderated_t_tests(pairs, ALPHA / len(testable)) if pairs else ()
        for index, tested in zip(chosen, found, strict=True):
            rows[index] = replace(rows[index], **asdict(tested))
    return rows


def _logs(values: Sequence[float]) -> list[float]:
    return [math.log(value) for value in values]


def _values(records: Iterable[TrialRecord], quantity: str) -> list[float]:
    if quantity == "demand":
        found: list[float | None] = [record.demand_bytes for record in records]
    elif quantity == THROUGHPUT:
        found = [record.throughput_per_s for record in records if record.outcome == "ok"]
    else:
        found = [trial_times(record).get(quantity) for record in records]
    return [value for value in found if value is not None and value > 0]


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


def holm_correction(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction: each p as if it were the only comparison made."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    corrected, floor = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        floor = max(floor, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = floor
    return corrected


def _judged(rows: Sequence[PointComparison], threshold: float) -> list[PointComparison]:
    tested = [index for index, row in enumerate(rows) if row.p is not None]
    corrected = dict(zip(tested, holm_correction([rows[i].p or 0.0 for i in tested]), strict=True))
    judged = []
    for index, row in enumerate(rows):
        if index in corrected:
            row = replace(row, p=corrected[index])
        judged.append(row if row.quantity == "viable" else _with_verdict(row, threshold))
    return judged


def _with_verdict(row: PointComparison, threshold: float) -> PointComparison:
    ratio = row.ratio or 1.0
    low, high = row.ratio_low, row.ratio_high
    if row.p is None or low is None or high is None:
        return replace(row, verdict="unsure")
    worse, better = ratio > 1 + threshold, ratio < 1 / (1 + threshold)
    words: Mapping[bool, tuple[Verdict, Verdict]]
    words = {True: ("more", "less"), False: ("slower", "faster")}
    up, down = words[row.quantity == "demand"]
    if row.quantity == THROUGHPUT:
        up, down = down, up
    if not (worse or better):
        # Threshold is half of the change that repeats must be able to tell.
        most = 1 + 2 * threshold
        return replace(row, verdict="same" if 1 / most <= low <= high <= most else "unsure")
    # An outlier can move the mean one way and the median the other.
    sure = row.p <= ALPHA and (low > 1 if worse else high < 1)
    return replace(row, verdict=(up if worse else down) if sure else "unsure")
