"""Every model fitted to every curve, with its errors at limits left out; the nearest one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeVar

from edgebench.errors import ResultsError
from edgebench.slowdown.context import Context
from edgebench.slowdown.curves import Curve, by_engine
from edgebench.slowdown.models.base import all_models
from edgebench.slowdown.models.held_out import (
    Errors,
    ModelFit,
    errors_of,
    fit_model,
    fit_models,
)

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
