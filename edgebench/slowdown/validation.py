"""How far a rung's predictions are from what it wasn't shown, in raw time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgebench.slowdown.data import Curve
from edgebench.slowdown.model import Rung, TooFewLimitsError


@dataclass(frozen=True)
class HeldOut:
    """One limit that the fit was not shown: predicted and measured median seconds.

    ``inside``: there were tighter and wider limits, so it was not extrapolated.
    """

    limit_bytes: float
    predicted_s: float
    measured_s: float
    inside: bool

    @property
    def error(self) -> float:
        """Signed, as a share of what was measured."""
        return self.predicted_s / self.measured_s - 1


@dataclass(frozen=True)
class Errors:
    """Errors over held-out limits, as shares of the measured time.

    ``mape`` is the mean and ``median_ape`` the median of their sizes, ``bias`` the mean with its
    sign; ``mape_inside`` and ``mape_outside`` part limits between others from the outermost ones.
    ``log_ratio`` is the mean of |ln(predicted / measured)|: it chooses between rungs, since a
    share of the measured time can't miss by more than 1 from below, however wrong (Tofallis, 2015).
    """

    count: int
    mape: float
    median_ape: float
    bias: float
    log_ratio: float
    mape_inside: float | None
    mape_outside: float | None


def leave_one_limit_out(curve: Curve, rung: Rung) -> list[HeldOut]:
    """Fit without each limit in turn and predict it.

    Raises:
        TooFewLimitsError: too few are left for the rung.
    """
    return [_held_out(curve, rung, float(limit)) for limit in curve.limits]


def errors_of(held: Sequence[HeldOut]) -> Errors:
    """Sum up held-out limits, of one curve or of many."""
    errors = np.array([one.error for one in held])
    inside = np.array([one.inside for one in held])
    return Errors(
        count=len(held),
        mape=float(np.mean(abs(errors))),
        median_ape=float(np.median(abs(errors))),
        bias=float(np.mean(errors)),
        log_ratio=float(np.mean(abs(np.log1p(errors)))),
        mape_inside=float(np.mean(abs(errors[inside]))) if inside.any() else None,
        mape_outside=float(np.mean(abs(errors[~inside]))) if not inside.all() else None,
    )


def _held_out(curve: Curve, rung: Rung, limit: float) -> HeldOut:
    rest = curve.without(limit)
    if not len(rest.limits):
        raise TooFewLimitsError("needs another limit than the one held out")
    slowdown = rung.predict(rung.fit(rest), np.array([limit]))[0]
    return HeldOut(
        limit_bytes=limit,
        predicted_s=float(slowdown) * curve.unlimited_s,
        measured_s=float(np.median(curve.seconds[curve.limit_bytes == limit])),
        inside=bool(rest.limits[0] < limit < rest.limits[-1]),
    )
