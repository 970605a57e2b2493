"""What both formulas say of a workload: the source of its bytes is decided here, and only here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from edgebench.results.rounds import START
from edgebench.slowdown.curves import WHOLES, Curve, shown_phase
from edgebench.slowdown.miss_curve import MissCurve, counted_curve, cyclic_curve
from edgebench.slowdown.seconds import Round, start_s, steady_s, unlimited_elsewhere_s
from edgebench.slowdown.source import Source
from edgebench.slowdown.storage import StorageCosts, storage_costs
from edgebench.slowdown.unlimited import needs_of_others, seconds_of_others
from edgebench.slowdown.workload import CannotPredictError, Workload, workload_of

if TYPE_CHECKING:
    from edgebench.results.miss_curve import MissCurve as Counted
    from edgebench.slowdown.calibration.device import Calibration
    from edgebench.slowdown.context import Context
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
        stage: ``start`` or ``steady``.
        round: without a limit, on the storage that is asked about.
        misses: of steady rounds; None of a start.
        costs: of the storage that is asked about.
        ran: whether its unlimited trials are known.
        seen: what its own slowed limits added ÷ what is computed.
    """

    source: Source
    stage: str
    round: Round
    misses: MissCurve
    costs: StorageCosts
    ran: bool
    seen: float = 1.0

    @property
    def unlimited_s(self) -> float:
        """Seconds without a limit."""
        return self.round.unlimited_s

    @property
    def tightest_bytes(self) -> float:
        """Below this limit it is a lower bound."""
        return self.misses.tightest_bytes if self.stage != START else 0.0

    def seconds(self, limits: FloatArray) -> FloatArray:
        """Return the seconds at limits."""
        if self.stage == START:
            found = start_s(self.round, self.costs, limits)
        else:
            found = steady_s(self.round, self.misses, self.costs, limits)
        return self.unlimited_s + self.seen * (found - self.unlimited_s)

    def interval(self, limits: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the seconds that should hold nine of ten trials: narrow where nothing is read."""
        start = self.stage == START
        reach = _REACH[self.source, start]
        if not (start or self.costs.held):
            reach = max(reach, _AS_IS_REACH)
        noise, off = _NOISE if self.ran else _NEVER_NOISE, np.exp(reach)
        free = self.unlimited_s
        low, high = (self.seconds(limits * off) - free, self.seconds(limits / off) - free)
        return free * np.exp(-noise) + low / off, free * np.exp(noise) + high * off


class Computed:
    """Answers of the formulas about one device's workloads.

    Args:
        curves: all of the device, which tell of networks that never ran.
        here: where they were measured.
        there: the storage that is asked about; the same where it was measured.
        counted: by a workload's id the bytes that were counted.
    """

    def __init__(
        self,
        curves: Sequence[Curve],
        here: Context,
        there: Context | None = None,
        counted: Mapping[str, Counted] | None = None,
    ) -> None:
        self._curves, self._here, self._there = curves, here, there or here
        self._counted = counted or {}

    def needs_bytes(self, curve: Curve) -> float:
        """Return what a workload needs by its layer table and other networks.

        Raises:
            CannotPredictError: there is no table, or no calibration.
        """
        workload = workload_of(curve.settings, self._here.tables)
        return needs_of_others(workload, self._base_bytes(), self._curves, self._here)

    def phase(self, curve: Curve, own: Sequence[Curve]) -> ComputedPhase:
        """Return a curve's phase; ``own`` are all curves of its workload.

        Raises:
            CannotPredictError: it is no whole round, or something is not known of it.
        """
        if curve.phase not in WHOLES:
            raise CannotPredictError(f"{curve.phase} is told where it was measured")
        workload = workload_of(curve.settings, self._here.tables)
        here, there = (_calibration(one) for one in (self._here, self._there))
        threads = curve.settings.get("threads")
        threads = int(threads) if threads and threads == threads else None
        costs = storage_costs(here, threads)
        ran = bool(len(curve.unlimited_seconds))
        needs, base = curve.demand_bytes, self._base_bytes()
        if needs is None:
            needs = needs_of_others(workload, base, self._curves, self._here)
        if ran:
            unlimited_s = curve.unlimited_s
        else:
            unlimited_s = seconds_of_others(workload, curve.phase, self._curves, self._here)
        stage = shown_phase(curve.phase, curve.settings)
        misses = self._misses(curve, workload, needs, base - here.hot_base_bytes.value)
        made = ComputedPhase(
            source=misses.source if stage != START else Source.LAYER_TABLE,
            stage=stage,
            round=Round(workload, unlimited_s, needs, base),
            misses=misses,
            costs=costs,
            ran=ran,
        )
        made = replace(made, seen=_seen(made, curve, threads))
        if self._there is self._here:
            return made
        others = storage_costs(there, threads)
        loading_s = _loading_s(own, workload)
        moved_s = unlimited_elsewhere_s(
            made.round, misses.unlimited_bytes, loading_s, costs, others
        )
        return replace(made, round=replace(made.round, unlimited_s=moved_s), costs=others)

    def _misses(
        self, curve: Curve, workload: Workload, needs: float, idle_bytes: float
    ) -> MissCurve:
        """Decide the source of the bytes: counted, else the working set, else the layer table."""
        counted = self._counted.get(curve.workload)
        if counted and (found := counted_curve(counted, curve.demand_bytes)):
            return found
        # In a fresh process the kernel takes clean pages of mapped weights, not the idle runtime.
        idle = 0.0 if workload.mapped and not curve.walked else idle_bytes
        return cyclic_curve(workload, needs, idle, curve.working_set_bytes)

    def _base_bytes(self) -> float:
        if self._here.base_bytes is not None:
            return self._here.base_bytes
        known = self._here.calibration or self._here.assumed
        if known is None:
            raise CannotPredictError("the device is not calibrated: edgebench calibrate")
        return known.base_bytes.value


def _calibration(context: Context) -> Calibration:
    """Return the constants; assumed ones only below a declared speed, which decides then."""
    found = context.calibration or (
        context.assumed if context.assumed and context.assumed.held else None
    )
    if found is None:
        raise CannotPredictError("the device is not calibrated: edgebench calibrate")
    return found


def _seen(made: ComputedPhase, curve: Curve, threads: int | None) -> float:
    """Return what several threads add to waiting for a held disk, as its slowed limits show."""
    if threads == 1 or not made.costs.held or not len(curve.limits):
        return 1.0
    slowed = curve.medians >= _SLOWED
    said = made.seconds(curve.limits[slowed]) - made.unlimited_s
    added = (curve.medians[slowed] - 1) * made.unlimited_s
    known = said > made.unlimited_s / 4
    if not known.any():
        return 1.0
    seen = float(np.median(added[known] / said[known]))
    return min(max(seen, 1 / _MOST_SEEN), _MOST_SEEN)


def _loading_s(own: Sequence[Curve], workload: Workload) -> float:
    """Return how long a round without a limit reads: its load; of mapped weights in ``first``."""
    by_phase = {one.phase: one.unlimited_s for one in own if len(one.unlimited_seconds)}
    if not workload.mapped:
        return by_phase.get("load", 0.0)
    return max(0.0, by_phase.get("first", 0.0) - by_phase.get("execute", 0.0))
