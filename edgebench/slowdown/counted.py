"""Seconds of a steady round on any storage, from the bytes that were counted on one.

Which bytes a round reads again belongs to the workload, not to the storage (the
:mod:`miss curve <edgebench.results.miss_curve>`). So with nothing fitted

    T = T0 + max(bytes · s − C, bytes · s / 2 + faults · f)

where T0 is the unlimited round, s the seconds that a byte takes, C how long of the round is
computed while the disk may already read, and f what a fault takes. A fault waits for its own bytes;
what was read ahead with them is there when it is needed. So computing hides half of the reading at
most. In zram no disk works meanwhile: T = T0 + bytes · s. Several threads wait for one another,
too: what is added is larger by a factor, which slowed rounds show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from edgebench.results.miss_curve import MissCurve, MissPoint, curve_workload, miss_curves
from edgebench.results.workload_key import workloads_of
from edgebench.slowdown.models.intervals import (
    SLOWED,
    conformity_scores,
    reach_of,
    with_interval,
)
from edgebench.slowdown.simulator.simulation import device_of
from edgebench.slowdown.slowdown_function import SlowdownFunction, never_rising

if TYPE_CHECKING:
    from edgebench.results.results import Results
    from edgebench.slowdown.calibration.device import Calibration
    from edgebench.slowdown.curves import Curve, FloatArray
    from edgebench.slowdown.models.base import CurvePrediction

COUNTED = "counted"
#: Schedules in which nothing overlaps.
_IN_ORDER = ("bulk", "linear", "whole")
_STEPS = 8
#: Of what is read again, the share that computing can hide. Chosen on the kept walks with one
#: thread at 100 MB/s; what it does on other sweeps: docs/explanation/slowdown-model.md.
_HIDDEN = 0.5


@dataclass(frozen=True)
class StorageCosts:
    """What storage takes.

    Attributes:
        swap_s, mapped_s: seconds of a byte that comes back from swap, or from a mapped file.
        file_s: of a byte of a file that is read in order.
        fault_s: of a fault, beside the bytes that it brings back.
        waits: whether the workload may compute while the storage reads; not in zram.
        held: whether the kernel holds it to a speed. Then it lets through at once what it saved up
            while nothing was read.
    """

    swap_s: float
    mapped_s: float
    file_s: float
    fault_s: float = 0.0
    waits: bool = True
    held: bool = False

    def again_s(self, loader: object) -> float:
        """Of a byte that is read again: mapped weights come from their file, all else from swap."""
        return self.mapped_s if loader == "mmap" else self.swap_s


def storage_costs(calibration: Calibration) -> StorageCosts:
    """Those of a device, as it is or held to a speed."""
    device, in_ram = device_of(calibration), calibration.swap_kind == "zram"
    costs = device.costs
    swap_s = max(device.held_in_s, costs.in_s + costs.fault_s / device.fault_bytes)
    return StorageCosts(
        # What comes back from zram takes the place of what is written there.
        swap_s=swap_s + costs.out_s + costs.reclaim_s if in_ram else swap_s,
        mapped_s=device.mapped_s,
        file_s=max(device.held_file_s, 1 / calibration.file_read_bytes_per_s.value),
        fault_s=costs.fault_s,
        waits=not in_ram,
        held=device.held_file_s > 0,
    )


@dataclass(frozen=True)
class CountedRound:
    """A workload's steady round with the bytes that were counted.

    Attributes:
        curve: the round's, where it was measured.
        misses: its miss curve.
        computing_s: how long of the round is computed while storage may already read.
        least_s: what of a round without a limit no storage makes shorter.
    """

    curve: Curve
    misses: MissCurve
    computing_s: float
    least_s: float

    def again_bytes(self, limit_bytes: FloatArray) -> FloatArray:
        """Bytes read again at limits: between two counted ones in proportion to ln M."""
        return self._between(limit_bytes, lambda point: point.round_bytes)

    def again_faults(self, limit_bytes: FloatArray) -> FloatArray:
        """Faults at limits, in the same way; none where they were not counted."""
        return self._between(limit_bytes, lambda point: point.faults or 0)

    def _between(self, limit_bytes: FloatArray, of: Callable[[MissPoint], int]) -> FloatArray:
        points = sorted(self.misses.known, key=lambda one: one.limit_bytes)
        limits = [float(one.limit_bytes) for one in points]
        values = [float(of(one)) for one in points]
        demand = self.curve.demand_bytes
        if demand is not None and demand > limits[-1]:
            limits, values = [*limits, demand], [*values, 0.0]
        return np.asarray(np.interp(np.log(limit_bytes), np.log(limits), values))

    def unlimited_s(self, here: StorageCosts, there: StorageCosts) -> float:
        """The round without a limit: what it reads then takes another time there.

        What computing, and what a held disk saved up, hides of the reading is hidden there too if
        both disks are held, or neither is.
        """
        known_s = self.curve.unlimited_s
        least_s = min(self.least_s, known_s)
        here_s, there_s = (self.misses.unlimited_bytes * one.file_s for one in (here, there))
        hidden_s = here_s - (known_s - least_s) if here.held == there.held else 0.0
        return least_s + max(there_s - hidden_s, 0.0)

    def added_s(self, limit_bytes: FloatArray, costs: StorageCosts) -> FloatArray:
        """Seconds that limits add; of one thread."""
        read_s = self.again_bytes(limit_bytes) * costs.again_s(self.curve.settings.get("loader"))
        if not costs.waits:
            return read_s
        waits_s = (1 - _HIDDEN) * read_s + self.again_faults(limit_bytes) * costs.fault_s
        return np.asarray(np.maximum(read_s - self.computing_s, waits_s))

    def factor(self, costs: StorageCosts) -> float | None:
        """How many times more is added than one thread would wait; None: nothing shows it."""
        curve = self.curve
        slowed = curve.medians >= SLOWED
        added = self.added_s(curve.limits[slowed], costs)
        seen = (curve.medians[slowed] - 1) * curve.unlimited_s
        known = added > (SLOWED - 1) * curve.unlimited_s / 2
        return float(np.median(seen[known] / added[known])) if known.any() else None


def counted_rounds(curves: Iterable[Curve], counted: Mapping[str, MissCurve]) -> list[CountedRound]:
    """The steady rounds whose bytes were counted, of inference in which nothing overlaps.

    Args:
        curves: of all phases.
        counted: by a workload's id its miss curve.
    """
    every = list(curves)
    phases = {(one.trials_key, one.phase): one for one in every}
    found = []
    for curve in every:
        misses, about = counted.get(curve.workload), curve.settings
        in_order = about.get("kind") == "inference" and about.get("schedule") in _IN_ORDER
        if curve.phase != "total" or misses is None or not in_order:
            continue
        load, first, execute = (
            phases.get((curve.trials_key, name)) for name in ("load", "first", "execute")
        )
        if first is None or not misses.known:
            continue
        # Mapped weights are read by the first execution itself, which computes as one after it.
        mapped, once_s = about.get("loader") == "mmap", execute.unlimited_s if execute else 0.0
        computing_s = once_s * int(about.get("warm") or 1) + (0.0 if mapped else first.unlimited_s)
        reading = first if mapped else load
        least_s = curve.unlimited_s - (reading.unlimited_s if reading else 0.0)
        least_s += once_s if mapped else 0.0
        found.append(CountedRound(curve, misses, computing_s, least_s))
    return found


def counted_by_workload(results: Results) -> dict[str, MissCurve]:
    """By a workload's id, whatever its storage, the miss curve that has its points."""
    known = {one.workload: one for one in miss_curves(results) if one.points}
    keys = (key for sweep in results.sweeps for key in workloads_of(sweep.columns)[1])
    pairs = ((key.id, known.get(curve_workload(key))) for key in keys)
    return {workload: found for workload, found in pairs if found is not None}


@dataclass(frozen=True)
class CountedModel:
    """What predicts steady rounds from counted bytes; as a fitted model does.

    ``factor`` is that of the workload's threads; ``reach`` that of the interval, None if unknown.
    """

    round: CountedRound
    here: StorageCosts
    there: StorageCosts
    factor: float
    reach: float | None
    error: float | None = None
    name: str = COUNTED

    @property
    def tightest_bytes(self) -> int:
        """The tightest limit at which bytes were counted; from there up it is not extrapolated."""
        return min(point.limit_bytes for point in self.round.misses.known)

    def predict(self, curve: Curve, limit_bytes: FloatArray) -> CurvePrediction:
        """The round at these limits, on the other storage."""
        unlimited_s = self.round.unlimited_s(self.here, self.there)
        function = slowdown_function(self.round, self.there, unlimited_s, self.factor)
        return with_interval(unlimited_s, function, limit_bytes, self.reach)


def slowdown_function(
    one: CountedRound, costs: StorageCosts, unlimited_s: float, factor: float
) -> SlowdownFunction:
    """Of a round on a storage, over the limits that were counted."""
    points = [float(point.limit_bytes) for point in one.misses.known]
    ends = [*points, one.curve.demand_bytes or max(points)]
    limits = np.geomspace(min(ends), max(ends), _STEPS * len(ends) + 1)
    limits = np.union1d(limits, points)
    added = factor * one.added_s(limits, costs)
    return never_rising(np.log(limits), np.log1p(added / unlimited_s))


def counted_models(
    rounds: Sequence[CountedRound], here: StorageCosts, there: StorageCosts
) -> dict[str, CountedModel]:
    """By the key of each round's curve what predicts it on another storage.

    The interval is as wide as the errors here where a limit slows.
    """
    own = {one.curve.key: one.factor(here) for one in rounds if _threads(one) != 1}
    shown: dict[object, list[float]] = {}
    for one in rounds:
        if (factor := own.get(one.curve.key)) is not None:
            shown.setdefault(_kind(one), []).append(factor)
    scores: dict[str, list[FloatArray]] = {}
    factors = {}
    for one in rounds:
        found = own.get(one.curve.key)
        if found is None:
            found = float(np.median(shown.get(_kind(one), [1.0]))) if _threads(one) != 1 else 1.0
        factors[one.curve.key] = found
        curve, slowed = one.curve, one.curve.slowdown >= SLOWED
        if slowed.any():
            function = slowdown_function(one, here, curve.unlimited_s, found)
            at = conformity_scores(function, curve.limit_bytes[slowed], curve.slowdown[slowed])
            scores.setdefault(curve.workload_network, []).append(at)
    reach = reach_of([np.concatenate(own) for own in scores.values()])
    return {
        one.curve.key: CountedModel(one, here, there, factors[one.curve.key], reach)
        for one in rounds
    }


def _threads(one: CountedRound) -> object:
    return one.curve.settings.get("threads")


def _kind(one: CountedRound) -> tuple[object, object]:
    return _threads(one), one.curve.settings.get("loader")
