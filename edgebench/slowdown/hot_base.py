"""What a steady round can't do without: its weights and the part of the runtime that it uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgebench.slowdown.simulator.workload import workload_of
from edgebench.workloads.engines.engine import WHOLE

if TYPE_CHECKING:
    from edgebench.slowdown.context import Context
    from edgebench.slowdown.curves import Curve

#: Schedules that hold all weights at once.
_HOLD_ALL = ("bulk", WHOLE)


def bytes_with_hot_base(curve: Curve, context: Context) -> float | None:
    """Bytes of the weights and of the calibrated hot base: below that, rounds read them again.

    None where not all weights are held at once, or where they or the hot base are not known.
    """
    about = curve.settings
    alone = about.get("kind") == "inference" and about.get("pipeline") == curve.network
    if context.calibration is None or not alone or about.get("schedule") not in _HOLD_ALL:
        return None
    try:
        weights = workload_of(about, context.tables).weight_bytes
    except KeyError:
        return None
    # As the simulator takes it: what stayed under the heaviest pressure.
    return weights + context.calibration.hot_base_bytes.low
