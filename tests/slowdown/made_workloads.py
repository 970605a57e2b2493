"""A network, a device and its curve in numbers that are worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from edgebench.slowdown.calibration import SCHEMA, Calibration, Constant
from edgebench.slowdown.context import DeviceData
from edgebench.slowdown.curves import Curve
from edgebench.slowdown.seconds import StorageCosts

MIB = 1 << 20
#: Weights of its layers in MiB: 300 in all.
WEIGHTS = (30, 50, 220)


def rows(*weights: int, batch_bytes: int = 2 * MIB) -> list[dict[str, Any]]:
    """Return a layer table; each layer makes 2 MiB."""
    return [
        {
            "order": n,
            "name": f"layer.{n}",
            "type": "Conv2d",
            "part": f"layer.{n}",
            "output_bytes": batch_bytes,
            "flops": 1e9 * (n + 1),
            "file_bytes": size * MIB,
        }
        for n, size in enumerate(weights)
    ]


def constant(value: float, unit: str = "") -> Constant:
    return Constant(value, value, value, unit, 1)


def calibration(**changed: Any) -> Calibration:
    """Return a device: 50 MiB/s from swap, 200 to it, 400 from mapped files, 80 MiB of runtime."""
    made = Calibration(
        device="board",
        swap_kind="file",
        created_utc="2026-01-01T00:00:00+00:00",
        schema=SCHEMA,
        environment={"cpu_cores_usable": 1},
        swap_in_bytes_per_s=constant(50.0 * MIB),
        swap_out_bytes_per_s=constant(200.0 * MIB),
        file_read_bytes_per_s=constant(800.0 * MIB),
        file_fault_bytes_per_s=constant(400.0 * MIB),
        fault_s=constant(0.0),
        minor_fault_s=constant(0.0),
        pages_per_fault=constant(8),
        file_pages_per_fault=constant(32),
        base_bytes=constant(80.0 * MIB),
        hot_base_bytes=constant(20.0 * MIB),
    )
    return replace(made, **changed)


#: Those of :func:`calibration`.
COSTS = StorageCosts(
    in_s=1 / (50 * MIB),
    out_s=1 / (200 * MIB),
    mapped_in_s=1 / (400 * MIB),
    fault_s=0.0,
    fault_bytes=32768.0,
    mapped_fault_bytes=131072.0,
    touch_s=0.0,
    file_s=1 / (800 * MIB),
)


def device(*curves: Curve, **changed: Any) -> DeviceData:
    tables = {"net": rows(*WEIGHTS), "other": rows(100, 20)}
    return DeviceData("board", "file", curves, tables, calibration(**changed))


def curve(
    seconds: dict[int, float], phase: str = "total", network: str = "net", **about: Any
) -> Curve:
    """Return rounds of 4 s that take these seconds at limits in MiB; the network needs 410 MiB."""
    settings = {"kind": "inference", "pipeline": network, "schedule": "bulk", "loader": "copy"}
    settings |= {"threads": 1, "warm": 2, "rounds": 3, "batch": 1, "swap_kind": "file"}
    settings |= {"device": "board", "swap_bytes": 1024.0 * MIB, **about}
    limits = np.array(sorted(seconds), dtype=float)
    took = np.array([seconds[int(at)] for at in limits])
    free = np.array([4.0])
    return Curve(network, phase, settings, limits * MIB, took, free, 410.0 * MIB, workload="w")
