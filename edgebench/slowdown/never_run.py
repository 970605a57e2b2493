"""A network that never ran: its time without a limit and what it needs, as other networks show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from edgebench.slowdown.workload import CannotPredictError, Workload, workload_of

if TYPE_CHECKING:
    from edgebench.slowdown.context import DeviceData
    from edgebench.slowdown.curves import Curve


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


def relative_least_squares(
    rows: Sequence[Sequence[float]], seconds: Sequence[float]
) -> list[float]:
    """Return each column's seconds a unit, none below 0; each row weighs the same."""
    from scipy.optimize import nnls

    relative = np.array(rows, dtype=float) / np.array(seconds, dtype=float)[:, None]
    scale = np.maximum(relative.max(axis=0), 1e-300)
    found, _ = nnls(relative / scale, np.ones(len(rows)))
    return [float(value) for value in found / scale]


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
