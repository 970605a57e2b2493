"""A time series of bounded length: the lowest and highest value of each interval."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

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
