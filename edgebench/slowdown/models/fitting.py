"""Every model fitted to every curve, with its errors at limits left out; the nearest one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeVar

import numpy as np

from edgebench.errors import ResultsError
from edgebench.slowdown.context import CannotPredictError, Context
from edgebench.slowdown.curves import Curve
from edgebench.slowdown.models.base import Fit, Model, predicting_models
from edgebench.slowdown.splits import HeldOutPoint, by_engine, limit_folds, unseen

LEAST_LIMITS = 2
TOO_FEW_REMEDY = 'add limits to the scenario, as memory = {from = "100%", to = "25%", steps = 6}'
_Candidate = TypeVar("_Candidate")


def nearest(
    candidates: Iterable[_Candidate], error: Callable[[_Candidate], float | None]
) -> _Candidate | None:
    """The candidate with the least error; of equals the first. None if none has an error."""
    known = [(found, one) for one in candidates if (found := error(one)) is not None]
    return min(known, key=lambda pair: pair[0])[1] if known else None


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
    """A model's fit to a curve and its errors there; or the reason why it has none."""

    model: Model
    fit: Fit | None
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


@dataclass(frozen=True)
class CurveFits:
    """All models on one curve, the simplest first."""

    curve: Curve
    fits: tuple[ModelFit, ...]

    @property
    def own(self) -> tuple[ModelFit, ...]:
        """The models that are fitted to this curve alone."""
        return tuple(one for one in self.fits if one.model.per_curve)

    @property
    def best(self) -> ModelFit | None:
        """The nearest model of the curve alone; None if none has errors."""
        return nearest(self.own, lambda one: one.log_ratio)

    @property
    def recommended(self) -> ModelFit | None:
        """The nearest model that meets the points; None if none has errors."""
        meeting = [one for one in self.fits if one.model.meets_points]
        return nearest(meeting, lambda one: one.log_ratio)

    @property
    def drawn(self) -> ModelFit:
        """What a figure draws: the best, else the last that could be fitted."""
        return self.best or [one for one in self.own if one.fit][-1]


def fit_all(
    curves: Sequence[Curve], where: str | None = None, context: Context | None = None
) -> tuple[list[CurveFits], list[str]]:
    """Fit the models to every curve of two limits or more; the others are named in warnings.

    Without a context only the models of one curve are fitted.

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
    skipped = [
        f"{curve.label}: only one limit at which a trial finished; not fitted"
        for curve in curves
        if len(curve.limits) < LEAST_LIMITS
    ]
    found = [fit_curve(curve) for curve in usable]
    for model in predicting_models() if context else ():
        if not model.per_curve:
            assert context is not None
            apart = [fit_model(model, own, context) for own in by_engine(usable).values()]
            fits = {key: fit for own in apart for key, fit in own.items()}
            found = [replace(one, fits=(*one.fits, fits[one.curve.key])) for one in found]
    return found, skipped


def fit_curve(curve: Curve) -> CurveFits:
    """The models of one curve alone; kept, so that a second call costs nothing."""
    return CurveFits(curve, _fit_own(_SameTrials(curve)))


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
def _fit_own(trials: _SameTrials) -> tuple[ModelFit, ...]:
    curve, nothing = trials.curve, Context({})
    return tuple(
        fit_model(model, [curve], nothing)[curve.key]
        for model in predicting_models()
        if model.per_curve
    )


def fit_model(model: Model, curves: Sequence[Curve], context: Context) -> dict[str, ModelFit]:
    """One fit a curve, by its key; each limit is left out of all curves of its workload at once.

    A model of one curve is given one.
    """
    try:
        fit = model.fit(curves, context)
    except CannotPredictError as error:
        return {curve.key: ModelFit(model, None, reason=str(error)) for curve in curves}
    held: dict[str, list[HeldOut]] = {curve.key: [] for curve in curves}
    reasons: dict[str, str] = {}
    for fold in limit_folds(curves):
        if not fold.test:
            continue
        try:
            part = model.fit(fold.training, context)
        except CannotPredictError:
            reason = "too few limits to leave one out"
            return {curve.key: ModelFit(model, fit, reason=reason) for curve in curves}
        for point in fold.test:
            try:
                held[point.curve.key].append(_held_out(model, part, point, context))
            except CannotPredictError as error:
                reasons[point.curve.key] = str(error)
    return {
        key: ModelFit(model, fit if found else None, tuple(found), reasons.get(key))
        for key, found in held.items()
    }


def _held_out(model: Model, fit: Fit, point: HeldOutPoint, context: Context) -> HeldOut:
    curve, limit = point.curve, point.limit_bytes
    found = model.predict(fit, unseen(curve), np.array([limit]), context)
    return HeldOut(
        limit_bytes=limit,
        predicted_s=float(found.slowdown[0]) * found.unlimited_s,
        measured_s=float(np.median(curve.seconds[curve.limit_bytes == limit])),
        inside=point.split == "limit-inside",
    )


def shared_errors(curves: Sequence[CurveFits]) -> dict[str, Errors]:
    """Each model's errors over the left-out limits of all curves that every model has errors on.

    A model without errors on any curve is left out.
    """
    names = list(dict.fromkeys(o.model.name for c in curves for o in c.fits if o.errors))
    shared = [c for c in curves if set(names) <= {one.model.name for one in c.fits if one.errors}]
    found = {
        name: [one for c in shared for o in c.fits if o.model.name == name for one in o.held_out]
        for name in names
    }
    return {name: errors_of(held) for name, held in found.items() if held}
