"""Models of measured curves, with their errors at limits that were left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from edgebench.errors import ResultsError
from edgebench.slowdown.curves import Curve
from edgebench.slowdown.models.base import CurveModel
from edgebench.slowdown.models.interpolated import INTERPOLATED, Interpolated
from edgebench.slowdown.workload import CannotPredictError

LEAST_LIMITS = 2
#: Of more curves than this the others are counted, not named.
_MOST_NAMES = 3
TOO_FEW_REMEDY = 'add limits to the scenario, as memory = {from = "100%", to = "25%", steps = 6}'


@dataclass(frozen=True)
class HeldOut:
    """One limit that was left out of the fit: predicted and measured median seconds.

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
    sign; ``mape_inside`` is of limits between others, ``mape_outside`` of the outermost ones.
    ``log_ratio`` is the mean of |ln(predicted / measured)|: it chooses between models, since a
    share of the measured time can't miss by more than 1 from below, however wrong (Tofallis, 2015).
    """

    count: int
    mape: float
    median_ape: float
    bias: float
    log_ratio: float
    mape_inside: float | None
    mape_outside: float | None


def errors_of(held: Sequence[HeldOut]) -> Errors:
    """The errors over held-out limits, of one curve or of many."""
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


@dataclass(frozen=True)
class ModelFit:
    """A model of a curve and its errors there; or the reason why it has none.

    Attributes:
        model: its name.
        fitted: to the curve alone; None where that can't be, or other curves are needed.
        held_out: what it says of each limit that was left out.
        reason: why something is missing; None: nothing is.
    """

    model: str
    fitted: CurveModel | None
    held_out: tuple[HeldOut, ...] = ()
    reason: str | None = None

    @property
    def errors(self) -> Errors | None:
        """Leave-one-limit-out errors; None where there were too few limits to leave one out."""
        return errors_of(self.held_out) if self.held_out else None

    @property
    def log_ratio(self) -> float | None:
        """The error by which models are compared."""
        return self.errors.log_ratio if self.errors else None


def fit_interpolated(curve: Curve) -> ModelFit:
    """The curve through its own points; kept, so that a second call costs nothing."""
    return _fit_interpolated(_SameTrials(curve))


def left_out(curve: Curve, predicted_s: Callable[[float], float]) -> tuple[HeldOut, ...]:
    """Each limit of a curve that has some, and the seconds that are predicted of it."""
    limits = curve.limits if len(curve.limits) >= LEAST_LIMITS else ()
    return tuple(
        HeldOut(
            limit_bytes=float(limit),
            predicted_s=predicted_s(float(limit)),
            measured_s=float(np.median(curve.seconds[curve.limit_bytes == limit])),
            inside=bool(curve.limits[0] < limit < curve.limits[-1]),
        )
        for limit in limits
    )


@dataclass(frozen=True)
class CurveFits:
    """All models on one curve, the simplest first."""

    curve: Curve
    fits: tuple[ModelFit, ...]

    @property
    def best(self) -> ModelFit | None:
        """The model with the least error; None if none has errors."""
        known = [one for one in self.fits if one.log_ratio is not None]
        return min(known, key=lambda one: one.log_ratio or 0.0, default=None)

    @property
    def drawn(self) -> CurveModel:
        """What a figure draws: the last that could be fitted to the curve alone."""
        return [one.fitted for one in self.fits if one.fitted][-1]


def _listed(names: Sequence[str]) -> str:
    """Some of them, and how many more there are."""
    left = len(names) - _MOST_NAMES
    return ", ".join(names) if left < 2 else f"{', '.join(names[:_MOST_NAMES])}, {left} more"


def fit_all(curves: Sequence[Curve], where: str | None = None) -> tuple[list[CurveFits], list[str]]:
    """Fit the models to every curve of two limits or more; the others are named in warnings.

    Raises:
        ResultsError: no curve has two limits.
    """
    usable = [curve for curve in curves if len(curve.limits) >= LEAST_LIMITS]
    if not usable:
        raise ResultsError(
            f"too few limits: a fit needs {LEAST_LIMITS} at which a trial finished, "
            "beside the unlimited ones",
            where=where,
            remedy=TOO_FEW_REMEDY,
        )
    lone = [curve.label for curve in curves if len(curve.limits) < LEAST_LIMITS]
    skipped = (
        [f"not fitted, since trials finished at only one limit: {_listed(lone)}"] if lone else []
    )
    return [fit_curve(curve) for curve in usable], skipped


def fit_curve(curve: Curve) -> CurveFits:
    """The models that need this curve alone."""
    return CurveFits(curve, (fit_interpolated(curve),))


class _SameTrials:
    """A curve that equals any other of the same trials: a report needs each fit more than once."""

    def __init__(self, curve: Curve) -> None:
        self.curve = curve
        times = (curve.limit_bytes, curve.seconds, curve.unlimited_seconds)
        trials = tuple(part.tobytes() for part in times)
        self._content = (curve.key, *trials, curve.demand_bytes, str(curve.lost_bytes))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _SameTrials) and self._content == other._content

    def __hash__(self) -> int:
        return hash(self._content)


@lru_cache(maxsize=1024)
def _fit_interpolated(trials: _SameTrials) -> ModelFit:
    curve = trials.curve

    def without(limit: float) -> float:
        found = Interpolated.of(curve.without(limit)).predict(curve, np.array([limit]))
        return float(found.slowdown[0]) * found.unlimited_s

    try:
        fitted = Interpolated.of(curve)
    except CannotPredictError as error:
        return ModelFit(INTERPOLATED, None, reason=str(error))
    try:
        return ModelFit(INTERPOLATED, fitted, left_out(curve, without))
    except CannotPredictError:
        return ModelFit(INTERPOLATED, fitted, reason="too few limits to leave one out")
