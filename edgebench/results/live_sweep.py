"""A sweep's folder followed while it grows: its records, progress and running trial."""

from __future__ import annotations

import time
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from edgebench.errors import ResultsError
from edgebench.records import FINAL_OUTCOMES, TrialRecord
from edgebench.results.layout import (
    COMPLETE,
    MOST_DAMAGED_LINES,
    NO_JSON,
    RESOLVED,
    TRIALS,
    is_being_written,
    parse_record,
    read_json,
    whole_lines,
)
from edgebench.results.live_file import (
    EVENTS,
    FAST,
    MOST_PIECES,
    PIECE_BYTES,
    STAT,
    EndedSpan,
    EventTail,
    LiveTrial,
    Metric,
    OpenSpan,
    read_from,
    read_live_trial,
)
from edgebench.results.sweep_reader import sweep_folders
from edgebench.safe_files import open_to_read

#: CPU use is that of so long.
_CPU_WINDOW_S = 1.0
#: What is shown over time beside usage: where the memory is, and what it costs to be short of it.
KINDS = (
    "anon_bytes",
    "file_bytes",
    "shmem_bytes",
    "slab_bytes",
    "kernel_bytes",
    "page_tables_bytes",
    "swap_bytes",
    "major_faults",
    "refault_anon",
    "refault_file",
    "pressure_full_us",
)


class RawTable:
    """A file of int64 rows that somebody appends to; -1 in a row is "not available".

    Args:
        path: the file; it may not be there yet, or not any more.
        columns: the names of a row's values, in order.
    """

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self.columns = tuple(columns)
        self._path = path
        self._at = 0

    def is_there(self) -> bool:
        """Whether the file is there, and for us to see."""
        try:
            self._path.lstat()
        except OSError:
            return False
        return True

    def pieces(self) -> Iterator[array[int]]:
        """Yield the whole rows that came since the last call, some at a time."""
        for _ in range(MOST_PIECES):
            rows = self.fresh()
            if not rows:
                return
            yield rows

    def fresh(self) -> array[int]:
        """Return the next whole rows, one after the other; none where no more came."""
        step = 8 * len(self.columns)
        data = read_from(self._path, self._at, PIECE_BYTES // step * step)
        whole = len(data) // step * step
        self._at += whole
        rows = array("q")
        rows.frombytes(data[:whole])
        return rows

    def newest(self, rows: array[int]) -> dict[str, int]:
        """Column → value of the last of these rows; without what the kernel doesn't tell."""
        last = rows[-len(self.columns) :]
        return {n: v for n, v in zip(self.columns, last, strict=False) if v >= 0 and n != "t_ns"}


@dataclass(frozen=True)
class TrialUpdate:
    """What a poll brought: from which point the curve changed, from which row the kinds did."""

    changed: int
    kinds_changed: int = 0
    ended: list[EndedSpan] = field(default_factory=list)
    metrics: list[Metric] = field(default_factory=list)


class TrialTail:
    """A running trial, read from its growing files; see also :class:`EventTail`.

    ``kinds`` has usage by kind over time, a column of :data:`KINDS` each.
    ``now`` has the newest value of each of the sampler's columns that the kernel tells;
    ``peak_bytes`` is the largest usage sampled so far; ``news`` is what the last poll brought.
    """

    def __init__(self, live: LiveTrial) -> None:
        self.live = live
        self.now: dict[str, int] = {}
        self.peak_bytes: int | None = None
        self.curve = ThinnedSeries()
        self.kinds = Series()
        self.news = TrialUpdate(0)
        self._fast = RawTable(live.file(FAST), live.fast_columns)
        self._stat = RawTable(live.file(STAT), live.stat_columns)
        self._events = EventTail(live.file(EVENTS), live.started_ns)

    @property
    def elapsed_s(self) -> float:
        """Seconds since the trial started."""
        return (time.monotonic_ns() - self.live.started_ns) / 1e9

    @property
    def quiet(self) -> bool:
        """Whether its kinds of memory are not read, since that could prevent a kill."""
        limited = self.live.limits.memory_bytes is not None
        return limited and self.live.strategy is None and "anon_bytes" not in self._stat.columns

    @property
    def open(self) -> list[OpenSpan]:
        """Phases and layers under way, the innermost last."""
        return self._events.open

    @property
    def spans(self) -> list[EndedSpan]:
        """The spans that ended lately, the latest last."""
        return list(self._events.ended)

    @property
    def metrics(self) -> list[Metric]:
        """Loss, accuracy and the like, thinned out where there are many."""
        return self._events.metrics

    @property
    def cpu_cores(self) -> float | None:
        """How many cores it kept busy over the last second; None while it isn't known."""
        last = self.curve.points[-1] if self.curve.points else None
        if last is None or last.cpu_ns is None:
            return None
        before = _since(self.curve.points, last.t_s - _CPU_WINDOW_S)
        if before is None or before.cpu_ns is None or last.t_s <= before.t_s:
            return None
        return (last.cpu_ns - before.cpu_ns) / 1e9 / (last.t_s - before.t_s)

    def is_there(self) -> bool:
        """Whether its samples still lie where they grow: they are packed away when it has ended."""
        return self._fast.is_there()

    def poll(self) -> None:
        """Take in what came since the last poll."""
        changed, kinds_changed = len(self.curve.points), len(self.kinds.rows)
        for fast in self._fast.pieces():
            self.now.update(self._fast.newest(fast))
            highest = max(fast[1 :: len(self._fast.columns)])
            self.peak_bytes = max(self.peak_bytes or 0, highest)
            changed = min(changed, self.curve.add(self._rows(fast)))
        for stat in self._stat.pieces():
            self.now.update(self._stat.newest(stat))
            kinds_changed = min(kinds_changed, self.kinds.add(self._kind_rows(stat)))
        self.news = TrialUpdate(changed, kinds_changed, *self._events.poll())

    def _rows(self, fast: array[int]) -> Iterator[tuple[float, int, int | None, int | None]]:
        """Seconds, usage, swap and CPU of each row; -1 is None."""
        step, start = len(self._fast.columns), self.live.started_ns
        for at in range(0, len(fast), step):
            t_ns, usage, swap, cpu = fast[at : at + 4]
            if usage >= 0:
                known = (swap if swap >= 0 else None, cpu if cpu >= 0 else None)
                yield (t_ns - start) / 1e9, usage, *known

    def _kind_rows(self, stat: array[int]) -> Iterator[tuple[float, list[int | None]]]:
        """Seconds and the values of KINDS of each row."""
        columns, start = self._stat.columns, self.live.started_ns
        places = [columns.index(kind) if kind in columns else None for kind in KINDS]
        for at in range(0, len(stat), len(columns)):
            values = [None if place is None else stat[at + place] for place in places]
            known = [None if value is None or value < 0 else value for value in values]
            yield (stat[at] - start) / 1e9, known


def _since(points: list[Bucket], t_s: float) -> Bucket | None:
    """Return the latest point that is no later than this; else the first one."""
    for point in reversed(points[:-1]):
        if point.t_s <= t_s:
            return point
    return points[0] if len(points) > 1 else None


#: What a screen can show; half of them are merged when there are more.
MOST_BUCKETS = 512


@dataclass
class Bucket:
    """One stretch of a trial: when it began (seconds since the trial's start), and its extremes.

    ``swap_bytes`` is the largest; None where the kernel doesn't tell. ``cpu_ns`` is
    that of its beginning.
    """

    t_s: float
    low_bytes: int
    high_bytes: int
    swap_bytes: int | None
    cpu_ns: int | None


class ThinnedSeries:
    """Usage over time in at most :data:`MOST_BUCKETS` buckets, each ``width_s`` wide."""

    def __init__(self, width_s: float = 0.05) -> None:
        self.width_s = width_s
        self.points: list[Bucket] = []

    def add(self, rows: Iterable[tuple[float, int, int | None, int | None]]) -> int:
        """Take in (seconds, usage, swap, CPU) rows in order; from which point on it changed."""
        first = max(0, len(self.points) - 1)
        for t_s, usage, swap, cpu in rows:
            last = self.points[-1] if self.points else None
            if last and t_s < last.t_s + self.width_s:
                _widen(last, usage, usage, swap)
                continue
            if len(self.points) >= MOST_BUCKETS:
                merged = self.points[::2]
                for into, other in zip(merged, self.points[1::2], strict=False):
                    _widen(into, other.low_bytes, other.high_bytes, other.swap_bytes)
                self.points, self.width_s, first = merged, self.width_s * 2, 0
            self.points.append(Bucket(t_s, usage, usage, swap, cpu))
        return first


def _widen(bucket: Bucket, low: int, high: int, swap: int | None) -> None:
    bucket.low_bytes = min(bucket.low_bytes, low)
    bucket.high_bytes = max(bucket.high_bytes, high)
    if swap is not None:
        bucket.swap_bytes = max(bucket.swap_bytes or 0, swap)


class Series:
    """Rows of numbers over time, one kept for each stretch, in at most :data:`MOST_BUCKETS`.

    ``rows`` are (seconds, one value a column); None where the kernel doesn't tell.
    """

    def __init__(self, width_s: float = 0.05) -> None:
        self.width_s = width_s
        self.rows: list[tuple[float | None, ...]] = []
        self._next_s = 0.0

    def add(self, rows: Iterable[tuple[float, Sequence[int | None]]]) -> int:
        """Take in (seconds, values) rows in order; from which row on it changed."""
        first = len(self.rows)
        for t_s, values in rows:
            if t_s < self._next_s:
                continue
            if len(self.rows) >= MOST_BUCKETS:
                self.rows, self.width_s, first = self.rows[::2], self.width_s * 2, 0
            self.rows.append((t_s, *values))
            self._next_s = t_s + self.width_s
        return first


_MOST_DAMAGED = 20


@dataclass(frozen=True)
class SweepState:
    """How a sweep stands. ``total`` is of all planned trials, None if the plan can't be read.

    As in :attr:`~edgebench.results.sweep_reader.Sweep.planned`, each further limit that a walk
    visited counts as one.

    ``done`` are those recorded with a final outcome; ``left_s`` is how long the others take if
    they take as long as those; ``fresh`` are the records that the last state had not.
    """

    path: Path
    running: bool
    complete: bool
    total: int | None
    done: int
    outcomes: dict[str, int]
    left_s: float | None
    fresh: list[TrialRecord]
    trial: TrialTail | None
    warnings: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The folder's name, which no other sweep has."""
        return self.path.name

    @property
    def device(self) -> str:
        """Whose results it is among."""
        return self.path.resolve().parent.name


class SweepTail:
    """One sweep's folder, running, complete or cut short. Files are read when they changed."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self._at = 0
        self._outcomes: dict[str, str] = {}
        self._visits: set[str] = set()
        self._took_s: list[float] = [0.0, 0.0]
        self._damaged: list[str] = []
        self._damage_count = 0
        self._plan_stamp: tuple[int, int] | None = None
        self._planned: int | None = None
        self._plan_warnings: list[str] = []
        self._trial: TrialTail | None = None

    def poll(self) -> SweepState:
        """How it stands now; what is half written or damaged is a warning."""
        running = is_being_written(self.path)
        fresh = self._fresh()
        self._follow(running)
        done = sum(outcome in FINAL_OUTCOMES for outcome in self._outcomes.values())
        self._read_plan()
        total = None if self._planned is None else self._planned + len(self._visits)
        under_way_s = self._trial.elapsed_s if self._trial else 0.0
        took_s, made = self._took_s
        left = None if total is None else total - done
        left_s = None if left is None else time_left_s(took_s, made, left, under_way_s)
        return SweepState(
            path=self.path,
            running=running,
            complete=(self.path / COMPLETE).exists(),
            total=total,
            done=done,
            outcomes=dict(Counter(self._outcomes.values())),
            left_s=left_s,
            fresh=fresh,
            trial=self._trial,
            warnings=[*self._damaged, *self._plan_warnings],
        )

    def _read_plan(self) -> None:
        """Count the planned trials again if the sweep planned more."""
        file = self.path / RESOLVED
        try:
            status = file.stat()
            stamp = (status.st_ino, status.st_mtime_ns)
        except OSError:
            stamp = (0, 0)
        if stamp == self._plan_stamp:
            return
        self._plan_stamp, self._planned, self._plan_warnings = stamp, None, []
        try:
            plan = read_json(file).get("plan")
            self._planned = len(plan) if isinstance(plan, list) else None
        except ResultsError as error:
            self._plan_warnings = [error.what]

    def _fresh(self) -> list[TrialRecord]:
        """Return the records that came since, each taken into account."""
        try:
            with open_to_read(self.path / TRIALS) as file:
                if file.seek(0, 2) < self._at:
                    # A resume cut what was torn: from the start again.
                    self._at, self._outcomes, self._took_s = 0, {}, [0.0, 0.0]
                    self._damage_count = 0
                    self._visits.clear()
                file.seek(self._at)
                # The last line may still be under the pen.
                return [one for lines in whole_lines(file) for one in self._records(lines)]
        except OSError:
            return []

    def _records(self, lines: bytes) -> Iterator[TrialRecord]:
        """Yield the records in whole lines, each taken into account."""
        self._at += len(lines)
        for line in lines.split(b"\n")[:-1]:
            if self._damage_count >= MOST_DAMAGED_LINES:
                return
            try:
                record = parse_record(line, self.path / TRIALS) if line else NO_JSON
            except ResultsError as error:
                record = error.what
            if not isinstance(record, str):
                if self._outcomes.get(record.trial) not in FINAL_OUTCOMES:
                    self._outcomes[record.trial] = record.outcome
                if record.walk and record.walk.step:
                    self._visits.add(record.trial)
                if record.wall_s is not None:
                    self._took_s[0] += record.wall_s + (record.harness_s or 0.0)
                    self._took_s[1] += 1
                yield record
                continue
            self._damage_count += 1
            damage = f"{TRIALS}: a damaged line is left out: {record}"
            if damage not in self._damaged and len(self._damaged) < _MOST_DAMAGED:
                self._damaged.append(damage)

    def _follow(self, running: bool) -> None:
        """Follow the trial that ``live.json`` names; a killed harness leaves no folder."""
        live = read_live_trial(self.path) if running else None
        if live is None:
            self._trial = None
            return
        if self._trial is None or self._trial.live.started_ns != live.started_ns:
            self._trial = TrialTail(live)
        self._trial.poll()
        # Its samples are packed away when it has ended.
        if not self._trial.is_there():
            self._trial = None


def time_left_s(took_s: float, made: float, left: int, under_way_s: float) -> float | None:
    """Trials left times what one took on the mean; None before the first has ended.

    Args:
        took_s: what the trials ``made`` took in all, the harness's work included.
        made: how many these are.
        left: how many are not recorded yet, the one under way among them.
        under_way_s: for how long that one has run.
    """
    return max(0.0, took_s / made * left - under_way_s) if made else None


def sweeps_below(root: Path) -> list[Path]:
    """Every sweep's folder at or below a path, oldest first; none where there are no results."""
    try:
        return sweep_folders(root)
    except ResultsError:
        return []


def newest_running(root: Path) -> Path | None:
    """Return the newest sweep that runs now."""
    open_ones = (path for path in reversed(sweeps_below(root)) if not (path / COMPLETE).exists())
    return next((path for path in open_ones if is_being_written(path)), None)
