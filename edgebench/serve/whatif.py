"""What a limit would do: predictions of a sweep's workloads over a range of limits, as plain data.

A fit is asked for at fixed shares of demand; the page's slider moves among those, so that every
number it shows was predicted and none was interpolated by the page.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgebench.predicting import source_of
from edgebench.slowdown.asking import Wanted

if TYPE_CHECKING:
    from edgebench.slowdown.data import Curve
    from edgebench.slowdown.prediction import AtLimit, Prediction

#: Shares of demand, in percent, that are predicted.
SHARES = tuple(range(120, 28, -2))
#: Layers named at each limit.
_LAYERS = 5


def what_if(sweep: Path) -> dict[str, Any]:
    """``{"workloads": [...], "warnings": [...]}`` of one sweep.

    Raises:
        EdgebenchError: nothing can be predicted from it; says why.
    """
    wanted = Wanted()
    source = source_of(sweep, wanted)
    found = source.predict(wanted, [f"{share}%" for share in SHARES])
    return {"workloads": [_workload(one) for one in found], "warnings": source.warnings}


def _told(value: float | None) -> float | None:
    """The number; None where a model gives none that can be shown."""
    return value if value is not None and math.isfinite(value) else None


def _workload(one: Prediction) -> dict[str, Any]:
    settings = one.subject.settings
    told = {k: settings.get(k) for k in ("schedule", "loader", "batch", "swap_kind")}
    return {
        "network": one.subject.network,
        "settings": {name: value for name, value in told.items() if value is not None},
        "rung": one.rung,
        "demand_bytes": _told(one.demand_bytes),
        "least_viable_bytes": _told(one.least_viable_bytes),
        "unslowed_bytes": _told(one.unslowed_bytes),
        "measured": [_measured(curve) for curve in one.subject.curves if len(curve.limits)],
        "at": [_at(at) for at in one.at],
    }


def _relative(seconds: float | None, unlimited_s: float) -> float | None:
    return None if seconds is None else _told(seconds / unlimited_s)


def _measured(curve: Curve) -> dict[str, Any]:
    return {
        "network": curve.network,
        "phase": curve.phase,
        "limit_bytes": [float(limit) for limit in curve.limit_bytes],
        "slowdown": [float(slowdown) for slowdown in curve.slowdown],
        "killed_bytes": list(curve.lost_bytes.get("oom-killed", ())),
    }


def _at(at: AtLimit) -> dict[str, Any]:
    return {
        "limit_bytes": at.limit_bytes,
        "share": at.share,
        "probability": _told(at.probability),
        "viable": at.viable,
        "extrapolated": at.extrapolated,
        "phases": [
            {
                "network": time.network,
                "phase": time.phase,
                "seconds": _told(time.seconds),
                "slowdown": _told(time.slowdown),
                "low": _relative(time.low_s, time.unlimited_s),
                "high": _relative(time.high_s, time.unlimited_s),
            }
            for time in at.phases
        ],
        "layers": [
            {"network": cost.network, "name": cost.name, "share": cost.share}
            for cost in at.layers[:_LAYERS]
        ],
    }
