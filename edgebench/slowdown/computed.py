"""What both formulas say of a workload: the source of its bytes is decided here, and only here.

A network that never ran has the time without a limit, and the needs, that other networks show.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from edgebench.results.rounds import START
from edgebench.slowdown.calibration import relative_least_squares
from edgebench.slowdown.curves import WHOLES, Curve, shown_phase
from edgebench.slowdown.seconds import (
    MissCurve,
    Round,
    Source,
    StorageCosts,
    counted_curve,
    cyclic_curve,
    start_s,
    steady_s,
    storage_costs,
    unlimited_elsewhere_s,
)
from edgebench.slowdown.workload import CannotPredictError, Workload, workload_of

if TYPE_CHECKING:
    from edgebench.results.miss_curve import MissCurve as Counted
    from edgebench.slowdown.context import DeviceData
    from edgebench.slowdown.curves import FloatArray

#: How far off the added seconds, and the limit that they belong to, are in nine of ten points
#: (logarithms): by source, and whether it is of a start. As is, and in zram, scans tell less of
#: steady rounds. Chosen on all three validation sweeps.
_REACH: Mapping[tuple[Source, bool], float] = {
    (Source.COUNTED, False): 0.3,
    (Source.WORKING_SET, False): 0.5,
    (Source.LAYER_TABLE, False): 0.4,
    (Source.LAYER_TABLE, True): 0.8,
}
_AS_IS_REACH = 0.8
#: How far off a round without a limit is: where it ran, and where it did not.
_NOISE, _NEVER_NOISE = 0.2, 0.4
#: A limit's added seconds may be corrected by no more than this factor.
_MOST_SEEN = 1.5
#: Slowed by less, a limit shows nothing of that.
_SLOWED = 1.5


@dataclass(frozen=True)
class ComputedPhase:
    """Steady rounds or the start of a workload, at any limit.

    Args:
        source: where the bytes are from.
        start: whether it is the start.
        round: without a limit, on the storage that is asked about.
        misses: of steady rounds.
        costs: of the storage that is asked about.
        ran: whether its unlimited trials are known.
        seen: what its own slowed limits added ÷ what is computed.
    """

    source: Source
    start: bool
    round: Round
    misses: MissCurve
    costs: StorageCosts
    ran: bool
    seen: float = 1.0

    @property
    def tightest_bytes(self) -> float:
        """Below this limit it is a lower bound."""
        return 0.0 if self.start else self.misses.tightest_bytes

    def seconds(self, limits: FloatArray) -> FloatArray:
        """Return the seconds at limits."""
        if self.start:
            found = np.array([start_s(self.round, self.costs, float(at)) for at in limits])
        else:
            found = steady_s(self.round, self.misses, self.costs, limits)
        return self.round.unlimited_s + self.seen * (found - self.round.unlimited_s)

    def interval(self, limits: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the seconds that should hold nine of ten trials: narrow where nothing is read."""
        reach = _REACH[self.source, self.start]
        if not (self.start or self.costs.held):
            reach = max(reach, _AS_IS_REACH)
        noise, off = _NOISE if self.ran else _NEVER_NOISE, np.exp(reach)
        free = self.round.unlimited_s
        low, high = self.seconds(limits * off) - free, self.seconds(limits / off) - free
        return free * np.exp(-noise) + low / off, free * np.exp(noise) + high * off


class Computed:
    """Answers of the formulas about one device's workloads.

    Args:
        here: the device as it was measured; its curves tell of networks that never ran.
        there: the same with the storage that is asked about; None: where it was measured.
        counted: by a workload's id the bytes that were counted.
    """

    def __init__(
        self,
        here: DeviceData,
        there: DeviceData | None = None,
        counted: Mapping[str, Counted] | None = None,
    ) -> None:
        self._here, self._there, self._counted = here, there, counted or {}

    def needs_bytes(self, curve: Curve) -> float:
        """Return what a workload needs: measured, or by its layer table and other networks.

        Raises:
            CannotPredictError: there is no table, or no calibration.
        """
        if curve.demand_bytes is not None:
            return curve.demand_bytes
        workload = workload_of(curve.settings, self._here.tables)
        return needs_of_others(workload, self._here)

    def phase(self, curve: Curve) -> ComputedPhase:
        """Return a curve's phase.

        Raises:
            CannotPredictError: it is no whole round, or something is not known of it.
        """
        if curve.phase not in WHOLES:
            raise CannotPredictError(f"{curve.phase} is told where it was measured")
        workload = workload_of(curve.settings, self._here.tables)
        threads = curve.settings.get("threads")
        # NaN is not itself.
        threads = int(threads) if threads and threads == threads else None
        constants, base = self._here.constants, self._here.runtime_bytes
        costs, needs = storage_costs(constants, threads), self.needs_bytes(curve)
        ran = bool(len(curve.unlimited_seconds))
        free_s = curve.unlimited_s if ran else seconds_of_others(workload, curve.phase, self._here)
        misses = None
        if counted := self._counted.get(curve.workload):
            misses = counted_curve(counted, curve.working_set_bytes or curve.demand_bytes)
        if misses is None:
            # In a fresh process the kernel takes clean pages of mapped weights, not the idle
            # runtime.
            keeps = workload.mapped and not curve.walked
            idle = 0.0 if keeps else base - constants.hot_base_bytes.value
            misses = cyclic_curve(workload, needs, idle, curve.working_set_bytes)
        start = shown_phase(curve.phase, curve.settings) == START
        found = ComputedPhase(
            source=Source.LAYER_TABLE if start else misses.source,
            start=start,
            round=Round(workload, free_s, needs, base),
            misses=misses,
            costs=costs,
            ran=ran,
        )
        if threads != 1 and costs.held:
            found = replace(found, seen=_seen(found, curve))
        if self._there is None:
            return found
        there = storage_costs(self._there.constants, threads)
        # A round without a limit reads in its load; mapped weights in ``first``.
        alike = (c for c in self._here.curves if c.trials_key == curve.trials_key)
        took = {c.phase: c.unlimited_s for c in alike if len(c.unlimited_seconds)}
        loading_s = took.get("load", 0.0)
        if workload.mapped:
            loading_s = max(0.0, took.get("first", 0.0) - took.get("execute", 0.0))
        moved_s = unlimited_elsewhere_s(
            found.round, misses.unlimited_bytes, loading_s, costs, there
        )
        return replace(found, round=replace(found.round, unlimited_s=moved_s), costs=there)


def _seen(computed: ComputedPhase, curve: Curve) -> float:
    """Return what several threads add to waiting for a held disk, as its slowed limits show."""
    slowed, free_s = curve.medians >= _SLOWED, computed.round.unlimited_s
    said = computed.seconds(curve.limits[slowed]) - free_s
    known = said > free_s / 4
    if not known.any():
        return 1.0
    added = (curve.medians[slowed] - 1) * free_s
    return float(np.clip(np.median(added[known] / said[known]), 1 / _MOST_SEEN, _MOST_SEEN))


def seconds_of_others(workload: Workload, phase: str, data: DeviceData) -> float:
    """Return a round's seconds by four rates: a byte loaded, a layer, a FLOP, a byte touched.

    The rates are fitted to the same phase of other networks with the same schedule and loader, by
    non-negative least squares of relative errors.

    Raises:
        CannotPredictError: no such network ran.
    """
    known = [
        (other.amounts, curve.unlimited_s)
        for curve, other in _alike(workload, data)
        if curve.phase == phase and len(curve.unlimited_seconds)
    ]
    if not known:
        raise CannotPredictError("no unlimited trial of it, nor of other networks to learn from")
    rates = relative_least_squares(*zip(*known, strict=True))
    return float(np.dot(workload.amounts, rates))


def needs_of_others(workload: Workload, data: DeviceData) -> float:
    """Return what a network needs: the runtime, its table's bytes, and memory of its own.

    Its own are kernels that are compiled for it, and what the allocator keeps: as much for each
    layer as other networks with the same schedule and loader have.

    Raises:
        CannotPredictError: the runtime's footprint is not known.
    """
    base_bytes, own = data.runtime_bytes, {}
    for curve, other in _alike(workload, data):
        if curve.demand_bytes is not None:
            rest = curve.demand_bytes - base_bytes - other.table_bytes
            own[other.network] = rest / len(other.layers)
    each = max(0.0, median(own.values())) if own else 0.0
    return base_bytes + workload.table_bytes + each * len(workload.layers)


def _alike(workload: Workload, data: DeviceData) -> Iterator[tuple[Curve, Workload]]:
    for curve in data.curves:
        if curve.workload_network != workload.network:
            try:
                other = workload_of(curve.settings, data.tables)
            except CannotPredictError:
                continue
            if (other.schedule, other.loader) == (workload.schedule, workload.loader):
                yield curve, other
