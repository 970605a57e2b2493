"""Both formulas: seconds of a steady round, and of the start, at a limit. Nothing is fitted.

Steady: ``T = T0 + max(b · s - C, b · s / 2 + faults · f)``. A round reads b bytes again
(:mod:`~edgebench.slowdown.miss_curve`), each in s seconds. A disk that is held to a speed reads on
while the network computes (C seconds of the round without a limit), but a fault waits for its own
bytes, so that computing hides half of the reading at most. Otherwise nothing overlaps: T0 + b · s.

The start: :func:`start_s`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from edgebench.slowdown.curves import FloatArray
    from edgebench.slowdown.miss_curve import MissCurve
    from edgebench.slowdown.storage import StorageCosts
    from edgebench.slowdown.workload import Workload

#: Clean pages of files that the kernel keeps beside memory that can't be dropped.
_CACHE_BYTES = 16 << 20
#: Pages of the runtime that are used now and then, and come back one by one.
_APART_BYTES = 2.7e6
_PAGE_BYTES = 4096


@dataclass(frozen=True)
class Round:
    """A round without a limit, and what it needs.

    Args:
        workload: what is executed.
        unlimited_s: seconds of the round.
        needs_bytes: what it needs for no limit to matter.
        base_bytes: the footprint of the idle runtime.
    """

    workload: Workload
    unlimited_s: float
    needs_bytes: float
    base_bytes: float


def steady_s(one: Round, misses: MissCurve, costs: StorageCosts, limits: FloatArray) -> FloatArray:
    """Return the seconds of a steady round at limits."""
    read_s = misses.bytes_at(limits) * costs.again_s(one.workload.mapped)
    if not costs.held:
        return one.unlimited_s + read_s
    computing_s = max(0.0, one.unlimited_s - one.workload.weight_bytes * costs.held_file_s)
    waits_s = read_s / 2 + misses.faults_at(limits) * costs.fault_s
    return np.asarray(one.unlimited_s + np.maximum(read_s - computing_s, waits_s))


def start_s(one: Round, costs: StorageCosts, limits: FloatArray) -> FloatArray:
    """Return the seconds of the first round after the import at limits.

    The idle runtime is written out to make room; what lacks then is read again in each pass.
    """
    return np.array([_start_s(one, costs, float(limit)) for limit in limits])


def _start_s(one: Round, costs: StorageCosts, limit: float) -> float:
    work, base = one.workload, one.base_bytes
    weights, mapped = work.weight_bytes, work.mapped
    runtime = min(base, limit)  # still in RAM when loading begins
    if mapped:
        new = max(0.0, one.needs_bytes - base - work.held_bytes)
    else:
        new = max(float(work.held_bytes), one.needs_bytes - base)
    cache = min(weights, _CACHE_BYTES)
    out = min(max(runtime + new + cache - limit, 0.0), runtime)  # runtime that is written out
    back = again = 0.0
    if mapped:
        if weights > max(cache, limit - (runtime - out) - new):
            again = (work.passes - 1) * weights
    elif new + cache > limit:
        back = work.passes * new
        if not work.at_once:  # the layers that don't fit beside the rest
            rest = new - work.held_bytes + cache
            sizes = (layer.weight_bytes for layer in work.layers)
            back = sum(size for size in sizes if rest + size > limit)
        out = runtime + new
    apart = _APART_BYTES if base > limit or out >= _APART_BYTES else 0.0
    fresh = max(0.0, runtime + new + weights - limit)
    faults = back / costs.fault_bytes + apart / _PAGE_BYTES + again / costs.mapped_fault_bytes
    moved_s = (
        faults * costs.fault_s
        + (back + apart) * costs.in_s
        + again * costs.mapped_in_s
        + out * costs.out_s
    )
    waits_s = costs.held_swap_s * (back + apart) + costs.held_file_s * again
    computing_s = one.unlimited_s - weights * costs.held_file_s
    own_s = costs.seen * moved_s + fresh * costs.touch_s
    return one.unlimited_s + max(own_s, waits_s - computing_s)


def unlimited_elsewhere_s(
    one: Round, read_bytes: float, loading_s: float, here: StorageCosts, there: StorageCosts
) -> float:
    """Return the seconds of the round without a limit on another storage.

    What computing, and what a held disk saved up, hides of the reading is hidden there too if both
    disks are held, or neither is.

    Args:
        one: the round here.
        read_bytes: what it reads without a limit.
        loading_s: how long it reads them here.
        here: the storage where it ran.
        there: the other one.
    """
    here_s, there_s = (read_bytes * costs.file_s for costs in (here, there))
    hidden_s = here_s - loading_s if here.held == there.held else 0.0
    return max(one.unlimited_s - loading_s, 0.0) + max(there_s - hidden_s, 0.0)
