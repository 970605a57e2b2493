"""Fitted models, ready to predict: the nearest one is chosen for each workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from edgebench.errors import ResultsError
from edgebench.slowdown.context import CannotPredictError, Context, DeviceData
from edgebench.slowdown.curves import Curve, FloatArray, by_engine
from edgebench.slowdown.kept_fits import kept_fit
from edgebench.slowdown.models.base import CurvePrediction, Fit, Model, all_models
from edgebench.slowdown.models.fitting import fit_curve, nearest
from edgebench.slowdown.models.interpolated import Interpolated, fit_above_demand
from edgebench.units import format_size

NO_MODEL_REMEDY = "edgebench calibrate, and then some networks: edgebench run quickstart"


class CurveModel(Protocol):
    """What predicts one curve: ``error`` is its error on it, None if unknown."""

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def error(self) -> float | None: ...  # noqa: D102

    @property
    def meets_points(self) -> bool: ...  # noqa: D102

    def predict(self, curve: Curve, limit_bytes: FloatArray) -> CurvePrediction: ...  # noqa: D102


@dataclass(frozen=True)
class FittedModel:
    """A model with its fit and context; ``error`` is its error on one curve, None if unknown."""

    model: Model
    fit: Fit
    context: Context
    error: float | None = None

    @property
    def name(self) -> str:
        """The model's."""
        return self.model.name

    @property
    def meets_points(self) -> bool:
        """Whether it passes by no point that was measured."""
        return self.model.meets_points

    def predict(self, curve: Curve, limit_bytes: FloatArray) -> CurvePrediction:
        """The curve at these limits.

        Raises:
            CannotPredictError: the model lacks something.
        """
        return self.model.predict(self.fit, curve, limit_bytes, self.context)

    def reason_against(self, curves: Sequence[Curve]) -> str | None:
        """Why it can't predict all of these curves; None if it can."""
        try:
            for curve in curves:
                self.predict(curve, curve.limit_bytes[:0])
        except CannotPredictError as error:
            return f"{self.model.name}: {error}"
        return None


@dataclass(frozen=True)
class WorkloadModel:
    """What predicts a workload: a model for each of its curves, by the curve's key.

    ``least_bytes`` is the limit from which up it holds; None if it holds at any.
    """

    fitted: Mapping[str, CurveModel]
    least_bytes: float | None = None

    @property
    def name(self) -> str:
        """The model's; that of the last curve, which is the round's, if they differ."""
        return [one.name for one in self.fitted.values()][-1]

    @property
    def error(self) -> float | None:
        """The mean over the curves; None if one of them is unknown."""
        errors = [one.error for one in self.fitted.values()]
        known = [error for error in errors if error is not None]
        return float(np.mean(known)) if len(known) == len(errors) else None

    @property
    def meets_points(self) -> bool:
        """Whether it passes by no point that was measured."""
        return all(one.meets_points for one in self.fitted.values())

    def check(self, limit_bytes: Sequence[float], name: str) -> None:
        """That it holds at these limits; ``name`` is the workload's in an error.

        Raises:
            ResultsError: one is below ``least_bytes``.
        """
        if self.least_bytes is not None and min(limit_bytes) < self.least_bytes:
            least = format_size(self.least_bytes)
            raise ResultsError(
                f"no model can predict {name}: it ran at no limit below its demand, {least}",
                remedy=NO_MODEL_REMEDY,
            )

    def tells(self, curve: Curve) -> bool:
        """Whether it predicts this curve of the workload's."""
        return curve.key in self.fitted

    def predict(self, curve: Curve, limit_bytes: FloatArray) -> CurvePrediction:
        """One of the workload's curves at these limits."""
        return self.fitted[curve.key].predict(curve, limit_bytes)


class ModelSource(Protocol):
    """Gives the model for a workload: fitted now, or read from stored fits."""

    def for_workload(self, curves: Sequence[Curve], name: str) -> WorkloadModel:
        """The model for a workload's curves; ``name`` is the workload's in an error.

        Raises:
            ResultsError: no model can predict all of them, with the reasons.
        """


class FittedModels:
    """All models, fitted to a device's data; to the curves of each engine apart."""

    def __init__(self, data: DeviceData) -> None:
        self._context = data.context
        self._of_engine = {
            engine: _fitted(curves, data.context)
            for engine, curves in by_engine(data.curves).items()
        }

    def for_workload(self, curves: Sequence[Curve], name: str) -> WorkloadModel:
        """The nearest model; for a workload without trials below limits the least simple one.

        Raises:
            ResultsError: none can predict it, with the reasons.
        """
        # A calibration alone can be enough.
        fitted, unfitted = self._of_engine.get(curves[0].engine) or _fitted([], self._context)
        found, reasons = of_many_curves(fitted, curves)
        own = _own_models(curves)
        if own:
            return nearest_for_workload(own, [one for one in found if one.meets_points])
        if found:
            return found[-1]
        if above := _above_demand(curves):
            return above
        why = "; ".join(dict.fromkeys([*reversed(unfitted), *reasons]))
        raise ResultsError(f"no model can predict {name}: {why}", remedy=NO_MODEL_REMEDY)


class OwnModels:
    """The models of single curves. All models of the device are fitted only where one has none."""

    def __init__(self, data: DeviceData) -> None:
        self._data = data

    def for_workload(self, curves: Sequence[Curve], name: str) -> WorkloadModel:
        """The curves' own models; where a curve has none, as :class:`FittedModels`.

        Raises:
            ResultsError: none can predict it, with the reasons.
        """
        return _own_models(curves) or self._every.for_workload(curves, name)

    @cached_property
    def _every(self) -> FittedModels:
        return FittedModels(self._data)


def _fitted(curves: Sequence[Curve], context: Context) -> tuple[list[FittedModel], list[str]]:
    """All models of many curves that can be fitted to these; and why the others can't."""
    found, reasons = [], []
    for model in all_models():
        if model.per_curve:
            continue
        try:
            found.append(FittedModel(model, kept_fit(model, curves, context), context))
        except CannotPredictError as error:
            reasons.append(f"{model.name}: {error}")
    return found, reasons


def of_many_curves(
    fitted: Sequence[FittedModel], curves: Sequence[Curve]
) -> tuple[list[WorkloadModel], list[str]]:
    """The models fitted to many curves that can predict these; and why the others can't."""
    against = [(one, one.reason_against(curves)) for one in fitted]
    found = [
        WorkloadModel(
            {c.key: replace(one, error=one.model.left_out_error(one.fit, c)) for c in curves}
        )
        for one, reason in against
        if reason is None
    ]
    return found, [reason for _, reason in against if reason is not None]


def nearest_for_workload(own: WorkloadModel, others: Sequence[WorkloadModel]) -> WorkloadModel:
    """The nearest to the curves' limits left out; the curves' own models if none has errors."""
    return nearest([own, *others], lambda one: one.error) or own


def _above_demand(curves: Sequence[Curve]) -> WorkloadModel | None:
    """What trials at limits above the demand tell; None if there are others, or none."""
    nothing = Context({})
    try:
        fits = {curve.key: fit_above_demand(curve) for curve in curves}
    except CannotPredictError:
        return None
    fitted = {key: FittedModel(Interpolated(), fit, nothing) for key, fit in fits.items()}
    return WorkloadModel(fitted, max(curve.demand_bytes or 0.0 for curve in curves))


def _own_models(curves: Sequence[Curve]) -> WorkloadModel | None:
    """The model of each curve by itself; None if one of them has too few limits."""
    found, nothing = {}, Context({})
    for curve in curves:
        if not len(curve.limits):
            return None
        own = fit_curve(curve).own[-1]
        try:
            fit = own.fit or own.model.fit([curve], nothing)
        except CannotPredictError:
            return None
        found[curve.key] = FittedModel(own.model, fit, nothing, own.log_ratio)
    return WorkloadModel(found)
