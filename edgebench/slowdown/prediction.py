"""All that is predicted of a workload: its answers at limits, and where it begins to be slow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from edgebench.errors import ResultsError
from edgebench.slowdown.answer import Answer, Measured, MeasuredLimit, WorkloadAnswers
from edgebench.slowdown.context import CannotPredictError, DeviceData
from edgebench.slowdown.curves import FloatArray, by_engine
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
#: Where the least limit within a slowdown is looked for, as shares of demand.
_SEARCHED = np.geomspace(0.1, 1.5, 200)
#: How far beyond the limits of trials a limit may be before it counts as extrapolated.
_SLACK = 1.005


@dataclass(frozen=True)
class Prediction:
    """All that is predicted of a workload.

    Attributes:
        subject: which.
        model: the name of the model that predicts times; None where all of them were measured.
        demand_bytes: measured, or simulated if there is no unlimited trial; None if unknown.
        least_viable_bytes: the limit at which every second trial finishes, ``sure_bytes`` nine of
            ten. 0 where swap can hold all of it; None if unknown.
        unslowed_bytes: from this limit up a round is slower by no more than 10 %.
        fitted: shares of demand between which there are trials; None without any.
        at: the requested limits.
    """

    subject: QueriedWorkload
    model: str | None
    demand_bytes: float | None
    least_viable_bytes: float | None
    sure_bytes: float | None
    unslowed_bytes: float | None
    fitted: tuple[float, float] | None
    at: tuple[Answer, ...]


class Predictor:
    """Predicts workloads from a device's data; fitted once."""

    def __init__(
        self,
        data: DeviceData,
        viability: LearntViability,
        models: ModelSource | None = None,
        measured: Measured | None = None,
    ) -> None:
        """Models are fitted when the first limit is asked for that was not measured.

        Args:
            data: of one device, kind of swap and storage.
            viability: which limits kill.
            models: those for another storage; None fits models to the data.
            measured: what trials of the workloads showed; None: nothing is known.
        """
        self._data = data
        self._viability = viability
        self._given = models
        self._measured = measured or {}

    @cached_property
    def _models(self) -> ModelSource:
        return self._given or FittedModels(self._data)

    def predict(self, subject: QueriedWorkload, limits: Sequence[str]) -> Prediction:
        """What happens at these limits, written as ``200M`` or ``75%``.

        Raises:
            ResultsError: no model can predict it, and it was not measured.
            UsageError: a share of an unknown demand, or no limit at all.
        """
        demand = self._demand(subject)
        sizes = [limit_in_bytes(limit, demand) for limit in limits]
        edge = self._edge(subject, demand, subject.settings.get("swap_bytes"))
        fitted = self._fitted(subject)
        model = _OneModel(self._models_of, subject)
        answers = WorkloadAnswers(
            subject.curves,
            self.measured(subject),
            demand,
            edge,
            model.get,
            lambda size: _is_outside(size, demand, fitted),
        )
        at = tuple(
            answers.at(size, limit, self._layers(subject, size))
            for size, limit in zip(sizes, limits, strict=True)
        )
        viable, sure = answers.least_bytes(0.5), answers.least_bytes(CONFIDENT)
        if model.found:
            unslowed = self._least_within(model.found, subject, UNSLOWED)
        else:
            unslowed = answers.unslowed_bytes(UNSLOWED)
        finished = [float(c.limits[0]) for c in subject.curves if len(c.limits)]
        tightest = min(finished, default=0.0)
        return Prediction(
            subject=subject,
            model=model.found.name if model.found else None,
            demand_bytes=demand,
            least_viable_bytes=viable,
            sure_bytes=None if sure is None else max(sure, viable or 0.0),
            # Limits at which trials are killed, or tighter than all trials, are not "not slowed".
            unslowed_bytes=None if unslowed is None else max(unslowed, viable or 0, tightest),
            fitted=fitted,
            at=at,
        )

    def measured(self, subject: QueriedWorkload) -> Sequence[MeasuredLimit]:
        """The limits that were measured of a workload, ascending."""
        return self._measured.get((str(subject.settings.get("sweep")), subject.workload), ())

    def _models_of(self, subject: QueriedWorkload) -> WorkloadModel:
        return self._models.for_workload(subject.curves, subject.network)

    def predict_curves(
        self, subject: QueriedWorkload, limit_bytes: FloatArray
    ) -> list[CurvePrediction]:
        """Each of the workload's curves at these limits.

        Raises:
            ResultsError: no model can predict it.
        """
        model = self._models_of(subject)
        return [model.predict(curve, limit_bytes) for curve in subject.curves]

    def least_within(self, subject: QueriedWorkload, slowdown: float) -> float | None:
        """The limit from which up a round is slower by no more than a factor, in bytes.

        Raises:
            ResultsError: no model can predict it.
        """
        return self._least_within(self._models_of(subject), subject, slowdown)

    def least_viable(self, subject: QueriedWorkload, swap_bytes: float | None) -> float | None:
        """The limit at which every second trial finishes with so much swap (0 if swap takes all).

        None if it is unknown.
        """
        edge = self._edge(subject, self._demand(subject), swap_bytes)
        return edge.least_bytes(0.5) if edge else None

    def _least_within(
        self, model: WorkloadModel, subject: QueriedWorkload, slowdown: float
    ) -> float | None:
        demand = self._demand(subject)
        curve = next((c for c in subject.curves if c.phase == "total"), None)
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


class _OneModel:
    """A workload's model, chosen once it is needed."""

    def __init__(
        self, choose: Callable[[QueriedWorkload], WorkloadModel], subject: QueriedWorkload
    ) -> None:
        self._choose, self._subject = choose, subject
        self.found: WorkloadModel | None = None
        self._reason: ResultsError | None = None

    def get(self) -> WorkloadModel | None:
        """The model; None where nothing tells times, but trials tell which limits kill.

        Raises:
            ResultsError: no model can predict it, and no trial ran below a limit.
        """
        if self.found is None and self._reason is None:
            try:
                self.found = self._choose(self._subject)
            except ResultsError as error:
                self._reason = error
        if self._reason and not self._subject.was_killed:
            raise self._reason
        return self.found


def _is_outside(
    limit_bytes: float, demand: float | None, fitted: tuple[float, float] | None
) -> bool:
    if demand is None or fitted is None:
        return True
    share = limit_bytes / demand
    # Above the demand no trial is needed: nothing is limited there.
    return share < fitted[0] / _SLACK or fitted[1] * _SLACK < share < 1
