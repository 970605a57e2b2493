"""What killed trials show: of networks that ran, and of those that never did.

A need that follows from a layer table is off by some per cent, so the limit that kills is less
sure than that of a network that ran. How far off, and how unsure, is learnt from networks that ran,
each taken as if it had not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from edgebench.slowdown.models.own_memory import OwnMemory, left_out_own_memory
from edgebench.slowdown.viability import Viability, ViabilityTrial, fit_viability, mapped_bytes

if TYPE_CHECKING:
    from edgebench.slowdown.context import DeviceData
    from edgebench.slowdown.curves import Curve

_Workload = tuple[str, str, str]


class LearntViability:
    """The edge for needs that were measured, and for those that are simulated."""

    def __init__(self, trials: Sequence[ViabilityTrial], data: DeviceData) -> None:
        self._trials, self._data = trials, data

    def of(self, curves: Sequence[Curve]) -> Viability:
        """That of a workload whose demand was measured, or that of one that never ran."""
        measured = any(curve.demand_bytes is not None for curve in curves)
        return self.measured if measured else self._simulated

    @cached_property
    def measured(self) -> Viability:
        """By the needs that trials showed."""
        return fit_viability(self._trials)

    @cached_property
    def _simulated(self) -> Viability:
        return fit_viability(as_never_run(self._trials, self._data) if self._trials else ())


def as_never_run(trials: Sequence[ViabilityTrial], data: DeviceData) -> list[ViabilityTrial]:
    """The trials with simulated needs; those whose need can't be simulated are left out."""
    needs = simulated_needs(data)
    found = []
    for trial in trials:
        need = needs.get((trial.network, trial.schedule, trial.loader))
        if need is not None:
            found.append(replace(trial, need_bytes=need))
    return found


def simulated_needs(data: DeviceData) -> dict[_Workload, float]:
    """Anonymous memory that each network, schedule and loader needs, as if it had never run.

    What can't be simulated is left out.
    """
    others = left_out_own_memory(data.curves, data.context)
    found = {}
    for workload, curve in {_workload(curve): curve for curve in data.curves}.items():
        own = others.get(curve.workload_network, OwnMemory())
        bare = curve.unseen(with_unlimited=False)
        demand = own.with_demand(bare, data.context).demand_bytes
        if demand is not None:
            found[workload] = demand - _mapped_bytes(workload, data)
    return found


def _mapped_bytes(workload: _Workload, data: DeviceData) -> float:
    network, schedule, loader = workload
    return mapped_bytes(data.context.tables, network, schedule) if loader == "mmap" else 0.0


def _workload(curve: Curve) -> _Workload:
    at = curve.settings
    return curve.workload_network, str(at.get("schedule")), str(at.get("loader"))
