"""Predictions at any limit: time, slowdown, viability, and the layers that take the added time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgebench.slowdown.context import CannotPredictError, DeviceData
from edgebench.slowdown.curves import Curve, FloatArray, by_engine
from edgebench.slowdown.models.base import CurvePrediction
from edgebench.slowdown.models.fitted import FittedModels, ModelSource, WorkloadModel
from edgebench.slowdown.models.own_memory import fit_own_memory
from edgebench.slowdown.query import QueriedWorkload, limit_in_bytes
from edgebench.slowdown.simulator.profile import (
    AddedLayerTime,
    added_layer_times,
    device_with_demand,
    workload_for,
)
from edgebench.slowdown.viability import CONFIDENT, LearntViability, WorkloadViability, mapped_bytes

#: A round that is slower by no more than this factor is not slowed.
UNSLOWED = 1.1
#: The limit is raised by this factor for ``saved_s``.
MORE = 1.1
#: Where the least limit within a slowdown is looked for, as shares of demand.
_SEARCHED = np.geomspace(0.1, 1.5, 200)
#: How far beyond the limits of trials a limit may be before it counts as extrapolated.
_SLACK = 1.005


@dataclass(frozen=True)
class PhaseTime:
    """One phase at one limit, in seconds a pass; ``low_s`` to ``high_s`` holds 90 % of trials.

    ``saved_s`` is what a tenth more memory saves.
    """

    network: str
    phase: str
    seconds: float
    low_s: float | None
    high_s: float | None
    slowdown: float
    unlimited_s: float
    saved_s: float


@dataclass(frozen=True)
class LimitPrediction:
    """One limit: whether a trial finishes there, and how long each phase then takes.

    ``probability`` is that it finishes; None if unknown. ``extrapolated``: the limit lies outside
    the range of limits of all trials that the model was fitted to.
    """

    limit_bytes: float
    share: float | None
    probability: float | None
    extrapolated: bool
    phases: tuple[PhaseTime, ...]
    layers: tuple[AddedLayerTime, ...]

    @property
    def viable(self) -> bool:
        """Whether it is expected to finish."""
        return self.probability is None or self.probability >= 0.5


@dataclass(frozen=True)
class Prediction:
    """All that is predicted of a workload.

    Attributes:
        subject: which.
        model: the name of the model that predicts times.
        demand_bytes: measured, or simulated if there is no unlimited trial; None if unknown.
        least_viable_bytes: the limit at which every second trial finishes, ``sure_bytes`` nine of
            ten. 0 where swap can hold all of it; None if unknown.
        unslowed_bytes: from this limit up a round is slower by no more than 10 %.
        fitted: shares of demand between which there are trials; None without any.
        at: the requested limits.
    """

    subject: QueriedWorkload
    model: str
    demand_bytes: float | None
    least_viable_bytes: float | None
    sure_bytes: float | None
    unslowed_bytes: float | None
    fitted: tuple[float, float] | None
    at: tuple[LimitPrediction, ...]


class Predictor:
    """Predicts workloads from a device's data; fitted once."""

    def __init__(
        self, data: DeviceData, viability: LearntViability, models: ModelSource | None = None
    ) -> None:
        """``models`` are stored fits; None fits all models to the data."""
        self._data = data
        self._viability = viability
        self._models = models or FittedModels(data)

    def predict(self, subject: QueriedWorkload, limits: Sequence[str]) -> Prediction:
        """What happens at these limits, written as ``200M`` or ``75%``.

        Raises:
            ResultsError: no model can predict it.
            UsageError: a share of an unknown demand, or no limit at all.
        """
        model = self._models.for_workload(subject.curves, subject.network)
        demand = self._demand(subject)
        sizes = [limit_in_bytes(limit, demand) for limit in limits]
        model.check(sizes, subject.network)
        edge = self._edge(subject, demand, subject.settings.get("swap_bytes"))
        fitted = self._fitted(subject)
        viable = edge.least_bytes(0.5) if edge else None
        unslowed = self._least_within(model, subject, UNSLOWED)
        return Prediction(
            subject=subject,
            model=model.name,
            demand_bytes=demand,
            least_viable_bytes=viable,
            sure_bytes=edge.least_bytes(CONFIDENT) if edge else None,
            # A limit at which trials are killed is not "not slowed".
            unslowed_bytes=None if unslowed is None else max(unslowed, viable or 0),
            fitted=fitted,
            at=tuple(
                LimitPrediction(
                    limit_bytes=size,
                    share=size / demand if demand else None,
                    probability=edge.probability(size) if edge else None,
                    extrapolated=_is_outside(size, demand, fitted),
                    phases=tuple(_phase_time(model, curve, size) for curve in subject.curves),
                    layers=self._layers(subject, size),
                )
                for size in sizes
            ),
        )

    def predict_curves(
        self, subject: QueriedWorkload, limit_bytes: FloatArray
    ) -> list[CurvePrediction]:
        """Each of the workload's curves at these limits.

        Raises:
            ResultsError: no model can predict it.
        """
        model = self._models.for_workload(subject.curves, subject.network)
        return [model.predict(curve, limit_bytes) for curve in subject.curves]

    def least_within(self, subject: QueriedWorkload, slowdown: float, phase: str) -> float | None:
        """The limit from which up a phase is slower by no more than a factor, in bytes.

        Raises:
            ResultsError: no model can predict it.
        """
        model = self._models.for_workload(subject.curves, subject.network)
        return self._least_within(model, subject, slowdown, phase)

    def least_viable(self, subject: QueriedWorkload, swap_bytes: float | None) -> float | None:
        """The limit at which every second trial finishes with so much swap (0 if swap takes all).

        None if it is unknown.
        """
        edge = self._edge(subject, self._demand(subject), swap_bytes)
        return edge.least_bytes(0.5) if edge else None

    def _least_within(
        self, model: WorkloadModel, subject: QueriedWorkload, slowdown: float, phase: str = "total"
    ) -> float | None:
        demand = self._demand(subject)
        curve = next((c for c in subject.curves if c.phase == phase), None)
        if demand is None or curve is None:
            return None
        limits = _SEARCHED * demand
        limits = limits[limits >= (model.least_bytes or 0.0)]
        # From that limit up none is slower: a model need not fall all the way.
        beyond = np.flatnonzero(model.predict(curve, limits).slowdown > slowdown)
        enough = limits[beyond[-1] + 1 :] if len(beyond) else limits
        return float(enough[0]) if len(enough) else None

    def _demand(self, subject: QueriedWorkload) -> float | None:
        known = [c.demand_bytes for c in subject.curves if c.demand_bytes is not None]
        if known:
            return known[0]
        own = fit_own_memory(self._data.curves, self._data.context)
        return own.with_demand(subject.curves[0], self._data.context).demand_bytes

    def _edge(
        self, subject: QueriedWorkload, demand: float | None, swap_bytes: float | None
    ) -> WorkloadViability | None:
        """The limit at which it stops finishing; None if its swap or demand is unknown."""
        settings, tables = subject.settings, self._data.context.tables
        swap = 0.0 if self._data.swap_kind == "none" else swap_bytes
        if swap is None or demand is None:
            return None
        mapped = 0.0
        if settings.get("loader") == "mmap":
            mapped = mapped_bytes(tables, subject.network, str(settings.get("schedule")))
        return WorkloadViability(self._viability.of(subject.curves), float(swap), demand - mapped)

    def _fitted(self, subject: QueriedWorkload) -> tuple[float, float] | None:
        """Shares of demand between which trials were made: the subject's own, else all."""
        like = by_engine(self._data.curves).get(subject.curves[0].engine, [])
        curves = subject.curves if subject.was_run else like
        shares = [float(m) / c.demand_bytes for c in curves if c.demand_bytes for m in c.limits]
        return (min(shares), max(shares)) if shares else None

    def _layers(self, subject: QueriedWorkload, limit_bytes: float) -> tuple[AddedLayerTime, ...]:
        curve, context = subject.curves[0], self._data.context
        if context.calibration is None:
            return ()
        try:
            workload, device = workload_for(curve, context), device_with_demand(curve, context)
        except CannotPredictError:
            return ()
        return tuple(added_layer_times(workload, device, limit_bytes))


def _phase_time(model: WorkloadModel, curve: Curve, limit_bytes: float) -> PhaseTime:
    found = model.predict(curve, np.array([limit_bytes, limit_bytes * MORE]))
    here, wider = found.slowdown * found.unlimited_s
    interval = found.interval
    return PhaseTime(
        network=curve.network,
        phase=curve.phase,
        seconds=float(here),
        low_s=float(interval[0][0]) * found.unlimited_s if interval else None,
        high_s=float(interval[1][0]) * found.unlimited_s if interval else None,
        slowdown=float(found.slowdown[0]),
        unlimited_s=found.unlimited_s,
        saved_s=float(here - wider),
    )


def _is_outside(
    limit_bytes: float, demand: float | None, fitted: tuple[float, float] | None
) -> bool:
    if demand is None or fitted is None:
        return True
    share = limit_bytes / demand
    # Above the demand no trial is needed: nothing is limited there.
    return share < fitted[0] / _SLACK or fitted[1] * _SLACK < share < 1
