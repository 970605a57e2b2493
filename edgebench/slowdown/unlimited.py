"""A network that never ran: its time without a limit and what it needs, as other networks show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from edgebench.slowdown.calibration.constants import relative_least_squares
from edgebench.slowdown.workload import CannotPredictError, Workload, workload_of

if TYPE_CHECKING:
    from edgebench.slowdown.context import Context
    from edgebench.slowdown.curves import Curve

_NO_TIME = "no unlimited trial of it, nor of other networks to learn from"


def seconds_of_others(
    workload: Workload, phase: str, others: Iterable[Curve], context: Context
) -> float:
    """Return a round's seconds by four rates: a byte loaded, a layer, a FLOP, a byte touched.

    The rates are fitted to the same phase of other networks with the same schedule and loader, by
    non-negative least squares of relative errors.

    Raises:
        CannotPredictError: no such network ran.
    """
    known = [
        (other.amounts, curve.unlimited_s)
        for curve, other in _alike(workload, others, context)
        if curve.phase == phase and len(curve.unlimited_seconds)
    ]
    if not known:
        raise CannotPredictError(_NO_TIME)
    rates = relative_least_squares(*zip(*known, strict=True))
    return float(np.dot(workload.amounts, rates))


def needs_of_others(
    workload: Workload, base_bytes: float, others: Iterable[Curve], context: Context
) -> float:
    """Return what a network needs: the runtime, its table's bytes, and memory of its own.

    Its own are kernels that are compiled for it, and what the allocator keeps: as much for each
    layer as other networks with the same schedule and loader have.
    """
    own: dict[str, float] = {}
    for curve, other in _alike(workload, others, context):
        if curve.demand_bytes is not None:
            rest = curve.demand_bytes - base_bytes - other.table_bytes
            own[other.network] = rest / len(other.layers)
    each = max(0.0, median(own.values())) if own else 0.0
    return base_bytes + workload.table_bytes + each * len(workload.layers)


def _alike(
    workload: Workload, others: Iterable[Curve], context: Context
) -> Sequence[tuple[Curve, Workload]]:
    found = []
    for curve in others:
        if curve.workload_network != workload.network:
            try:
                other = workload_of(curve.settings, context.tables)
            except CannotPredictError:
                continue
            if (other.schedule, other.loader) == (workload.schedule, workload.loader):
                found.append((curve, other))
    return found
