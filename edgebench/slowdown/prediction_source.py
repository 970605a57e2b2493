"""From a path to predictions: the results there, and missing layer tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgebench.boards.storage import parse_storage
from edgebench.errors import ResultsError, WorkloadError
from edgebench.identity import caller_identity
from edgebench.results.results import load
from edgebench.results.sweep_reader import may_have
from edgebench.slowdown.answer import measured_limits
from edgebench.slowdown.context import Context, DeviceData, matching_device_data
from edgebench.slowdown.miss_curve import counted_by_workload
from edgebench.slowdown.prediction import Prediction, Predictor
from edgebench.slowdown.query import (
    QueriedWorkload,
    WorkloadQuery,
    find_workloads,
    has_layer_tables,
    networks_in,
    tried_workloads,
)
from edgebench.slowdown.workload import Tables, table_key
from edgebench.workloads.engines.registry import file_engine
from edgebench.workloads.preparation import describe_networks

if TYPE_CHECKING:
    from edgebench.boards.storage import StorageSpeed
    from edgebench.results.results import Results
    from edgebench.slowdown.curves import FloatArray
    from edgebench.slowdown.models.base import CurvePrediction


@dataclass(frozen=True)
class PredictionSource:
    """What predictions are made from.

    Args:
        data, predictor: of the kind of swap and the storage that most matching curves have.
        results: all that was read.
        warnings: what is missing or damaged.
        others: the same device's other kinds of swap and storages, each predicted by itself.
        query: what was asked for.
        storage: the storage on which nothing was run, if that was asked for.
    """

    data: DeviceData
    predictor: Predictor
    results: Results
    warnings: list[str]
    others: tuple[tuple[DeviceData, Predictor], ...] = ()
    query: WorkloadQuery | None = None
    storage: StorageSpeed | None = None

    def predict(self, query: WorkloadQuery, limits: Sequence[str]) -> list[Prediction]:
        """Return every workload of the query; ``warnings`` name those that nothing tells of.

        Raises:
            ResultsError: nothing tells of any of them.
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
        """Return each of a predicted workload's curves at these limits."""
        first = subject.curves[0]
        for data, predictor in self._every:
            if any(curve is first for curve in (*data.curves, *data.killed)):
                return predictor.predict_curves(subject, limit_bytes)
        return self.predictor.predict_curves(subject, limit_bytes)

    @property
    def _every(self) -> list[tuple[DeviceData, Predictor]]:
        return [(self.data, self.predictor), *self.others]

    def workloads(self, query: WorkloadQuery) -> list[tuple[QueriedWorkload, Predictor]]:
        """Return the workloads with what predicts them: all that ran below limits, else one."""
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
    """Read the results at or below a path, with the queried layer tables.

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
    groups, warnings = matching_device_data(results, device, swap_kind)
    moved = None
    if storage is not None:
        moved, groups = _held_to(groups, parse_storage(storage), query)
    if tables:
        groups[0] = groups[0].with_tables(tables)
    elif not any(tried_workloads(data, query) for data in groups):
        groups[0] = _with_layers(groups, query)
    measured, counted = measured_limits(results), counted_by_workload(results)
    first, *others = [(data, Predictor(data, measured, counted)) for data in groups]
    warnings = [*results.warnings, *warnings]
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
    """Return the source of the same networks with a storage on which nothing was run.

    Data whose rounds were counted go first, then those with trials of what was asked for.

    Raises:
        ResultsError: constants are missing.
        MachineError: requests are held, and how many bytes one has was not measured.
    """
    counted, query = counted_by_workload(source.results), source.query
    every = [source.data, *(data for data, _ in source.others)]
    if query is not None and query.network is not None:
        tried = [(data, tried_workloads(data, query)) for data in every]
        known = [data for data, own in tried if any(one.workload in counted for one in own)]
        every = [*known, *(data for data, own in tried if own), source.data]
    here = every[0]
    constants = here.context.calibration or here.context.assumed
    if constants is None:
        what = f"no results with storage {storage.label} here, and no constants to compute them"
        raise ResultsError(what, remedy="measure the constants first: edgebench calibrate")
    held = replace(constants, held=None).held_to(storage)
    there = Context(here.context.tables, held, base_bytes=here.context.base_bytes)
    predictor = Predictor(here, measured_limits(source.results), counted, there)
    return replace(source, data=here, predictor=predictor, others=(), storage=storage)


def _with_layers(groups: Sequence[DeviceData], query: WorkloadQuery) -> DeviceData:
    """The first group with the queried network's layer table, which is not among its own."""
    data, network = groups[0], query.network
    if network is None or (
        has_layer_tables(data, network, query.image) and not file_engine(network)
    ):
        return data
    try:
        return data.with_tables(_described(network, query))
    except WorkloadError as error:
        if query.reference:
            raise
        known = f"measured here: {', '.join(networks_in(groups))}"
        remedy = " ".join(filter(None, (error.remedy, f"({known})")))
        raise WorkloadError(error.what, where=error.where, remedy=remedy) from None


def _described(network: str, query: WorkloadQuery) -> Tables:
    """The layer tables of a network that was not measured, at the size of input asked for."""
    if engine := file_engine(network):
        raise ResultsError(
            f"{network} was not measured below a limit here; networks in {engine.title} are "
            "predicted from their own trials alone",
            remedy=f"edgebench minimum {network}",
        )
    own = query.reference
    made: Mapping[str, Mapping[str, Any]] = describe_networks(
        [network] if own else network.split("+"),
        references={network: own.to_json()} if own else None,
        image=query.image,
        identity=caller_identity(),
    )["networks"]
    return {table_key(name, query.image): one["table"] for name, one in made.items()}
