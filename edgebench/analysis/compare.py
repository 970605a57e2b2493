"""Two sweeps compared, point by point, with a test that can fail.

Points are paired by workload settings and limits. A time is called slower only if the ratio of
medians passes the threshold *and* a t-test on the logarithms of the repeats, corrected (Holm) for
how many comparisons were made, says chance would seldom do that. All times together are one more
question. Repeats are trials: rounds within a trial share one process and are none. The tests are in
:mod:`edgebench.analysis.comparison`.

The same scenario on several devices (:func:`device_rows`): seconds and slowdown at each limit.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeAlias

from edgebench.analysis.comparison import (
    ALPHA,
    PointComparison,
    PointTime,
    SweepComparison,
    Verdict,
    compare_overall,
    judged_rows,
    moderated_t_tests,
)
from edgebench.answers.warnings import Warned, WarningKind, warning_lines
from edgebench.boards.board import AS_IS, storage_words
from edgebench.errors import ResultsError, UsageError
from edgebench.records import TrialRecord
from edgebench.results.point_facts import point_facts
from edgebench.results.rounds import START, STEADY, TIMES, trial_times
from edgebench.results.spread import Spread
from edgebench.results.sweep_reader import Sweep, how_watched
from edgebench.results.workload_key import WorkloadKey, workload_label
from edgebench.throughput import THROUGHPUT, throughput_unit

#: What may explain that one sweep is slower than another, and what it is called.
NAMES = {
    "device": "device",
    "board": "board",
    "cpu_model": "processor",
    "cpu_cores_usable": "usable cores",
    "governor": "governor",
    "architecture": "architecture",
    "os": "system",
    "kernel": "kernel",
    "swappiness": "swappiness",
    "page_cluster": "page cluster",
    "weights_disk": "disk under weights",
    "swap_file_disk": "disk under swap files",
    "damon": "DAMON",
    "zswap": "zswap",
    "lru_gen": "multi-gen LRU",
    "memory_daemons": "memory daemons",
    "ballooning": "ballooning",
    "thp": "huge pages",
    "page_reporting_order": "free pages reported from order",
    "python": "Python",
    "edgebench": "edgebench",
}


def value_text(value: object) -> str:
    """Format any value of an environment as one line."""
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{str(k).replace('_', ' ')} {value_text(v)}" for k, v in value.items())
    if isinstance(value, list):
        return " and ".join(map(value_text, value)) or "none"
    return str(value)


def environment_differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    """Say where two environments differ, a line each, in what both looked at."""
    return [
        f"{name}: {value_text(a[key])} in a, {value_text(b[key])} in b"
        for key, name in NAMES.items()
        if key in a and key in b and a[key] != b[key]
    ]


COLLECTOR_REMEDY = (
    'one ran with gc = "default" (all sweeps did before it was a setting): run the other with '
    'gc = "default" in [workload] too'
)
STORAGE_REMEDY = "to compare them anyway: --across-storage"

#: A point's name → its trials.
_Points: TypeAlias = Mapping[Hashable, Sequence[TrialRecord]]


@dataclass(frozen=True)
class SharedPoints:
    """The trials of each shared point in both sweeps, and the points of one of them, in words."""

    pairs: list[tuple[Sequence[TrialRecord], Sequence[TrialRecord]]]
    only_a: list[str]
    only_b: list[str]


def shared_points(a: Sweep, b: Sweep, across_storage: bool) -> SharedPoints:
    """Pair the points that two sweeps share; ``across_storage``: their storage may differ.

    Raises:
        UsageError: the sweeps are of different storage.
        ResultsError: they have no point in common.
    """
    of_a, of_b = ({record.limits.storage for record in sweep.records} for sweep in (a, b))
    is_other = bool(of_a and of_b and not of_a & of_b)
    if is_other and (not across_storage or len(of_a) > 1 or len(of_b) > 1):
        names = [" and ".join(map(storage_words, sorted(of))) for of in (of_a, of_b)]
        one_each = "compare sweeps that have one storage each"
        raise UsageError(
            f"the sweeps are of different storage, so their times can't be compared: {names[0]} "
            f"in a, {names[1]} in b",
            remedy=one_each if across_storage else STORAGE_REMEDY,
        )
    points_a, points_b = _points(a, is_other), _points(b, is_other)
    common = [key for key in points_a if key in points_b]
    if not common:
        # Whether a workload of both differs in its use of the garbage collector alone.
        but_for_gc = [
            {WorkloadKey.of({**r.settings, "gc": None}, r.limits) for r in sweep.records}
            for sweep in (a, b)
        ]
        hint = "compare two sweeps of one scenario"
        raise ResultsError(
            "the sweeps have no point in common: no workload ran at the same limit in both",
            where=f"{a.path} and {b.path}",
            remedy=COLLECTOR_REMEDY if but_for_gc[0] & but_for_gc[1] else hint,
        )
    return SharedPoints(
        [(points_a[key], points_b[key]) for key in common],
        [_words(points_a[key]) for key in points_a if key not in points_b],
        [_words(points_b[key]) for key in points_b if key not in points_a],
    )


def _points(sweep: Sweep, any_storage: bool) -> _Points:
    points: dict[Hashable, list[TrialRecord]] = {}
    for record in sweep.records:
        key = WorkloadKey.of(record.settings, record.limits)
        key = key.but_for(("storage",)) if any_storage else key
        # A share's bytes follow from that sweep's own demand, so the label pairs them.
        points.setdefault((key, record.limits.label), []).append(record)
    return points


def _words(records: Sequence[TrialRecord]) -> str:
    limits = records[0].limits
    held = "" if limits.storage == AS_IS else f", {storage_words(limits.storage)}"
    return f"{workload_label(records[0].settings)} at {limits.label}{held}"


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
    comparisons = [row for pair in shared.pairs for row in _compare_point(*pair)]
    times = [
        comparison.time
        for comparison in comparisons
        if comparison.time and comparison.is_testable and comparison.time.kind in TIMES
    ]
    ways = {how_watched(a), how_watched(b)}
    watched_differently = None not in ways and len(ways) > 1
    warned = [Warned(WarningKind.WATCHED, workload="one of both")] if watched_differently else []
    return SweepComparison(
        rows=judged_rows(_tested(comparisons), threshold),
        overall=compare_overall(times, threshold),
        only_a=shared.only_a,
        only_b=shared.only_b,
        warnings=warning_lines(warned),
        machine=environment_differences(a.environment, b.environment),
    )


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
    workload, limits = workload_label(a[0].settings), a[0].limits
    # All were viable and now none is, or the other way round; what lies between is unsure.
    share_a, share_b = (sum(r.outcome == "ok" for r in side) / len(side) for side in (a, b))
    verdicts: dict[tuple[float, float], Verdict] = {(1, 0): "lost", (0, 1): "gained"}
    verdict = verdicts.get((share_a, share_b), "same" if share_a == share_b else "unsure")
    counts = len(a), len(b)
    rows = [_Made(PointComparison(workload, limits, "viable", share_a, share_b, *counts, verdict))]
    # ``total`` is the steady rounds' time, or the start's where there is no other round.
    same_as_total = STEADY if _values(a, STEADY) and _values(b, STEADY) else START
    times = [name for name in TIMES if name != same_as_total]
    for quantity in (*times, THROUGHPUT, "demand"):
        sides = _values(a, quantity), _values(b, quantity)
        if sides[0] and sides[1]:
            middle_a, middle_b = (statistics.median(value for _, value in side) for side in sides)
            counts = len(sides[0]), len(sides[1])
            row = PointComparison(
                workload, limits, quantity, middle_a, middle_b, *counts, "unsure",
                ratio=middle_b / middle_a,
                unit=throughput_unit(a[0].settings) if quantity == THROUGHPUT else "",
            )  # fmt: skip
            logs = ([(block, math.log(value)) for block, value in side] for side in sides)
            rows.append(_Made(row, PointTime(quantity, (workload, limits), *logs)))
    return rows


def _tested(comparisons: Sequence[_Made]) -> list[PointComparison]:
    """Test the rows; demand apart from times and throughput: it spreads differently."""
    rows = [comparison.row for comparison in comparisons]
    testable = {
        i: comparison.time
        for i, comparison in enumerate(comparisons)
        if comparison.time and comparison.is_testable
    }
    for kind in (True, False):
        chosen = {i: time for i, time in testable.items() if (time.kind == "demand") == kind}
        pairs = [
            ([log for _, log in time.before], [log for _, log in time.after])
            for time in chosen.values()
        ]
        tests = moderated_t_tests(pairs, ALPHA / len(testable)) if pairs else ()
        for index, test in zip(chosen, tests, strict=True):
            rows[index] = replace(rows[index], **asdict(test))
    return rows


def _values(records: Iterable[TrialRecord], quantity: str) -> list[tuple[int, float]]:
    values: list[tuple[int, float | None]]
    if quantity == "demand":
        values = [(record.block, record.demand_bytes) for record in records]
    elif quantity == THROUGHPUT:
        values = [(r.block, r.throughput_per_s) for r in records if r.outcome == "ok"]
    else:
        values = [(record.block, trial_times(record).get(quantity)) for record in records]
    return [(block, value) for block, value in values if value is not None and value > 0]


@dataclass(frozen=True)
class DevicePoint:
    """One point on one device. ``seconds`` is ``total``'s; None where no trial finished."""

    device: str
    limit_bytes: float | None
    outcomes: Mapping[str, int]
    seconds: Spread | None = None
    slowdown: float | None = None

    @property
    def finished(self) -> bool:
        """Whether all its trials did."""
        return set(self.outcomes) == {"ok"}


@dataclass(frozen=True)
class DevicesRow:
    """One limit of one workload, with a point for each device that has it, in their order."""

    workload: str
    limit_label: str
    points: tuple[DevicePoint, ...]

    def of(self, device: str) -> DevicePoint | None:
        """Return the device's point."""
        return next((point for point in self.points if point.device == device), None)


def device_rows(sweeps: Sequence[Sweep]) -> list[DevicesRow]:
    """List the limits that at least two devices have, in the order of the first one's points.

    Raises:
        UsageError: there are fewer than two devices.
        ResultsError: no limit of a workload was tried on two.
    """
    devices = list(dict.fromkeys(sweep.device for sweep in sweeps))
    if len(devices) < 2:
        raise UsageError(
            f"all these sweeps are of one device: {', '.join(devices)}",
            remedy="name the sweeps of several, or a folder that holds them: results",
        )
    rows: dict[tuple[WorkloadKey, str], DevicesRow] = {}
    for sweep in sweeps:
        for point in point_facts(sweep):
            # A share's bytes follow from the device's own demand, so the label pairs them.
            key = point.key, point.limits.label
            row = rows.get(key) or DevicesRow(point.workload, point.limits.label, ())
            seconds = point.times_s.get("total")
            figures = (point.limit_bytes, point.outcomes, seconds, point.slowdown)
            here = DevicePoint(sweep.device, *figures)
            rows[key] = replace(row, points=(*row.points, here))
    shared = [row for row in rows.values() if len(row.points) > 1]
    if not shared:
        raise ResultsError(
            "the devices have no point in common: no workload ran at the same limit on two",
            where=", ".join(str(sweep.path) for sweep in sweeps),
            remedy="run one scenario on each: edgebench fleet SCENARIO",
        )
    return shared
