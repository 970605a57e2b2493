"""The workloads to predict: measured ones that match a query, or one without any trial."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgebench.errors import ResultsError, UsageError
from edgebench.layers.references import FILE_KINDS, ModelReference, parse_reference
from edgebench.results.rounds import START
from edgebench.slowdown.context import DeviceData
from edgebench.slowdown.curves import PHASES, Curve
from edgebench.slowdown.workload import table_key
from edgebench.text import did_you_mean
from edgebench.units import parse_share, parse_size
from edgebench.workloads.engines.engine import TORCH, engines_for

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

    def fits(self, curve: Curve) -> bool:
        """Whether the curve is of such a workload."""
        if self.network is not None and curve.workload_network != self.network:
            return False
        return all(curve.settings.get(k) == v for k, v in self.settings.items())

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
        """Whether it has trials below a limit."""
        return any(len(curve.limits) for curve in self.curves)

    @property
    def was_tried(self) -> bool:
        """Whether it has trials below limits, finished or not."""
        return self.was_run or any(curve.lost_bytes for curve in self.curves)


def find_workloads(data: DeviceData, query: WorkloadQuery) -> list[QueriedWorkload]:
    """Return the measured workloads that match; else the one that the query describes.

    Raises:
        ResultsError: no network was named and no workload matches; or its layers are unknown.
    """
    if found := tried_workloads(data, query) or _matching(data.curves, query):
        return found
    network = query.network
    if network is None:
        raise ResultsError(
            "no trial here is of such a workload",
            remedy="name a network to have it predicted: edgebench predict resnet18",
        )
    if not has_layer_tables(data, network, query.image):
        known = networks_in([data])
        guess = did_you_mean(network, known)
        remedy = f"did you mean {guess!r}?" if guess else "check the name's spelling"
        remedy += f"; measured here: {', '.join(known)}" if known else ""
        raise ResultsError(f"the layers of {network!r} are unknown", remedy=remedy)
    # What the query leaves open is as most workloads have it.
    kept = Counter(
        json.dumps({k: v for k, v in curve.settings.items() if k not in _OF_ONE}, sort_keys=True)
        for curve in data.curves
        if curve.settings.get("kind") == "inference"
        and curve.settings.get("engine", TORCH) == TORCH
    )
    common = json.loads(kept.most_common(1)[0][0]) if kept else {}
    settings = {**_USUAL, **common, "image": None, **query.settings}
    settings |= {"device": data.device, "swap_kind": data.swap_kind, "pipeline": network}
    none = np.empty(0)
    phases = ["total"] if settings["rounds"] == 1 else [START, "total"]
    return [QueriedWorkload(tuple(Curve(network, p, settings, none, none, none) for p in phases))]


#: Settings that are of one workload alone.
_OF_ONE = ("pipeline", "command", "sweep")


def tried_workloads(data: DeviceData, query: WorkloadQuery) -> list[QueriedWorkload]:
    """Return the workloads that match and have trials below limits, finished or not."""
    found = [one for one in _matching(data.curves, query) if one.was_run]
    return [*found, *_matching(data.killed, query)]


def _matching(curves: Iterable[Curve], query: WorkloadQuery) -> list[QueriedWorkload]:
    groups: dict[str, list[Curve]] = {}
    for curve in curves:
        if query.fits(curve):
            groups.setdefault(curve.trials_key, []).append(curve)
    return [
        QueriedWorkload(tuple(sorted(own, key=lambda c: (c.network, PHASES.index(c.phase)))))
        for own in groups.values()
    ]


def has_layer_tables(data: DeviceData, network: str, image: int | None) -> bool:
    """Return whether there are layer tables of a network (or of all of a pipeline)."""
    return all(table_key(name, image) in data.tables for name in network.split("+"))


def networks_in(groups: Iterable[DeviceData]) -> list[str]:
    """Return the networks that have trials, pipelines among them."""
    every = (curve for data in groups for curve in (*data.curves, *data.killed))
    return sorted({curve.workload_network for curve in every})


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
