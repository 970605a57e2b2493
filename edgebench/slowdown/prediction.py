"""Predictions from results: of each workload of a query, and of networks that run at once.

A query's workloads are the measured ones that match it, or one without any trial. Networks run at
once each in its own process, below one limit.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from edgebench.boards import StorageSpeed, parse_storage
from edgebench.errors import ResultsError, UsageError
from edgebench.layers.names import TORCH
from edgebench.layers.references import FILE_KINDS, ModelReference, parse_reference
from edgebench.processes import caller_identity
from edgebench.results.columns import workloads_of
from edgebench.results.miss_curve import MissCurve, curve_workload
from edgebench.results.results import Results, load
from edgebench.slowdown.answer import Answer, Measured, WorkloadAnswers, measured_limits
from edgebench.slowdown.computed import (
    MEASURED_MARGIN,
    TABLE_MARGIN,
    Computed,
    Room,
    mapped_bytes,
)
from edgebench.slowdown.context import DeviceData, matching_device_data, table_key
from edgebench.slowdown.curves import PHASES, WHOLES, CannotPredictError, Curve
from edgebench.text import parse_share, parse_size
from edgebench.workloads.engines.engine import engines_for, file_engine
from edgebench.workloads.preparation import describe_networks

#: Settings of a workload without trials, where there are no trials of others either.
_USUAL: dict[str, Any] = {
    "kind": "inference",
    "schedule": "bulk",
    "loader": "copy",
    "batch": 1,
    "rounds": 3,
    "warm": 2,
    "workers": 2,
    "page_cache": "cold",
    "gc": "frozen",
}


@dataclass(frozen=True)
class WorkloadQuery:
    """Which workloads to predict. None matches any value.

    ``network`` is a name as results have it (of a pipeline: its networks joined by ``+``);
    ``reference`` is what it was named by, if it is none that is known by name.
    """

    network: str | None = None
    schedule: str | None = None
    loader: str | None = None
    batch: int | None = None
    image: int | None = None
    threads: int | None = None
    reference: ModelReference | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that are not None."""
        names = ("schedule", "loader", "batch", "image", "threads")
        return {k: v for k in names if (v := getattr(self, k)) is not None}


def workload_query(network: str | None, **settings: Any) -> WorkloadQuery:
    """Return the query of a network as a person names it.

    Raises:
        UsageError: a reference that names nothing.
    """
    reference = None
    if network and engines_for(network)[0] != TORCH and not Path(network).exists():
        # Results have its name, and need no file.
        network = Path(network).name
    elif network and (":" in network or Path(network).suffix in FILE_KINDS):
        reference = parse_reference(network, Path.cwd())
        network = reference.name
    return WorkloadQuery(network, reference=reference, **settings)


@dataclass(frozen=True)
class QueriedWorkload:
    """One workload: its curves, a phase each; without times if it has no trial below a limit."""

    curves: tuple[Curve, ...]

    @property
    def network(self) -> str:
        """Its network, or networks joined by ``+``."""
        return self.curves[0].workload_network

    @property
    def workload(self) -> str:
        """The id of its trials' key; empty where it has none."""
        return self.curves[0].workload

    @property
    def settings(self) -> dict[str, Any]:
        """Its settings."""
        return self.curves[0].settings

    @property
    def was_run(self) -> bool:
        """Whether it has trials that finished below a limit."""
        return any(len(curve.limits) for curve in self.curves)

    @property
    def was_tried(self) -> bool:
        """Whether it has trials below limits, finished or not."""
        return self.was_run or any(curve.lost_bytes for curve in self.curves)

    @property
    def of_demand(self) -> Curve:
        """The curve whose demand was measured, else the first."""
        known = (curve for curve in self.curves if curve.demand_bytes is not None)
        return next(known, self.curves[0])


def find_workloads(data: DeviceData, query: WorkloadQuery) -> list[QueriedWorkload]:
    """Return the measured workloads that match; else the one that the query describes.

    Raises:
        ResultsError: no network was named and no workload matches.
    """
    if found := _matching(data, query):
        return found
    network = query.network
    if network is None:
        raise ResultsError(
            "no trial here is of such a workload",
            remedy="name a network to have it predicted: edgebench predict resnet18",
        )
    # What the query leaves open is as most workloads have it.
    of_one = {"pipeline", "command", "sweep"}
    kept = Counter(
        json.dumps({k: v for k, v in curve.settings.items() if k not in of_one}, sort_keys=True)
        for curve in data.curves
        if curve.settings.get("kind") == "inference"
        and curve.settings.get("engine", TORCH) == TORCH
    )
    common = json.loads(kept.most_common(1)[0][0]) if kept else {}
    settings = {**_USUAL, **common, "image": None, **query.settings}
    settings |= {"device": data.device, "swap_kind": data.swap_kind, "pipeline": network}
    none = np.empty(0)
    phases = ["total"] if settings["rounds"] == 1 else list(WHOLES)
    return [QueriedWorkload(tuple(Curve(network, p, settings, none, none, none) for p in phases))]


def tried_workloads(data: DeviceData, query: WorkloadQuery) -> list[QueriedWorkload]:
    """Return the workloads that match and have trials below limits, finished or not."""
    return [one for one in _matching(data, query) if one.was_tried]


def _matching(data: DeviceData, query: WorkloadQuery) -> list[QueriedWorkload]:
    groups: dict[str, list[Curve]] = {}
    for curve in data.curves:
        alike = all(curve.settings.get(name) == value for name, value in query.settings.items())
        if alike and query.network in (None, curve.workload_network):
            groups.setdefault(curve.trials_key, []).append(curve)
    return [
        QueriedWorkload(tuple(sorted(own, key=lambda c: (c.network, PHASES.index(c.phase)))))
        for own in groups.values()
    ]


def limit_in_bytes(limit: str, demand: float | None) -> float:
    """Return the bytes of a limit that is written as a size or as a share of demand.

    Raises:
        UsageError: neither, or a share of an unknown demand.
    """
    remedy = "write the limit as a size, as 200M"
    if (share := parse_share(limit)) is not None:
        if demand is None:
            raise UsageError(f"demand is unknown, so {limit} can't be resolved", remedy=remedy)
        return share * demand
    if (size := parse_size(limit)) is None:
        raise UsageError(f"{limit!r} is not a limit", remedy=remedy)
    return float(size)


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
        at: the requested limits.
        answers: of any other limit.
    """

    subject: QueriedWorkload
    needs_bytes: float | None
    needs_measured: bool
    knee_bytes: float | None
    knee_between: tuple[int, int] | None
    least_viable_bytes: float | None
    at: tuple[Answer, ...]
    answers: WorkloadAnswers

    def to_json(self) -> dict[str, Any]:
        """Return plain data for ``json.dumps``."""
        subject = self.subject
        return {
            "network": subject.network,
            "settings": subject.settings,
            "workload_id": subject.workload,
            "was_run": subject.was_run,
            "needs_bytes": self.needs_bytes,
            "needs_measured": self.needs_measured,
            "knee_bytes": self.knee_bytes,
            "knee_between": self.knee_between,
            "least_viable_bytes": self.least_viable_bytes,
            "at": [at.to_json() for at in self.at],
        }


class Predictor:
    """Predicts workloads from a device's data; nothing is computed before a limit is asked for.

    Args:
        data: of one device, kind of swap and storage.
        measured: what trials of the workloads showed.
        counted: by a workload's id the bytes that its rounds were counted to read.
        there: the same with another storage that is asked about; None: where it was measured.
    """

    def __init__(
        self,
        data: DeviceData,
        measured: Measured | None = None,
        counted: Mapping[str, MissCurve] | None = None,
        there: DeviceData | None = None,
    ) -> None:
        self.data, self.there = data, there
        self._measured, self._counted = measured or {}, counted or {}
        self._computed = Computed(data, there, counted)

    def predict(self, subject: QueriedWorkload, limits: Sequence[str]) -> Prediction:
        """Return what happens at these limits, written as ``200M`` or ``75%``.

        Raises:
            ResultsError: no formula tells it, and it was not measured.
            UsageError: a share of an unknown demand, or no limit at all.
        """
        needs, room = self.room(subject)
        sizes = [limit_in_bytes(limit, needs) for limit in limits]
        answers = WorkloadAnswers(
            subject.curves,
            self._measured.get((str(subject.settings.get("sweep")), subject.workload), ()),
            needs,
            room,
            self._computed.phase,
            moved=self.there is not None,
        )
        at = tuple(answers.at(size, limit) for size, limit in zip(sizes, limits, strict=True))
        if not subject.was_tried and (why := answers.why_not()):
            raise ResultsError(
                f"{subject.network} can't be predicted: {why}",
                remedy="edgebench calibrate, and then some networks: edgebench run quickstart",
            )
        counted = self._counted.get(subject.workload)
        return Prediction(
            subject=subject,
            needs_bytes=needs,
            needs_measured=subject.of_demand.demand_bytes is not None,
            knee_bytes=counted.knee_bytes if counted else None,
            knee_between=counted.knee_between if counted else None,
            least_viable_bytes=room.least_bytes if room else None,
            at=at,
            answers=answers,
        )

    def room(self, subject: QueriedWorkload) -> tuple[float | None, Room | None]:
        """Return what a workload needs, and the room for what of it can't be dropped.

        Each is None where it is not known.
        """
        settings, known = subject.settings, subject.of_demand
        try:
            needs = self._computed.needs_bytes(known)
        except CannotPredictError:
            return None, None
        swap = 0.0 if self.data.swap_kind == "none" else settings.get("swap_bytes")
        if swap is None:
            return needs, None
        mapped = 0.0
        if settings.get("loader") == "mmap":
            mapped = mapped_bytes(self.data.tables, subject.network, settings)
        margin = TABLE_MARGIN if known.demand_bytes is None else MEASURED_MARGIN
        return needs, Room(needs - mapped, float(swap), margin)

    def steady_bytes(self, subject: QueriedWorkload) -> float | None:
        """Return the limit below which steady rounds read again; None: no formula tells."""
        for curve in subject.curves:
            if curve.phase == "total":
                with suppress(CannotPredictError):
                    return float(self._computed.phase(curve).misses.limit_bytes[-1])
        return None


@dataclass(frozen=True)
class PredictionSource:
    """What predictions are made from.

    Args:
        predictors: of the device, each of one kind of swap and one storage; the first is the one
            that most is known of.
        results: all that was read.
        warnings: what is missing or damaged.
        query: what was asked for.
        storage: the storage on which nothing was run, if that was asked for.
    """

    predictors: tuple[Predictor, ...]
    results: Results
    warnings: list[str]
    query: WorkloadQuery
    storage: StorageSpeed | None = None

    def predict(self, limits: Sequence[str]) -> list[Prediction]:
        """Return every workload of the query; ``warnings`` name those that nothing tells of.

        Raises:
            ResultsError: nothing tells of any of them.
            UsageError: not a limit.
        """
        found, errors = [], []
        for subject, predictor in self.workloads():
            try:
                found.append(predictor.predict(subject, limits))
            except ResultsError as error:
                errors.append(error)
        if not found:
            raise errors[0]
        self.warnings.extend(f"left out: {error.what}" for error in errors)
        return found

    def workloads(self) -> list[tuple[QueriedWorkload, Predictor]]:
        """Return the workloads with what predicts them: all that ran below limits, else one."""
        tried = [(one, p) for p in self.predictors for one in tried_workloads(p.data, self.query)]
        first = self.predictors[0]
        return tried or [(one, first) for one in find_workloads(first.data, self.query)]


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
        ResultsError: none are there, or nothing can be predicted from them; constants are missing.
        MachineError: the device was not calibrated with that kind of swap; requests are held, and
            how many bytes one has was not measured; no torch.
        UsageError: several devices, and none was named.
        WorkloadError: no such network.
    """
    results = load(path)
    groups, warnings = matching_device_data(results, device, swap_kind)
    tried = [data for data in groups if tried_workloads(data, query)]
    moved = parse_storage(storage) if storage is not None else None
    if moved:
        held = [data for data in groups if data.storage == moved.label]
        if held and (not (query.network and tried) or any(data in held for data in tried)):
            # It was measured with that storage.
            moved, groups = None, held
            tried = [data for data in tried if data in held]
    if not tried:
        groups[0] = _with_layers(groups[0], query)
    measured, counted, there = measured_limits(results), counted_by_workload(results), None
    if moved:
        # Data whose rounds were counted go first, then those with trials of what is asked for.
        known = [
            data
            for data in tried
            if any(subject.workload in counted for subject in tried_workloads(data, query))
        ]
        here = [*known, *tried, groups[0]][0] if query.network is not None else groups[0]
        if here.calibration is None:
            what = f"no results with storage {moved.label} here, and no constants to compute them"
            raise ResultsError(what, remedy="measure the constants first: edgebench calibrate")
        groups = [here]
        there = replace(here, calibration=here.calibration.held_to(moved))
    predictors = tuple(Predictor(data, measured, counted, there) for data in groups)
    return PredictionSource(predictors, results, [*results.warnings, *warnings], query, moved)


def _with_layers(data: DeviceData, query: WorkloadQuery) -> DeviceData:
    """Return the data with the queried network's layer table, if it lacks that.

    A network that was not measured is described here, at the input's size asked for.
    """
    network, reference = query.network, query.reference
    if network is None:
        return data
    if engine := file_engine(network):
        raise ResultsError(
            f"{network} was not measured below a limit here; networks in {engine.title} are "
            "predicted from their own trials alone",
            remedy=f"edgebench minimum {network}",
        )
    names = network.split("+")
    if all(table_key(name, query.image) in data.tables for name in names):
        return data
    described: Mapping[str, Mapping[str, Any]] = describe_networks(
        [network] if reference else names,
        references={network: reference.to_json()} if reference else None,
        image=query.image,
        identity=caller_identity(),
    )["networks"]
    new = {table_key(name, query.image): one["table"] for name, one in described.items()}
    return replace(data, tables={**data.tables, **new})


def counted_by_workload(results: Results) -> dict[str, MissCurve]:
    """By a workload's id, whatever its storage, the counted points that are its own."""
    known = {one.workload: one for one in results.miss_curves if one.points}
    keys = (key for sweep in results.sweeps for key in workloads_of(sweep.columns)[1])
    pairs = ((key.id, known.get(curve_workload(key))) for key in keys)
    return {workload: found for workload, found in pairs if found is not None}


#: Settings that tell workloads of one network apart, with the values that most have.
_APART = {"schedule": "bulk", "loader": "copy"}


@dataclass(frozen=True)
class Part:
    """One of the networks, as it is alone; ``settings`` as ``bulk, copy``.

    ``steady_bytes`` is what steady rounds use of its needs, ``library_bytes`` what it maps of
    libraries beside them (None: not known), ``room`` what of them must have a place below the limit
    or in swap.
    """

    network: str
    settings: str
    needs_bytes: float
    steady_bytes: float
    library_bytes: float | None
    room: Room


@dataclass(frozen=True)
class Together:
    """All of them: needs and steady sets add up, since processes share no weights."""

    parts: tuple[Part, ...]

    @property
    def needs_bytes(self) -> float:
        """What they need at once."""
        return sum(part.needs_bytes for part in self.parts)

    @property
    def steady_bytes(self) -> float:
        """What a steady round of each uses."""
        return sum(part.steady_bytes for part in self.parts)

    @property
    def library_bytes(self) -> float | None:
        """Libraries: the most that one maps is mapped by all, and no limit counts it."""
        return max((p.library_bytes for p in self.parts if p.library_bytes), default=None)

    @property
    def largest(self) -> Part:
        """The one whose steady rounds use most: what to shrink."""
        return max(self.parts, key=lambda part: part.steady_bytes)

    def finishes(self, limit_bytes: float) -> bool | None:
        """Return whether all finish at a limit; None: too near to tell. They share the swap."""
        rooms = [part.room for part in self.parts]
        need_bytes, swap_bytes = sum(r.need_bytes for r in rooms), max(r.swap_bytes for r in rooms)
        return Room(need_bytes, swap_bytes, max(r.margin for r in rooms)).finishes(limit_bytes)

    def excess_bytes(self, limit_bytes: float) -> float:
        """Return what steady rounds use beyond a limit: no less is read again in each."""
        return max(0.0, self.steady_bytes - limit_bytes)

    def to_json(self, limits: Sequence[float]) -> dict[str, Any]:
        """Return plain data for ``json.dumps``."""
        return {
            "networks": [asdict(part) for part in self.parts],
            "needs_bytes": self.needs_bytes,
            "steady_bytes": self.steady_bytes,
            "library_bytes": self.library_bytes,
            "shrink": self.largest.network,
            "at": [
                {
                    "limit_bytes": limit,
                    "finishes": self.finishes(limit),
                    "excess_bytes": self.excess_bytes(limit),
                }
                for limit in limits
            ],
        }


def together(networks: Sequence[str], results: Path, asked: dict[str, Any]) -> Together:
    """Return what networks need at once; of a network's workloads the most usual one counts.

    Raises:
        EdgebenchError: as :func:`source_of`; nothing tells what one of them needs or uses.
    """
    parts = []
    for network in networks:
        query = workload_query(network, **asked["settings"])
        source = source_of(results, query, asked["device"], asked["swap_kind"])
        subject, predictor = min(
            source.workloads(),
            key=lambda pair: sum(pair[0].settings.get(k) != usual for k, usual in _APART.items()),
        )
        needs_bytes, room = predictor.room(subject)
        steady_bytes = predictor.steady_bytes(subject)
        if needs_bytes is None or room is None or steady_bytes is None:
            raise ResultsError(
                f"nothing tells what steady rounds of {network} use",
                remedy="edgebench calibrate --swap 2G, or measure all at once: edgebench measure "
                "-- sh -c 'python3 a.py & python3 b.py & wait'",
            )
        trials = source.results.trials
        own = trials.loc[trials["workload"] == subject.workload, "library_bytes"].dropna()
        libraries = float(own.median()) if len(own) else None
        settings = ", ".join(str(subject.settings.get(key)) for key in _APART)
        parts.append(Part(network, settings, needs_bytes, steady_bytes, libraries, room))
    return Together(tuple(parts))
