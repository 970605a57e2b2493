"""Networks and a device made up: layer tables, constants, and curves that follow from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from edgebench.slowdown.calibration.device import SCHEMA, Calibration, Constant
from edgebench.slowdown.context import Context
from edgebench.slowdown.curves import Curve
from edgebench.slowdown.simulator.profile import simulated_slowdown
from edgebench.slowdown.simulator.workload import Layer, Workload, layers_of

MIB = 1 << 20


def row(
    order: int, weights: float, output: float = 0.1, flops: float = 1e7, kind: str = "Conv2d"
) -> dict[str, Any]:
    """A row of a layer table; weights and output in MiB."""
    size = int(weights * MIB)
    return {
        "order": order,
        "name": f"layer.{order}",
        "type": kind,
        "part": f"layer.{order}",
        "parameter_bytes": size,
        "buffer_bytes": 0,
        "output_bytes": int(output * MIB),
        "flops": flops,
        "file": f"{order:04d}.safetensors" if size else None,
        "file_bytes": size,
    }


def table(*weights: float, connected: int = 0) -> list[dict[str, Any]]:
    """A network of layers with so many MiB each, the last ``connected`` of them fully connected."""
    split = len(weights) - connected
    return [
        row(n, size, kind="Conv2d" if n < split else "Linear") for n, size in enumerate(weights)
    ]


def workload(*tables: Sequence[dict[str, Any]], **about: Any) -> Workload:
    """A pipeline of networks a, b, … with these tables."""
    layers: list[tuple[Layer, ...]] = [layers_of(rows) for rows in tables]
    names = tuple("abcdefgh"[: len(tables)])
    return Workload(**{"networks": names, "tables": tuple(layers), "loader": "copy", **about})


def constant(value: float, unit: str = "") -> Constant:
    """A constant that all repeats agree on."""
    return Constant(value, value, value, unit, 1)


def calibration(**changed: Any) -> Calibration:
    """A device made up: 100 MB/s from swap, 50 to it, no cost of faults, a base of 60 MiB."""
    return replace(
        Calibration(
            device="made-up",
            swap_kind="file",
            created_utc="2026-01-01T00:00:00+00:00",
            schema=SCHEMA,
            environment={"cpu_cores_usable": 1},
            swap_in_bytes_per_s=constant(1e8),
            swap_out_bytes_per_s=constant(5e7),
            file_read_bytes_per_s=constant(1e9),
            file_fault_bytes_per_s=constant(5e8),
            fault_s=constant(0.0),
            minor_fault_s=constant(1e-6),
            pages_per_fault=constant(8),
            file_pages_per_fault=constant(64),
            lru_share=constant(1.0),
            base_bytes=constant(60.0 * MIB),
            # Rounds use so much of it (docs/decisions.md).
            hot_base_bytes=constant(10.0 * MIB / 0.43),
        ),
        **changed,
    )


#: Networks of several families, by their names.
TABLES: dict[str, list[dict[str, Any]]] = {
    "alexnet": table(1, 3, 4, 60, 30, 8, connected=3),
    "vgg11": table(1, 4, 9, 9, 90, 16, connected=2),
    "resnet18": table(*[3] * 14, 2, connected=1),
    "resnet50": table(*[2.5] * 36, 8, connected=1),
    "mobilenet_v2": table(*[0.6] * 20, 5, connected=1),
    "squeezenet1_1": table(*[0.5] * 10),
    "regnet_y_400mf": table(*[1.5] * 16, 1.5, connected=1),
    "efficientnet_b0": table(*[0.7] * 24, 5, connected=1),
}
SHARES = (1.2, 0.95, 0.88, 0.8, 0.7, 0.6, 0.5)


def context(found: Calibration | None = None) -> Context:
    """All tables, and the device made up."""
    return Context(TABLES, found or calibration())


def curve(
    network: str,
    phase: str = "execute",
    *,
    schedule: str = "bulk",
    loader: str = "copy",
    noise: float = 0.0,
    factor: float = 1.0,
    repeats: int = 2,
    seed: int = 0,
    true: Context | None = None,
) -> Curve:
    """What the simulator says of a device, times ``factor`` to how deep the limit is, with noise.

    ``factor`` e makes ln S larger by ln(demand / M). The device is the one made up, or ``true``.
    """
    settings = {
        "device": "made-up",
        "kind": "inference",
        "pipeline": network,
        "schedule": schedule,
        "loader": loader,
        "batch": 1,
        "rounds": 3,
        "warm": 2,
        "workers": 2,
        "page_cache": "cold",
        "swap_kind": "file",
    }
    chance = np.random.default_rng([seed, *network.encode(), *phase.encode()])
    weights = sum(one["file_bytes"] for one in TABLES[network])
    demand = 60.0 * MIB + weights + 2 * MIB
    limits = np.repeat(np.sort(np.array(SHARES)) * demand, repeats)
    unlimited = 0.2 * np.exp(noise * chance.standard_normal(repeats))
    blank = Curve(network, phase, settings, limits[:0], limits[:0], np.array([0.2]), demand)
    slowdown = simulated_slowdown(blank, 0.2, true or context()).at(limits)
    slowdown = slowdown * factor ** np.maximum(np.log(demand / limits), 0)
    seconds = 0.2 * slowdown * np.exp(noise * chance.standard_normal(len(limits)))
    return replace(blank, limit_bytes=limits, seconds=seconds, unlimited_seconds=unlimited)
