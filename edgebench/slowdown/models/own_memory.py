"""The memory of its own that a network has: known by its demand, else from other networks.

Beside its weights and activations a network needs kernels that are compiled for it, and what the
allocator keeps. Of a network that never ran it is so many bytes a layer, as other networks show.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from edgebench.slowdown.context import CannotPredictError, Context
from edgebench.slowdown.curves import Curve
from edgebench.slowdown.simulator.profile import (
    demand_bytes,
    device_for,
    device_with_demand,
    workload_for,
)
from edgebench.slowdown.simulator.workload import Workload


@dataclass(frozen=True)
class OwnMemory:
    """Bytes a layer, by loader and schedule: the median of networks whose demand is known."""

    by_kind: Mapping[str, float] = field(default_factory=dict)

    def with_demand(self, curve: Curve, context: Context) -> Curve:
        """The curve; without a measured demand, with the one that follows from its layers."""
        if curve.demand_bytes is not None:
            return curve
        try:
            workload, device = workload_for(curve, context), device_for(curve, context)
        except CannotPredictError:
            return curve
        own = self.by_kind.get(_kind(workload), 0.0) * _layers(workload)
        return replace(curve, demand_bytes=demand_bytes(workload, device) + own)


def fit_own_memory(curves: Sequence[Curve], context: Context) -> OwnMemory:
    """What the demands of these curves show."""
    return _median(_known(curves, context))


def left_out_own_memory(curves: Sequence[Curve], context: Context) -> dict[str, OwnMemory]:
    """For each network whose demand is known, what the demands of all others show."""
    every = _known(curves, context)
    known = [("+".join(workload.networks), workload, own) for workload, own in every]
    return {
        left_out: _median((workload, own) for name, workload, own in known if name != left_out)
        for left_out in sorted({name for name, *_ in known})
    }


def _median(known: Iterable[tuple[Workload, float]]) -> OwnMemory:
    groups: dict[str, dict[Workload, float]] = {}
    for workload, own in known:
        groups.setdefault(_kind(workload), {})[workload] = own / _layers(workload)
    return OwnMemory({kind: median(each.values()) for kind, each in sorted(groups.items())})


def _known(curves: Iterable[Curve], context: Context) -> Iterator[tuple[Workload, float]]:
    for curve in curves:
        if curve.demand_bytes is not None:
            try:
                workload = workload_for(curve, context)
                yield workload, device_with_demand(curve, context).base.own_bytes
            except CannotPredictError:
                continue


def _kind(workload: Workload) -> str:
    return f"{workload.loader}/{workload.schedule}"


def _layers(workload: Workload) -> int:
    return max(1, sum(len(table) for table in workload.tables))
