"""Which workloads a person asks about: those that were run, or one that never was."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgebench.errors import ResultsError
from edgebench.slowdown.data import INFERENCE, PHASES, Curve
from edgebench.slowdown.knowledge import Knowledge
from edgebench.slowdown.splits import workload, workload_network
from edgebench.suggest import did_you_mean

#: What a workload is told apart by on the command line.
TOLD = ("schedule", "loader", "batch", "image")
#: Settings of a workload that nobody ran, where no other was run either.
_USUAL: dict[str, Any] = {
    "kind": "inference",
    "schedule": "bulk",
    "loader": "copy",
    "batch": 1,
    "rounds": 3,
    "warm": 2,
    "workers": 2,
    "page_cache": "cold",
}
_NOTHING = np.empty(0)


@dataclass(frozen=True)
class Wanted:
    """What is asked about. None leaves it open: every workload that fits is answered.

    ``network`` is a name (of a pipeline: its networks joined by ``+``), or ``package:factory``.
    """

    network: str | None = None
    schedule: str | None = None
    loader: str | None = None
    batch: int | None = None
    image: int | None = None

    def fits(self, curve: Curve) -> bool:
        """Whether the curve is of a workload that is asked about."""
        if self.network is not None and workload_network(curve) != self.network:
            return False
        asked = {name: getattr(self, name) for name in TOLD}
        return all(v is None or curve.settings.get(k) == v for k, v in asked.items())


@dataclass(frozen=True)
class Subject:
    """One workload: its curves, a phase each. Without times if it was never run below a limit."""

    curves: tuple[Curve, ...]

    @property
    def network(self) -> str:
        """What it runs."""
        return workload_network(self.curves[0])

    @property
    def settings(self) -> dict[str, Any]:
        """How it runs it."""
        return self.curves[0].settings

    @property
    def was_run(self) -> bool:
        """Whether trials below a limit are known of it."""
        return any(len(curve.limits) for curve in self.curves)


def subjects(known: Knowledge, wanted: Wanted) -> list[Subject]:
    """The workloads asked about: those that were run; else the one that fits the wish.

    Raises:
        ResultsError: no network was named and none of those run fits; or its layers are unknown.
    """
    groups: dict[str, list[Curve]] = {}
    for curve in known.curves:
        if wanted.fits(curve):
            groups.setdefault(workload(curve), []).append(curve)
    if groups:
        return [Subject(tuple(_in_order(group))) for group in groups.values()]
    if wanted.network is None:
        raise ResultsError(
            "no trial here is of such a workload",
            remedy="name a network to have it predicted: --network resnet18",
        )
    return [_never_run(known, wanted, wanted.network)]


def is_known(known: Knowledge, network: str) -> bool:
    """Whether the layers of a network (or of all of a pipeline) are known."""
    return all(name in known.context.tables for name in network.split("+"))


def _in_order(curves: Sequence[Curve]) -> list[Curve]:
    order = {phase: n for n, phase in enumerate(PHASES)}
    return sorted(curves, key=lambda curve: (curve.network, order[curve.phase]))


def _never_run(known: Knowledge, wanted: Wanted, network: str) -> Subject:
    """The workload as it would be run: where the wish is silent, as others were."""
    if not is_known(known, network):
        names = sorted({workload_network(curve) for curve in known.curves})
        guess = did_you_mean(network, names)
        raise ResultsError(
            f"nothing is known of the layers of {network!r}",
            remedy=f"did you mean {guess!r}?" if guess else "check the name's spelling",
        )
    asked = {name: getattr(wanted, name) for name in TOLD}
    settings = {**_USUAL, **_most_common(known.curves)}
    settings |= {name: value for name, value in asked.items() if value is not None}
    settings |= {"device": known.device, "swap_kind": known.swap_kind, "pipeline": network}
    phases = [p for p in INFERENCE if p != "execute" or settings["schedule"] == "bulk"]
    parts = network.split("+")
    pairs = [(part, phase) for part in parts for phase in phases if phase != "total"]
    return Subject(
        tuple(
            Curve(name, phase, settings, _NOTHING, _NOTHING, _NOTHING)
            for name, phase in [*pairs, (network, "total")]
        )
    )


def _most_common(curves: Sequence[Curve]) -> dict[str, Any]:
    """The settings that most workloads of networks were run with."""
    kept = [
        {k: v for k, v in curve.settings.items() if k not in ("pipeline", "command", "sweep")}
        for curve in curves
        if curve.settings.get("kind") == "inference"
    ]
    counted = Counter(json.dumps(settings, sort_keys=True) for settings in kept)
    if not counted:
        return {}
    common: dict[str, Any] = json.loads(counted.most_common(1)[0][0])
    return common
