"""What predicts a workload: a curve through its own points; without any what is simulated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from edgebench.errors import ResultsError
from edgebench.slowdown.context import CannotPredictError, Context, DeviceData
from edgebench.slowdown.curves import Curve, FloatArray, by_engine
from edgebench.slowdown.models.base import CurveModel, CurvePrediction
from edgebench.slowdown.models.fitting import fit_interpolated, fit_moved
from edgebench.slowdown.models.interpolated import (
    Interpolated,
    bracket,
    bracket_reach,
    measured_points,
)
from edgebench.slowdown.models.intervals import with_interval
from edgebench.slowdown.models.simulated import KNOWN_REACH, SIMULATED, Learnt, Simulated, learn
from edgebench.units import format_size

NO_MODEL_REMEDY = "edgebench calibrate, and then some networks: edgebench run quickstart"


@dataclass(frozen=True)
class MovedModel:
    """What is simulated of a device, moved through the points that were measured of the curve."""

    device: DeviceCurves
    name: str = SIMULATED

    def predict(self, curve: Curve, limit_bytes: FloatArray) -> CurvePrediction:
        """The curve at these limits."""
        unlimited_s, shape = self.device.learnt.predict(curve, self.device.context)
        points = measured_points(curve)
        bounds = bracket(points, bracket_reach(curve), limit_bytes)
        moved = shape.through(*points)
        return with_interval(unlimited_s, moved, limit_bytes, KNOWN_REACH, bounds)


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
    """Gives the model for a workload: of what ran here, or for another storage."""

    def for_workload(self, curves: Sequence[Curve], name: str) -> WorkloadModel:
        """The model for a workload's curves; ``name`` is the workload's in an error.

        Raises:
            ResultsError: no model can predict all of them, with the reasons.
        """


class DeviceCurves:
    """What a device's curves of one engine show; learnt once, when it is asked for."""

    def __init__(self, curves: Sequence[Curve], context: Context) -> None:
        self.curves, self.context = curves, context

    @cached_property
    def learnt(self) -> Learnt:
        """Unlimited times, own memory and factors.

        Raises:
            CannotPredictError: the device is not calibrated, and its trials show too little.
        """
        return learn(self.curves, self.context)

    def moved_error(self, curve: Curve) -> float | None:
        """Of the simulation at the curve's limits, each left out; None if it can't be simulated."""
        try:
            return fit_moved(curve, self.learnt, self.context).log_ratio
        except CannotPredictError:
            return None


class FittedModels:
    """The models of a device's data; of each engine's curves apart."""

    def __init__(self, data: DeviceData) -> None:
        self._of_engine = {
            engine: DeviceCurves(curves, data.context)
            for engine, curves in by_engine(data.curves).items()
        }
        self._bare = DeviceCurves((), data.context)

    def for_workload(self, curves: Sequence[Curve], name: str) -> WorkloadModel:
        """The curves' own points; of a workload without any the simulation.

        Raises:
            ResultsError: none can predict it, with the reasons.
        """
        # A calibration alone can be enough.
        device = self._of_engine.get(curves[0].engine, self._bare)
        if own := _own_models(curves, device):
            return own
        try:
            learnt = device.learnt
            for curve in curves:
                learnt.predict(curve, device.context)
        except CannotPredictError as error:
            if above := _above_demand(curves):
                return above
            what = f"no model can predict {name}: {error}"
            raise ResultsError(what, remedy=NO_MODEL_REMEDY) from None
        model = Simulated(learnt, device.context)
        return WorkloadModel({curve.key: model for curve in curves})


def _above_demand(curves: Sequence[Curve]) -> WorkloadModel | None:
    """What trials at limits above the demand tell; None if there are others, or none."""
    try:
        fitted = {curve.key: Interpolated.above_demand(curve) for curve in curves}
    except CannotPredictError:
        return None
    return WorkloadModel(fitted, max(curve.demand_bytes or 0.0 for curve in curves))


def _own_models(curves: Sequence[Curve], device: DeviceCurves) -> WorkloadModel | None:
    """The nearest of the models that meet a workload's points; None if it has too few limits.

    The nearest to its own limits, each left out in turn.
    """
    found = {}
    own_errors, moved_errors = [], []
    for curve in curves:
        if not len(curve.limits) or (own := fit_interpolated(curve)).fitted is None:
            return None
        found[curve.key] = own.fitted
        own_errors.append(own.log_ratio)
        moved_errors.append(device.moved_error(curve))
    if not _is_less(moved_errors, own_errors):
        return WorkloadModel(found)
    return WorkloadModel({curve.key: MovedModel(device) for curve in curves})


def _is_less(some: Sequence[float | None], others: Sequence[float | None]) -> bool:
    """Whether all of some are known, and less in the mean than others, as far as these are."""
    known = [one for one in some if one is not None]
    if len(known) < len(some):
        return False
    beside = [one for one in others if one is not None]
    return len(beside) < len(others) or sum(known) < sum(beside)
