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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

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
from edgebench.answers.trials import Warned, WarningKind, warning_lines
from edgebench.boards import storage_words
from edgebench.errors import ResultsError, UsageError
from edgebench.records import TrialRecord
from edgebench.results.facts import point_facts
from edgebench.results.sweep_reader import Sweep, reads_statistics
from edgebench.results.times import START, STEADY, TIMES, Spread, trial_times
from edgebench.results.workload_key import WorkloadKey, workload_label
from edgebench.text import AS_IS, THROUGHPUT, throughput_unit

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
#: Changes up to this share are ignored. Half of the least change that the default repeats must
#: find: at the change itself every second one would fall short of it by chance.
THRESHOLD = 0.05
#: A variance needs two values.
LEAST_REPEATS = 2
ACROSS_REMEDY = "to compare them anyway: --across-devices"


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


def compare_sweeps(
    a: Sweep, b: Sweep, *, threshold: float = THRESHOLD, across_devices: bool = False
) -> SweepComparison:
    """Compare sweep b with the earlier sweep a; a change within ``threshold`` (a share) is none.

    Raises:
        UsageError: the sweeps are of different devices.
        ResultsError: they have no point in common.
    """
    if a.device != b.device and not across_devices:
        raise UsageError(
            f"the sweeps are of different devices: {a.device} and {b.device}",
            remedy=ACROSS_REMEDY,
        )
    points_a, points_b = _points(a), _points(b)
    compared = [
        row
        for key, records in points_a.items()
        if key in points_b
        for row in _compare_point(records, points_b[key])
    ]
    if not compared:
        raise ResultsError(
            "the sweeps have no point in common: no workload ran with the same settings, limit "
            "and storage in both",
            where=f"{a.path} and {b.path}",
            remedy="compare two sweeps of one scenario",
        )
    rows = [row for row, _ in compared]
    testable = {
        place: time
        for place, (_, time) in enumerate(compared)
        if time and min(len(time.before), len(time.after)) >= LEAST_REPEATS
    }
    # Demand apart from times and throughput: it spreads differently.
    for is_demand in (True, False):
        chosen = {n: time for n, time in testable.items() if (time.kind == "demand") == is_demand}
        pairs = [
            ([log for _, log in time.before], [log for _, log in time.after])
            for time in chosen.values()
        ]
        tests = moderated_t_tests(pairs, ALPHA / len(testable)) if pairs else ()
        for place, test in zip(chosen, tests, strict=True):
            rows[place] = replace(rows[place], **asdict(test))
    times = [time for time in testable.values() if time.kind in TIMES]
    differs = reads_statistics(a) != reads_statistics(b)
    before, after = a.environment, b.environment
    return SweepComparison(
        rows=judged_rows(rows, threshold),
        overall=compare_overall(times, threshold),
        only_a=[_point_words(points_a[key]) for key in points_a if key not in points_b],
        only_b=[_point_words(points_b[key]) for key in points_b if key not in points_a],
        warnings=warning_lines(
            [Warned(WarningKind.WATCHED, workload="one of both")] if differs else []
        ),
        # Only what both looked at.
        machine=[
            f"{name}: {value_text(before[key])} in a, {value_text(after[key])} in b"
            for key, name in NAMES.items()
            if key in before and key in after and before[key] != after[key]
        ],
    )


def _points(sweep: Sweep) -> dict[tuple[WorkloadKey, str], list[TrialRecord]]:
    points: dict[tuple[WorkloadKey, str], list[TrialRecord]] = {}
    for record in sweep.records:
        # A share's bytes follow from that sweep's own demand, so the label pairs them.
        key = WorkloadKey.of(record.settings, record.limits), record.limits.label
        points.setdefault(key, []).append(record)
    return points


def _point_words(records: Sequence[TrialRecord]) -> str:
    limits = records[0].limits
    held = "" if limits.storage == AS_IS else f", {storage_words(limits.storage)}"
    return f"{workload_label(records[0].settings)} at {limits.label}{held}"


def _compare_point(
    a: Sequence[TrialRecord], b: Sequence[TrialRecord]
) -> Iterator[tuple[PointComparison, PointTime | None]]:
    """Yield each quantity's row, not tested yet, with the repeats that a test needs."""
    workload, limits = workload_label(a[0].settings), a[0].limits
    # All were viable and now none is, or the other way round; what lies between is unsure.
    share_a, share_b = (sum(r.outcome == "ok" for r in side) / len(side) for side in (a, b))
    verdicts: dict[tuple[float, float], Verdict] = {(1, 0): "lost", (0, 1): "gained"}
    verdict = verdicts.get((share_a, share_b), "same" if share_a == share_b else "unsure")
    counts = len(a), len(b)
    yield PointComparison(workload, limits, "viable", share_a, share_b, *counts, verdict), None
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
            yield row, PointTime(quantity, (workload, limits), *logs)


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
