"""EdgeCaffe's published totals (Brouwer), and how far the models are from limits left out of them."""

from __future__ import annotations

import statistics
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgebench.slowdown.curves import Curve

LIMITS_MIB = (4096, 2048, 1024, 512, 256, 128)
#: Seconds of a round at those limits.
TOTALS = {
    "bulk": (38.8, 47.7, 74.5, 123.6, 183.1, 271.9),
    "deepeye": (33.5, 37.3, 57.1, 102.9, 169.1, 240.6),
    "partial": (32.3, 37.3, 56.9, 78.2, 146.9, 204.2),
    "linear": (40.0, 40.2, 53.0, 83.5, 115.5, 168.7),
}


@cache
def errors() -> dict[str, float]:
    """Mean absolute error of each model, in per cent: each limit left out of all schedules."""
    from evaluation.baselines import compared_models

    from edgebench.slowdown.context import Context
    from edgebench.slowdown.models.fitting import HeldOut, errors_of, fit_model

    curves = [curve(schedule) for schedule in TOTALS]
    held: dict[str, list[HeldOut]] = {}
    for model in (one for one in compared_models() if one.per_curve):
        for one in curves:
            found = fit_model(model, [one], Context({}))[one.key]
            held.setdefault(model.name, []).extend(found.held_out)
    alone = {name: 100 * errors_of(points).mape for name, points in held.items()}
    return {**alone, "pooled": 100 * statistics.mean(_pooled_errors(curves))}


def curve(schedule: str) -> Curve:
    """Six points; slowdown is relative to the widest limit."""
    import numpy as np

    from edgebench.slowdown.curves import Curve

    limits = np.array(LIMITS_MIB[::-1]) * float(1 << 20)
    seconds = np.array(TOTALS[schedule])
    return Curve("four", "total", {"schedule": schedule}, limits, seconds[::-1], seconds[:1])


def _pooled_errors(curves: list[Curve]) -> list[float]:
    import numpy as np
    from evaluation.pooled import Pooled

    from edgebench.slowdown.context import Context

    model, context, errors = Pooled(), Context({}), []
    for limit in curves[0].limits:
        fit = model.fit([one.without(limit) for one in curves], context)
        for one in curves:
            own, at = one.without(limit), np.array([float(limit)])
            found = model.predict(fit, own, at, context)
            seconds = float(found.slowdown[0]) * found.unlimited_s
            errors.append(abs(seconds / float(one.seconds[one.limits == limit][0]) - 1))
    return errors
