"""The miss curve of a workload: bytes that a steady round reads again at each limit.

It belongs to the workload, not to the storage, and has one source: the bytes were counted, or the
pages that steady rounds use were, or they follow from the layer table.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from edgebench.results.miss_curve import curve_workload, miss_curves
from edgebench.results.workload_key import workloads_of

if TYPE_CHECKING:
    from edgebench.results.miss_curve import MissCurve as Counted
    from edgebench.results.results import Results
    from edgebench.slowdown.curves import FloatArray
    from edgebench.slowdown.workload import Workload

#: A cyclic scan under LRU misses all as soon as one page lacks. What is kept a little longer makes
#: the misses rise over this part of the limit. Chosen on validation-one-thread.
_RAMP = 0.88


class Source(str, Enum):
    """How what happens at a limit is known, the surest first."""

    #: Trials ran at the limit.
    MEASURED = "measured"
    #: Trials ran at tighter and wider limits.
    BETWEEN = "between measured limits"
    #: The bytes that its rounds read again were counted; on any storage.
    COUNTED = "counted bytes"
    #: The pages that its steady rounds use were counted.
    WORKING_SET = "working set"
    #: It follows from the sizes in its layer table.
    LAYER_TABLE = "layer table"


@dataclass(frozen=True)
class MissCurve:
    """Bytes and faults at some limits, ascending, and where they are from.

    Args:
        source: counted, working set, or layer table.
        limit_bytes: the limits.
        again_bytes: what a steady round reads again there.
        faults: its major faults there; all 0 where they were not counted.
        unlimited_bytes: what a round reads without a limit.
    """

    source: Source
    limit_bytes: FloatArray
    again_bytes: FloatArray
    faults: FloatArray
    unlimited_bytes: float

    def bytes_at(self, limit_bytes: FloatArray) -> FloatArray:
        """Return the bytes at limits: between two of the curve's in proportion to ln M."""
        return np.asarray(
            np.interp(np.log(limit_bytes), np.log(self.limit_bytes), self.again_bytes)
        )

    def faults_at(self, limit_bytes: FloatArray) -> FloatArray:
        """Return the faults in the same way."""
        return np.asarray(np.interp(np.log(limit_bytes), np.log(self.limit_bytes), self.faults))

    @property
    def tightest_bytes(self) -> float:
        """The least limit at which bytes were counted; 0 for other sources, which hold at any."""
        return float(self.limit_bytes[0]) if self.source is Source.COUNTED else 0.0


def cyclic_curve(
    workload: Workload,
    needs_bytes: float,
    idle_bytes: float,
    working_set_bytes: float | None = None,
) -> MissCurve:
    """Return the curve of weights that each pass reads in the same order.

    Args:
        workload: what is executed.
        needs_bytes: what it needs for no limit to matter.
        idle_bytes: of the runtime, what no round uses and is written out; 0 beside mapped weights
            in a fresh process, where the kernel takes clean file pages first.
        working_set_bytes: what steady rounds were counted to use; None: not known.
    """
    used = working_set_bytes or needs_bytes - idle_bytes
    # Mapped weights are read once in any round; linear loads each layer anew.
    again = workload.weight_bytes * (workload.passes - workload.mapped)
    free = workload.weight_bytes if workload.at_once or workload.mapped else 0
    source = Source.WORKING_SET if working_set_bytes else Source.LAYER_TABLE
    limits = np.array([_RAMP, 1.0]) * used
    return MissCurve(source, limits, np.array([float(again), 0.0]), np.zeros(2), float(free))


def counted_curve(counted: Counted, used_bytes: float | None) -> MissCurve | None:
    """Return the curve of counted bytes; None where no visits agree.

    Where nothing was counted above a limit, nothing is read again from ``used_bytes`` up.
    """
    points = sorted(counted.known, key=lambda one: one.limit_bytes)
    if not points:
        return None
    rows = [(p.limit_bytes, p.round_bytes, p.faults or 0) for p in points]
    if used_bytes is not None and used_bytes > rows[-1][0]:
        rows.append((round(used_bytes), 0, 0))
    limits, again, faults = (
        np.array(column, dtype=np.float64) for column in zip(*rows, strict=True)
    )
    return MissCurve(Source.COUNTED, limits, again, faults, float(counted.unlimited_bytes))


def counted_by_workload(results: Results) -> dict[str, Counted]:
    """By a workload's id, whatever its storage, the counted points that are its own."""
    known = {one.workload: one for one in miss_curves(results) if one.points}
    keys = (key for sweep in results.sweeps for key in workloads_of(sweep.columns)[1])
    pairs = ((key.id, known.get(curve_workload(key))) for key in keys)
    return {workload: found for workload, found in pairs if found is not None}
