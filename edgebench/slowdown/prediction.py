"""All that is predicted of a workload: its answers at limits, and where it begins to be slow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from edgebench.errors import ResultsError
from edgebench.slowdown.answer import Answer, Measured, MeasuredLimit, WorkloadAnswers
from edgebench.slowdown.computed import Computed
from edgebench.slowdown.kills import MEASURED_MARGIN, TABLE_MARGIN, Room, mapped_bytes
from edgebench.slowdown.models.base import CurvePrediction
from edgebench.slowdown.query import QueriedWorkload, limit_in_bytes
from edgebench.slowdown.workload import CannotPredictError, least_read_bytes

if TYPE_CHECKING:
    from edgebench.results.miss_curve import MissCurve as Counted
    from edgebench.slowdown.context import Context, DeviceData
    from edgebench.slowdown.curves import FloatArray

#: A round that is slower by no more than this factor is not slowed.
UNSLOWED = 1.1
#: Of what a steady round uses, the part that a probe leaves it.
_PROBED = 0.8
NO_MODEL_REMEDY = "edgebench calibrate, and then some networks: edgebench run quickstart"


@dataclass(frozen=True)
class Prediction:
    """All that is predicted of a workload.

    Args:
        subject: which.
        needs_bytes: measured, or as its layer table says; None if unknown.
        needs_measured: whether it was measured.
        knee_bytes: where steady rounds begin to read again; None where that was not counted.
        knee_between: the limits around it.
        least_viable_bytes: the limit that just holds it beside its swap; 0: swap takes all.
        unslowed_bytes: from this limit up a round is slower by no more than 10 %.
        at: the requested limits.
    """

    subject: QueriedWorkload
    needs_bytes: float | None
    needs_measured: bool
    knee_bytes: float | None
    knee_between: tuple[int, int] | None
    least_viable_bytes: float | None
    unslowed_bytes: float | None
    at: tuple[Answer, ...]


class Predictor:
    """Predicts workloads from a device's data."""

    def __init__(
        self,
        data: DeviceData,
        measured: Measured | None = None,
        counted: Mapping[str, Counted] | None = None,
        there: Context | None = None,
    ) -> None:
        """Nothing is computed before a limit is asked for.

        Args:
            data: of one device, kind of swap and storage.
            measured: what trials of the workloads showed.
            counted: by a workload's id the bytes that its rounds were counted to read.
            there: the context of another storage that is asked about; None: the same.
        """
        self._data, self._there = data, there
        self._measured, self._counted = measured or {}, counted or {}
        self._computed = Computed(data.curves, data.context, there, counted)

    def predict(self, subject: QueriedWorkload, limits: Sequence[str]) -> Prediction:
        """Return what happens at these limits, written as ``200M`` or ``75%``.

        Raises:
            ResultsError: no formula tells it, and it was not measured.
            UsageError: a share of an unknown demand, or no limit at all.
        """
        needs = self._needs(subject)
        sizes = [limit_in_bytes(limit, needs) for limit in limits]
        answers = self._answers(subject, needs)
        at = tuple(answers.at(size, limit) for size, limit in zip(sizes, limits, strict=True))
        if not (subject.was_run or subject.was_killed) and (why := answers.why_not()):
            what = f"{subject.network} can't be predicted: {why}"
            raise ResultsError(what, remedy=NO_MODEL_REMEDY)
        counted = self._counted.get(subject.workload)
        room = self._room(subject, needs)
        return Prediction(
            subject=subject,
            needs_bytes=needs,
            needs_measured=any(curve.demand_bytes is not None for curve in subject.curves),
            knee_bytes=counted.knee_bytes if counted else None,
            knee_between=counted.knee_between if counted else None,
            least_viable_bytes=room.least_bytes if room else None,
            unslowed_bytes=answers.unslowed_bytes(UNSLOWED),
            at=at,
        )

    def measured(self, subject: QueriedWorkload) -> Sequence[MeasuredLimit]:
        """Return the limits that were measured of a workload, ascending."""
        return self._measured.get((str(subject.settings.get("sweep")), subject.workload), ())

    def predict_curves(
        self, subject: QueriedWorkload, limit_bytes: FloatArray
    ) -> list[CurvePrediction]:
        """Return each of the workload's curves at these limits; NaN where nothing is known."""
        answers = self._answers(subject, self._needs(subject))
        at = [answers.at(float(size)) for size in limit_bytes]
        found = []
        for curve in subject.curves:
            times = [
                next(
                    (t for t in one.phases if (t.network, t.phase) == (curve.network, curve.phase)),
                    None,
                )
                for one in at
            ]
            rows = [
                (t.slowdown, t.slowdown_low, t.slowdown_high) if t else (None,) * 3 for t in times
            ]
            middle, low, high = np.array(rows, dtype=np.float64).T
            unlimited_s = next((t.unlimited_s for t in times if t), 0.0)
            found.append(CurvePrediction(unlimited_s, middle, (low, high)))
        return found

    def probed_bytes(self, subject: QueriedWorkload) -> float | None:
        """Return a limit that should slow a workload; None where no formula tells of it."""
        curve = next((one for one in subject.curves if one.phase == "total"), None)
        try:
            found = self._computed.phase(curve, subject.curves) if curve else None
        except CannotPredictError:
            return None
        return _PROBED * float(found.misses.limit_bytes[-1]) if found else None

    def _answers(self, subject: QueriedWorkload, needs: float | None) -> WorkloadAnswers:
        tables, settings = self._data.context.tables, subject.settings
        context = self._there or self._data.context
        known = context.calibration or context.assumed
        held = known.held if known else None
        rate = held and (
            held.file_bytes_per_s if settings.get("loader") == "mmap" else held.swap_bytes_per_s
        )

        def least_s(limit_bytes: float) -> float:
            read = least_read_bytes(settings, tables, limit_bytes)
            return read / rate.high if rate else 0.0

        return WorkloadAnswers(
            subject.curves,
            self.measured(subject),
            needs,
            self._room(subject, needs),
            lambda curve: self._computed.phase(curve, subject.curves),
            least_s,
            moved=self._there is not None,
        )

    def _needs(self, subject: QueriedWorkload) -> float | None:
        known = [c.demand_bytes for c in subject.curves if c.demand_bytes is not None]
        if known:
            return known[0]
        try:
            return self._computed.needs_bytes(subject.curves[0])
        except CannotPredictError:
            return None

    def _room(self, subject: QueriedWorkload, needs: float | None) -> Room | None:
        """Return what has to fit, and its swap; None if its swap or what it needs is unknown."""
        settings = subject.settings
        swap = 0.0 if self._data.swap_kind == "none" else settings.get("swap_bytes")
        if swap is None or needs is None:
            return None
        mapped = 0.0
        if settings.get("loader") == "mmap":
            tables = self._data.context.tables
            mapped = mapped_bytes(tables, subject.network, settings)
        known = any(curve.demand_bytes is not None for curve in subject.curves)
        return Room(needs - mapped, float(swap), MEASURED_MARGIN if known else TABLE_MARGIN)
