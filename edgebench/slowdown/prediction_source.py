"""From a path to predictions: the results there, and missing layer tables."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgebench.boards.storage import parse_storage
from edgebench.errors import ResultsError, WorkloadError
from edgebench.identity import caller_identity
from edgebench.results.results import load
from edgebench.results.sweep_reader import may_have
from edgebench.slowdown.answer import measured_kills, measured_limits
from edgebench.slowdown.context import DeviceData, matching_device_data
from edgebench.slowdown.counted import counted_by_workload
from edgebench.slowdown.other_storage import MovedModels, data_at
from edgebench.slowdown.prediction import Prediction, Predictor
from edgebench.slowdown.query import (
    QueriedWorkload,
    WorkloadQuery,
    find_workloads,
    has_layer_tables,
    networks_in,
    tried_workloads,
)
from edgebench.slowdown.viability import LearntViability, viability_trials
from edgebench.workloads.engines.registry import file_engine
from edgebench.workloads.preparation import describe_networks

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from edgebench.boards.storage import StorageSpeed
    from edgebench.results.results import Results
    from edgebench.slowdown.curves import FloatArray
    from edgebench.slowdown.models.base import CurvePrediction


@dataclass(frozen=True)
class PredictionSource:
    """What predictions are made from.

    ``data`` and ``predictor`` are of the kind of swap and the storage that most matching curves
    have; ``others`` of the same device's others, where each curve is predicted by itself.
    ``warnings`` name what is missing or damaged. ``query`` is what was asked for, ``storage`` the
    storage on which nothing was run, if that was asked for.
    """

    data: DeviceData
    predictor: Predictor
    results: Results
    warnings: list[str]
    others: tuple[tuple[DeviceData, Predictor], ...] = ()
    query: WorkloadQuery | None = None
    storage: StorageSpeed | None = None

    def predict(self, query: WorkloadQuery, limits: Sequence[str]) -> list[Prediction]:
        """Every workload of the query, at these limits; ``warnings`` name those without a model.

        Raises:
            ResultsError: no model can predict any of them.
            UsageError: not a limit.
        """
        found, errors = [], []
        for one, predictor in self.workloads(query):
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

    def tried(self, counted: Collection[str] = ()) -> DeviceData:
        """The first data with trials of what was asked for; without any the first.

        ``counted`` are ids of workloads that go before others: bytes of their rounds were counted.
        """
        query = self.query
        if query is None or query.network is None:
            return self.data
        tried = [(data, tried_workloads(data, query)) for data, _ in self._every]
        known = [data for data, own in tried if any(one.workload in counted for one in own)]
        return next(iter([*known, *(data for data, own in tried if own), self.data]))

    @property
    def _every(self) -> list[tuple[DeviceData, Predictor]]:
        return [(self.data, self.predictor), *self.others]

    def workloads(self, query: WorkloadQuery) -> list[tuple[QueriedWorkload, Predictor]]:
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
    """The results at or below a path, with the queried layer tables.

    With a ``storage`` that was not measured, what was measured with another tells.

    Raises:
        ResultsError: none are there, or nothing can be predicted from them.
        MachineError: the device was not calibrated with that kind of swap; no torch.
        UsageError: several devices, and none was named.
        WorkloadError: no such network.
    """
    network, tables = query.network, None
    if network and query.reference and not may_have(path, network):
        # Refused before all results are read, if it can't be built.
        tables = _described(network, query)
    results = load(path)
    groups, lacking = matching_device_data(results, device, swap_kind)
    moved = None
    if storage is not None:
        moved, groups = _held_to(groups, parse_storage(storage), query)
    if tables:
        groups[0] = groups[0].with_tables(tables)
    elif not any(tried_workloads(data, query) for data in groups):
        groups[0] = _with_layers(groups, query)
    trials, measured = viability_trials(results), measured_limits(results)
    viabilities = [LearntViability(trials, data) for data in groups]
    first, *others = [
        (data, Predictor(data, viability, None, measured))
        for data, viability in zip(groups, viabilities, strict=True)
    ]
    left_out = viabilities[0].measured.left_out_words
    warnings = [*results.warnings, *lacking, *left_out]
    source = PredictionSource(*first, results, warnings, tuple(others), query)
    return source if moved is None else at_storage(source, moved)


def _held_to(
    groups: list[DeviceData], storage: StorageSpeed, query: WorkloadQuery
) -> tuple[StorageSpeed | None, list[DeviceData]]:
    """The data with this storage; else the storage, and all data: nothing queried ran with it."""
    own = [data for data in groups if data.storage == storage.label]
    tried = [data for data in groups if query.network and tried_workloads(data, query)]
    if own and (not tried or any(data in tried for data in own)):
        return None, own
    return storage, groups


def at_storage(source: PredictionSource, storage: StorageSpeed) -> PredictionSource:
    """The same networks with a storage on which nothing was run.

    Raises:
        ResultsError: constants are missing.
        MachineError: requests are held, and how many bytes one has was not measured.
    """
    counted = counted_by_workload(source.results)
    measured = source.tried(counted)
    data = data_at(measured, storage)
    viability = LearntViability(viability_trials(source.results), measured)
    # How fast storage is changes no kill.
    kills = measured_kills(source.results)
    predictor = Predictor(data, viability, MovedModels(measured, data, counted), kills)
    return replace(source, data=data, predictor=predictor, others=(), storage=storage)


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
