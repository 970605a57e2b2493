"""Energy from readings of a sensor, by integration, with the error of the integration.

- A counter of energy never goes back. Between two readings its number lies between theirs, so the
  error is a bound: as far as the true difference can lie from that of the straight lines.
- Power is known at the readings alone. Its integral is by trapezoids; the error is the half width
  of a 95 % interval, the readings within the time taken as a sample of it (Student's t). Power that
  changes slowly makes it too wide; a change that is in step with the readings is not seen.

What the sensor itself is off by is in neither.
"""

from __future__ import annotations

import math
import statistics
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from edgebench.measures.machine.noise import student_95
from edgebench.measures.machine.sensors.sensor import ENERGY, Quantity

#: Windows with a shorter time between them are one.
_JOINED_NS = 1_000_000
#: Fewer readings within a time say nothing of power in it.
LEAST_READINGS = 2

Window = tuple[int, int]


@dataclass(frozen=True)
class Energy:
    """Joules, and how far the true number may be from them."""

    energy_j: float
    error_j: float

    def __add__(self, other: Energy) -> Energy:
        return Energy(self.energy_j + other.energy_j, self.error_j + other.error_j)

    def share(self, factor: float) -> Energy:
        """That part of it."""
        return Energy(self.energy_j * factor, self.error_j * factor)


@dataclass(frozen=True)
class SensorSeries:
    """What one sensor told: times (monotonic ns) and its stored numbers, in order."""

    quantity: Quantity
    times_ns: Sequence[int]
    values: Sequence[int]

    def energy(self, windows: Sequence[Window]) -> Energy | None:
        """The energy of these windows together; None where the readings don't tell it.

        The windows are in order and apart.
        """
        joined = _joined(windows)
        if not joined or len(self.times_ns) < LEAST_READINGS:
            return None
        if self.times_ns[0] > joined[0][0] or self.times_ns[-1] < joined[-1][1]:
            return None
        if self.quantity is ENERGY:
            counted = [self._counted(*window) for window in joined]
            return sum(counted[1:], counted[0])
        return self._integral(joined)

    def _counted(self, start_ns: int, end_ns: int) -> Energy:
        low_start, at_start, high_start = self._bounds(start_ns)
        low_end, at_end, high_end = self._bounds(end_ns)
        told = at_end - at_start
        least, most = max(0, low_end - high_start), high_end - low_start
        scale = self.quantity.scale
        return Energy(told * scale, max(most - told, told - least) * scale)

    def _bounds(self, t_ns: int) -> tuple[int, float, int]:
        """The counter before that time, about at it, and after it."""
        after = min(bisect_left(self.times_ns, t_ns), len(self.times_ns) - 1)
        before = max(0, bisect_right(self.times_ns, t_ns) - 1)
        return self.values[before], self._at(t_ns), self.values[after]

    def _at(self, t_ns: int) -> float:
        """On the straight line between the readings around that time."""
        after = min(bisect_left(self.times_ns, t_ns), len(self.times_ns) - 1)
        before = max(0, bisect_right(self.times_ns, t_ns) - 1)
        low, high = self.values[before], self.values[after]
        if after <= before:
            return low
        start, end = self.times_ns[before], self.times_ns[after]
        return low + (high - low) * (t_ns - start) / (end - start)

    def _integral(self, windows: Sequence[Window]) -> Energy | None:
        inside: list[int] = []
        area = 0.0
        for start, end in windows:
            first, last = bisect_left(self.times_ns, start), bisect_right(self.times_ns, end)
            inside += self.values[first:last]
            times = [start, *self.times_ns[first:last], end]
            power = [self._at(start), *self.values[first:last], self._at(end)]
            for place in range(1, len(times)):
                area += (power[place] + power[place - 1]) / 2 * (times[place] - times[place - 1])
        if len(inside) < LEAST_READINGS:
            return None
        seconds = sum(end - start for start, end in windows) / 1e9
        spread = statistics.stdev(inside) / math.sqrt(len(inside))
        error = student_95(len(inside)) * spread * seconds
        return Energy(area / 1e9 * self.quantity.scale, error * self.quantity.scale)


def energy_of(series: Sequence[SensorSeries], windows: Sequence[Window]) -> Energy | None:
    """The energy of all these sensors together in these windows; None where one doesn't tell."""
    total: Energy | None = None
    for one in series:
        energy = one.energy(windows)
        if energy is None:
            return None
        total = energy if total is None else total + energy
    return total


def _joined(windows: Sequence[Window]) -> list[Window]:
    """Windows that all but touch as one."""
    joined: list[Window] = []
    for start, end in windows:
        if joined and start - joined[-1][1] <= _JOINED_NS:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return joined
