"""From a path to predictions: the results or stored fits there, and missing layer tables."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgebench.errors import ResultsError, WorkloadError
from edgebench.identity import caller_identity
from edgebench.results.planned_networks import may_have
from edgebench.results.results import load
from edgebench.slowdown.answer import measured_limits
from edgebench.slowdown.context import DeviceData, matching_device_data
from edgebench.slowdown.models.fitted import OwnModels
from edgebench.slowdown.other_device import (
    OtherDevice,
    TransferredModels,
    data_of,
    device_of_board,
    device_of_file,
)
from edgebench.slowdown.prediction import Prediction, Predictor
from edgebench.slowdown.query import (
    QueriedWorkload,
    WorkloadQuery,
    find_workloads,
    has_layer_tables,
    networks_in,
    tried_workloads,
)
from edgebench.slowdown.stored_fits import StoredFits, is_stored
from edgebench.slowdown.training_tables import with_trainings
from edgebench.slowdown.viability import LearntViability, viability_trials
from edgebench.workloads.engines.registry import file_engine
from edgebench.workloads.preparation import describe_networks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from edgebench.results.results import Results
    from edgebench.slowdown.curves import FloatArray
    from edgebench.slowdown.models.base import CurvePrediction


@dataclass(frozen=True)
class PredictionSource:
    """What predictions are made from. ``results`` is None for stored fits.

    ``data`` and ``predictor`` are of the kind of swap and the storage that most matching curves
    have; ``others`` of the same device's others, where each curve is predicted by itself.
    ``warnings`` name what is missing or damaged.
    """

    data: DeviceData
    predictor: Predictor
    results: Results | None
    warnings: list[str]
    others: tuple[tuple[DeviceData, Predictor], ...] = ()

    def predict(self, query: WorkloadQuery, limits: Sequence[str]) -> list[Prediction]:
        """Every workload of the query, at these limits; ``warnings`` name those without a model.

        Raises:
            ResultsError: no model can predict any of them.
            UsageError: not a limit.
        """
        found, errors = [], []
        for one, predictor in self._asked(query):
            try:
                found.append(predictor.predict(one, limits))
            except ResultsError as error:
                errors.append(error)
        if not found:
            raise errors[0]
        self.warnings.extend(f"left out: {error.what}" for error in errors)
        return found

    def predict_curves(
        self, subject: QueriedWorkload, limit_bytes: FloatArray
    ) -> list[CurvePrediction]:
        """Each of a predicted workload's curves at these limits, by its model.

        Raises:
            ResultsError: no model can predict it.
        """
        first = subject.curves[0]
        for data, predictor in self._every:
            if any(curve is first for curve in (*data.curves, *data.killed)):
                return predictor.predict_curves(subject, limit_bytes)
        return self.predictor.predict_curves(subject, limit_bytes)

    @property
    def _every(self) -> list[tuple[DeviceData, Predictor]]:
        return [(self.data, self.predictor), *self.others]

    def _asked(self, query: WorkloadQuery) -> list[tuple[QueriedWorkload, Predictor]]:
        """The workloads with what predicts them: all that ran below limits, else what most had."""
        found = [
            (one, predictor)
            for data, predictor in self._every
            for one in tried_workloads(data, query)
        ]
        if found:
            return found
        return [(one, self.predictor) for one in find_workloads(self.data, query)]


def source_of(
    path: Path,
    query: WorkloadQuery,
    device: str | None = None,
    swap_kind: str | None = None,
    storage: str | None = None,
) -> PredictionSource:
    """The results at or below a path, or the fits stored there, with the queried layer tables.

    Raises:
        ResultsError: neither is there, or nothing can be predicted from it.
        MachineError: the device was not calibrated with that kind of swap; no torch.
        UsageError: several devices, and none was named.
        WorkloadError: no such network.
    """
    if is_stored(path):
        fits = StoredFits(path)
        predictor = Predictor(fits.data, LearntViability((), fits.data), fits, fits.measured)
        return PredictionSource(fits.data, predictor, None, [])
    network, tables = query.network, None
    if network and query.reference and not may_have(path, network):
        # Refused before all results are read, if it can't be built.
        tables = _described(network, query)
    results, _ = with_trainings(load(path))
    groups, lacking = matching_device_data(results, device, swap_kind, storage)
    if tables:
        groups[0] = groups[0].with_tables(tables)
    elif not any(tried_workloads(data, query) for data in groups):
        groups[0] = _with_layers(groups, query)
    trials, measured = viability_trials(results), measured_limits(results)
    viabilities = [LearntViability(trials, data) for data in groups]
    first, *others = [
        # To fit all models takes minutes for each kind of swap and storage.
        (data, Predictor(data, viability, OwnModels(data) if n else None, measured))
        for n, (data, viability) in enumerate(zip(groups, viabilities, strict=True))
    ]
    left_out = viabilities[0].measured.left_out_words
    warnings = [*results.warnings, *lacking, *left_out]
    return PredictionSource(*first, results, warnings, tuple(others))


def elsewhere(
    source: PredictionSource, board: str | None = None, constants: Path | None = None
) -> tuple[PredictionSource, OtherDevice]:
    """The same networks on a device without trials: a board, or that of a file of constants.

    Raises:
        ResultsError: there are only stored fits, or constants are missing.
        UsageError: no such board.
    """
    if source.results is None:
        raise ResultsError(
            "stored fits are of one device",
            remedy="name their sweep: --results results --on raspberry-pi-4-4g",
        )
    here = source.data.context.calibration
    if constants is not None:
        device = device_of_file(constants, here)
    else:
        assert board is not None
        device = device_of_board(board, here)
    data = data_of(source.data, device)
    viability = LearntViability(viability_trials(source.results), source.data)
    models = TransferredModels(source.data, data)
    found = PredictionSource(
        data, Predictor(data, viability, models), source.results, source.warnings
    )
    return found, device


def _with_layers(groups: Sequence[DeviceData], query: WorkloadQuery) -> DeviceData:
    """The first group with the queried network's layer table, which is not among its own."""
    data, network = groups[0], query.network
    if network is None or (has_layer_tables(data, network) and not file_engine(network)):
        return data
    try:
        return data.with_tables(_described(network, query))
    except WorkloadError as error:
        if query.reference:
            raise
        known = f"measured here: {', '.join(networks_in(groups))}"
        remedy = " ".join(filter(None, (error.remedy, f"({known})")))
        raise WorkloadError(error.what, where=error.where, remedy=remedy) from None


def _described(network: str, query: WorkloadQuery) -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """The layer tables of a network that was not measured."""
    if engine := file_engine(network):
        raise ResultsError(
            f"{network} was not measured below a limit here; networks in {engine.title} are "
            "predicted from their own trials alone",
            remedy=f"edgebench minimum {network}",
        )
    own = query.reference
    made = describe_networks(
        [network] if own else network.split("+"),
        references={network: own.to_json()} if own else None,
        image=query.image,
        identity=caller_identity(),
    )
    return {name: one["table"] for name, one in made["networks"].items()}
