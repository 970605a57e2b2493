"""Predictions for another storage of the measured device, on which nothing was run.

What a limit adds to a steady round follows from the bytes that its rounds were counted to read
(:mod:`~edgebench.slowdown.counted`), else from those that are simulated. The interval of what is
simulated is :data:`WIDER` times that of the same errors on the storage that was measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from edgebench.errors import ResultsError
from edgebench.slowdown.context import CannotPredictError, DeviceData
from edgebench.slowdown.counted import (
    CountedModel,
    counted_models,
    counted_rounds,
    storage_costs,
)
from edgebench.slowdown.curves import Curve, by_engine
from edgebench.slowdown.models.fitted import WorkloadModel
from edgebench.slowdown.models.simulated import Simulated, learn

if TYPE_CHECKING:
    from edgebench.boards.storage import StorageSpeed
    from edgebench.results.miss_curve import MissCurve

#: An interval's reach (a logarithm), as a multiple of that on the measured storage.
WIDER = 2.0
_CALIBRATE = "measure the constants first: edgebench calibrate"


def data_at(here: DeviceData, storage: StorageSpeed) -> DeviceData:
    """What is known of the device with its storage held to another speed: its unlimited times.

    Raises:
        ResultsError: it was not calibrated, and no trial tells the runtime's footprint.
        MachineError: requests are held, and how many bytes one has was not measured.
    """
    known = here.context.calibration or here.context.assumed
    if known is None:
        what = f"no results with storage {storage.label} here, and no constants to compute them"
        raise ResultsError(what, remedy=_CALIBRATE)
    context = replace(here.context, calibration=replace(known, held=None).held_to(storage))
    curves = tuple(curve.unseen() for curve in here.curves)
    return DeviceData(here.device, here.swap_kind, curves, context)


class MovedModels:
    """Counted bytes, else the simulator, on another storage.

    Args:
        here: the device with the storage that was measured.
        there: the same with the other storage.
        counted: by a workload's id the bytes that its rounds read.
    """

    def __init__(
        self, here: DeviceData, there: DeviceData, counted: Mapping[str, MissCurve]
    ) -> None:
        self._here, self._there, self._counted = here, there, counted

    def for_workload(self, curves: Sequence[Curve], name: str) -> WorkloadModel:
        """The model for a workload's curves.

        Raises:
            ResultsError: it can't predict them, with the reason.
        """
        own = {one.key: found for one in curves if (found := self._by_bytes.get(one.key))}
        try:
            simulated = self._simulated(curves, name)
        except ResultsError:
            if not own:
                raise
            return WorkloadModel(own)
        return WorkloadModel({one.key: own.get(one.key, simulated) for one in curves})

    @cached_property
    def _by_bytes(self) -> dict[str, CountedModel]:
        """By a curve's key what predicts it from counted bytes."""
        here, there = self._here.context, self._there.context.calibration
        known = here.calibration or here.assumed
        rounds = counted_rounds(self._here.curves, self._counted)
        if known is None or there is None or not rounds:
            return {}
        return counted_models(rounds, storage_costs(known), storage_costs(there))

    def _simulated(self, curves: Sequence[Curve], name: str) -> Simulated:
        same = by_engine(self._here.curves).get(curves[0].engine, [])
        try:
            model = Simulated(learn(same, self._here.context), self._there.context, WIDER)
            for curve in curves:
                model.predict(curve, curve.limit_bytes[:0])
        except CannotPredictError as error:
            raise ResultsError(f"{name} can't be predicted: {error}", remedy=_CALIBRATE) from None
        return model
