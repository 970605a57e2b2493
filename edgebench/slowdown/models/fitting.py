"""Every model fitted to every curve, with its errors at limits that were left out of the fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeVar

import numpy as np

from edgebench.errors import ResultsError
from edgebench.parallel import begun_in_parallel
from edgebench.slowdown.context import CannotPredictError, Context
from edgebench.slowdown.curves import Curve, by_engine
from edgebench.slowdown.models.base import Fit, Model, all_models

LEAST_LIMITS = 2
TOO_FEW_REMEDY = 'add limits to the scenario, as memory = {from = "100%", to = "25%", steps = 6}'
_Candidate = TypeVar("_Candidate")


@dataclass(frozen=True)
class HeldOutPoint:
    """A limit of a curve to be predicted. ``curve`` is whole: it holds the measured time."""

    curve: Curve
    limit_bytes: float
    split: str


@dataclass(frozen=True)
class Fold:
    """Curves to fit to (``training``), and points to predict then (``test``).

    ``left_out`` names what is not fitted to: a network, a family, a schedule, or which limits.
    """

    left_out: str
    training: tuple[Curve, ...]
    test: tuple[HeldOutPoint, ...]


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


#: What a fold tells of each limit left out: whose curve, and the prediction or why there is none.
_Predicted = list[tuple[str, HeldOut | str]]


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


def limit_folds(curves: Sequence[Curve]) -> Iterator[Fold]:
    """One fold a rank: of every workload, the limit of that rank is left out."""
    limits_of: dict[str, list[float]] = {}
    for curve in curves:
        limits_of.setdefault(curve.trials_key, []).extend(curve.limits)
    ranked = {key: sorted(set(limits)) for key, limits in limits_of.items()}
    for rank in range(max((len(limits) for limits in ranked.values()), default=0)):
        gone = {key: limits[rank] for key, limits in ranked.items() if rank < len(limits)}
        pairs = [(curve, gone.get(curve.trials_key)) for curve in curves]
        known = [curve if limit is None else curve.without(limit) for curve, limit in pairs]
        test = [_held_out_point(curve, limit) for curve, limit in pairs]
        yield Fold(
            left_out=f"limit {rank + 1}",
            training=tuple(curve for curve in known if len(curve.limits)),
            test=tuple(point for point in test if point),
        )


def _held_out_point(curve: Curve, limit: float | None) -> HeldOutPoint | None:
    if limit is None or limit not in curve.limits or len(curve.limits) < 2:
        return None
    inside = curve.limits[0] < limit < curve.limits[-1]
    return HeldOutPoint(curve, float(limit), "limit-inside" if inside else "limit-outside")


def fit_model(model: Model, curves: Sequence[Curve], context: Context) -> dict[str, ModelFit]:
    """One fit a curve, by its key; each limit is left out of all curves of its workload at once.

    A model of one curve is given one.
    """
    try:
        fit = model.fit(curves, context)
    except CannotPredictError as error:
        return {curve.key: ModelFit(model, None, reason=str(error)) for curve in curves}
    folds = [_predicted([model], fold, context) for fold in limit_folds(curves)]
    return _model_fits(model, fit, curves, [one for (one,) in folds])


def fit_models(
    models: Sequence[Model], curves: Sequence[Curve], context: Context
) -> dict[str, tuple[ModelFit, ...]]:
    """The same of several models of many curves: by a curve's key its fits, in their order.

    All models are fitted to a fold one after the other, for they learn the same from its curves.
    """
    whole = [_fit_or_reason(model, curves, context) for model in models]
    fitted = [model for model, fit in zip(models, whole, strict=True) if isinstance(fit, Fit)]
    folds = list(limit_folds(curves)) if fitted else []

    def predicted(number: int) -> list[_Predicted | None]:
        return _predicted(fitted, folds[number], context)

    with begun_in_parallel(predicted, range(len(folds))) as every:
        of_models = iter(zip(*every(), strict=True))
    found = [
        _model_fits(model, fit, curves, next(of_models, ()))
        if isinstance(fit, Fit)
        else {curve.key: ModelFit(model, None, reason=fit) for curve in curves}
        for model, fit in zip(models, whole, strict=True)
    ]
    return {curve.key: tuple(fits[curve.key] for fits in found) for curve in curves}


def _fit_or_reason(model: Model, curves: Sequence[Curve], context: Context) -> Fit | str:
    try:
        return model.fit(curves, context)
    except CannotPredictError as error:
        return str(error)


def _predicted(models: Sequence[Model], fold: Fold, context: Context) -> list[_Predicted | None]:
    """What each model predicts of a fold's limits; None if too few are left to fit it to."""
    found: list[_Predicted | None] = []
    for model in models if fold.test else ():
        try:
            part = model.fit(fold.training, context)
        except CannotPredictError:
            found.append(None)
        else:
            found.append([(p.curve.key, _held_out(model, part, p, context)) for p in fold.test])
    return found if fold.test else [[] for _ in models]


def _held_out(model: Model, fit: Fit, point: HeldOutPoint, context: Context) -> HeldOut | str:
    curve, limit = point.curve, point.limit_bytes
    try:
        found = model.predict(fit, curve.unseen(), np.array([limit]), context)
    except CannotPredictError as error:
        return str(error)
    return HeldOut(
        limit_bytes=limit,
        predicted_s=float(found.slowdown[0]) * found.unlimited_s,
        measured_s=float(np.median(curve.seconds[curve.limit_bytes == limit])),
        inside=point.split == "limit-inside",
    )


def _model_fits(
    model: Model, fit: Fit, curves: Sequence[Curve], folds: Sequence[_Predicted | None]
) -> dict[str, ModelFit]:
    """A model's fit with what it predicted in each fold."""
    held: dict[str, list[HeldOut]] = {curve.key: [] for curve in curves}
    reasons: dict[str, str] = {}
    for fold in folds:
        if fold is None:
            reason = "too few limits to leave one out"
            return {key: ModelFit(model, fit, reason=reason) for key in held}
        for key, one in fold:
            if isinstance(one, HeldOut):
                held[key].append(one)
            else:
                reasons[key] = one
    return {
        key: ModelFit(model, fit if found else None, tuple(found), reasons.get(key))
        for key, found in held.items()
    }


def nearest(
    candidates: Iterable[_Candidate], error: Callable[[_Candidate], float | None]
) -> _Candidate | None:
    """The candidate with the least error; of equals the first. None if none has an error."""
    known = [(found, one) for one in candidates if (found := error(one)) is not None]
    return min(known, key=lambda pair: pair[0])[1] if known else None


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
    if context:
        shared = [model for model in all_models() if not model.per_curve]
        fits: dict[str, tuple[ModelFit, ...]] = {}
        for own in by_engine(usable).values():
            fits |= fit_models(shared, own, context)
        found = [replace(one, fits=(*one.fits, *fits[one.curve.key])) for one in found]
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
        fit_model(model, [curve], nothing)[curve.key] for model in all_models() if model.per_curve
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
