"""Curves of several networks with known slowdowns, for splits, scores and predictions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from edgebench.slowdown.curves import Curve

MIB = 1 << 20
LIMITS = (100.0, 120.0, 140.0, 160.0, 180.0)
NETWORKS = ("alexnet", "vgg11", "resnet18", "resnet50", "densenet121")


def truth(limits_mib: np.ndarray, w: float = 170.0) -> np.ndarray:
    """No slowdown down to 170 MiB, then a power of the depth."""
    return 1 + 3 * np.log(np.maximum(w / limits_mib, 1)) ** 1.5


def curve(
    network: str = "alexnet",
    phase: str = "total",
    schedule: str = "linear",
    limits: Sequence[float] = LIMITS,
    noise: float = 0.0,
    repeats: int = 2,
    **settings: Any,
) -> Curve:
    """One curve; its unlimited trials take 2 s, its demand is 200 MiB."""
    chance = np.random.default_rng([len(network), len(phase), len(schedule)])
    sizes = np.repeat(np.array(limits), repeats)
    times = 2.0 * truth(sizes) * np.exp(noise * chance.standard_normal(len(sizes)))
    about = {"kind": "inference", "pipeline": network, "schedule": schedule, "loader": "copy"}
    about |= {"device": "board", "swap_kind": "file", "swap_bytes": float(1 << 30), "batch": 1.0}
    return Curve(
        network,
        phase,
        {**about, **settings},
        sizes * MIB,
        times,
        np.full(2, 2.0),
        200.0 * MIB,
    )


def curves(networks: Sequence[str] = NETWORKS, noise: float = 0.0) -> list[Curve]:
    """Two schedules and two phases of each network."""
    return [
        curve(network, phase, schedule, noise=noise)
        for network in networks
        for schedule in ("linear", "bulk")
        for phase in ("load", "total")
    ]
