"""The running trial: its samples and events as they are written."""

from __future__ import annotations

import time
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from edgebench.results.live.events import EndedSpan, EventTail, Metric, OpenSpan
from edgebench.results.live_file import EVENTS, FAST, STAT, LiveTrial, read_from

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
#: Read in pieces: large ones would stay with the process when they have been read. At most so many
#: at a time: what lies there already must not stall who watches.
_PIECE_BYTES, _MOST_PIECES = 1 << 16, 16


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
        for _ in range(_MOST_PIECES):
            rows = self.fresh()
            if not rows:
                return
            yield rows

    def fresh(self) -> array[int]:
        """Return the next whole rows, one after the other; none where no more came."""
        step = 8 * len(self.columns)
        data = read_from(self._path, self._at, _PIECE_BYTES // step * step)
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
                self._halve()
                first = 0
            self.points.append(Bucket(t_s, usage, usage, swap, cpu))
        return first

    def _halve(self) -> None:
        merged = self.points[::2]
        for into, other in zip(merged, self.points[1::2], strict=False):
            _widen(into, other.low_bytes, other.high_bytes, other.swap_bytes)
        self.points = merged
        self.width_s *= 2


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
