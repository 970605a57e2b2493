"""From a path to predictions: the results or stored fits there, and missing layer tables."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgebench.errors import ResultsError
from edgebench.identity import caller_identity
from edgebench.results.planned_networks import may_have
from edgebench.results.results import load
from edgebench.slowdown.context import DeviceData, choose_device_data, with_trainings
from edgebench.slowdown.other_device import (
    OtherDevice,
    TransferredModels,
    data_of,
    device_of_board,
    device_of_file,
)
from edgebench.slowdown.prediction import Prediction, Predictor
from edgebench.slowdown.query import WorkloadQuery, find_workloads, has_layer_tables
from edgebench.slowdown.stored_fits import StoredFits, is_stored
from edgebench.slowdown.viability import LearntViability, viability_trials
from edgebench.workloads.engines.registry import file_engine
from edgebench.workloads.preparation import describe_networks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from edgebench.results.results import Results


@dataclass(frozen=True)
class PredictionSource:
    """What predictions are made from. ``results`` is None for stored fits.

    ``warnings`` name what is missing or damaged.
    """

    data: DeviceData
    predictor: Predictor
    results: Results | None
    warnings: list[str]

    def predict(self, query: WorkloadQuery, limits: Sequence[str]) -> list[Prediction]:
        """Every workload of the query, at these limits; ``warnings`` name those without a model.

        Raises:
            ResultsError: no model can predict any of them.
            UsageError: not a limit.
        """
        found, errors = [], []
        for one in find_workloads(self.data, query):
            try:
                found.append(self.predictor.predict(one, limits))
            except ResultsError as error:
                errors.append(error)
        if not found:
            raise errors[0]
        self.warnings.extend(f"left out: {error.what}" for error in errors)
        return found


def source_of(
    path: Path,
    query: WorkloadQuery,
    device: str | None = None,
    swap_kind: str | None = None,
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
        predictor = Predictor(fits.data, LearntViability((), fits.data), fits)
        return PredictionSource(fits.data, predictor, None, [])
    network, tables = query.network, None
    if network and query.reference and not may_have(path, network):
        # Refused before all results are read, if it can't be built.
        tables = _described(network, query)
    results, no_tables = with_trainings(load(path))
    known, lacking = choose_device_data(results, device, swap_kind)
    known = known.with_tables(tables) if tables else _with_layers(known, query)
    viability = LearntViability(viability_trials(results), known)
    left_out = viability.measured.left_out_words
    warnings = [*results.warnings, *lacking, *no_tables, *left_out]
    return PredictionSource(known, Predictor(known, viability), results, warnings)


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
            remedy="edgebench predict results --on raspberry-pi-4-4g",
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


def _with_layers(data: DeviceData, query: WorkloadQuery) -> DeviceData:
    """The data with the queried network's layer table, if it is not among the measured ones."""
    network = query.network
    if network is None:
        return data
    if any(query.fits(curve) and len(curve.limits) for curve in data.curves):
        return data
    if has_layer_tables(data, network) and not file_engine(network):
        return data
    return data.with_tables(_described(network, query))


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
