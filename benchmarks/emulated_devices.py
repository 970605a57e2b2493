"""Slowdowns of each of three emulated devices, from its calibration and the others' trials.

``python benchmarks/emulated_devices.py [REPEATS [NETWORK…]]``, as root, on two cores. The devices:
one core and storage at 100 MB/s and 1500 requests a second; two cores at 300 MB/s; two cores with
zram. Weights and swap files are on a disk in memory. Each is calibrated and measured. Its slowdowns
are the simulator's at its own constants, times the median error of each phase on the other two
devices. Its unlimited times are its own, or (``carried``) the others', as if work divided among
cores exactly. Sweeps stay on disk: the next start makes what is missing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import report

from edgebench.cli.progress import LineProgress
from edgebench.results.results import load
from edgebench.run.calibration import CalibrationOptions, run_calibration
from edgebench.run.sweep import SweepOptions, run_sweep
from edgebench.scenario.scenario import scenario_of
from edgebench.slowdown.context import Context, DeviceData, device_data
from edgebench.slowdown.curves import Curve
from edgebench.slowdown.simulator.profile import simulated_slowdown
from edgebench.units import parse_swap

SLOWED = 1.5
NETWORKS = ("alexnet", "resnet18", "resnet50")
LIMITS = ["60%", "45%", "33%"]
_ROOT = Path("results-of-emulated-devices")


@dataclass(frozen=True)
class Emulated:
    """One device: its name, cores, storage and swap, as a scenario writes them."""

    name: str
    cores: int
    storage: str
    swap: str


@dataclass(frozen=True)
class Slowed:
    """One limit of one curve: slowdown as measured, and as simulated from each unlimited time."""

    device: str
    phase: str
    measured: float
    simulated: float
    carried: float


DEVICES = (
    Emulated("one-core-sd", 1, "read=100MB/s,read_iops=1500,disk=ram", "2G"),
    Emulated("two-cores-emmc", 2, "read=300MB/s,disk=ram", "2G"),
    Emulated("two-cores-zram", 2, "disk=ram", "zram:1G"),
)


def main(repeats: int, networks: Sequence[str]) -> None:
    """Calibrate and measure each device, predict each from the other two, write the errors."""
    data = {device.name: _measured(device, repeats, networks) for device in DEVICES}
    points = [point for device in DEVICES for point in _points(device, data)]
    rows = [_row(device.name, points) for device in DEVICES]
    says = f"Points slowed {SLOWED:g} times or more: median error of the predicted slowdown."
    header = ["device", "points", "own unlimited times", "carried unlimited times"]
    told = [vars(point) for point in points]
    report.write("emulated_devices", says, header, rows, {"points": told})


@contextmanager
def _on_cores(count: int) -> Iterator[None]:
    """Keep this process and its children on the first so many cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:count])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _measured(device: Emulated, repeats: int, networks: Sequence[str]) -> DeviceData:
    folder = _ROOT / device.name
    tables = {
        "schema": 1,
        "name": "emulated",
        "repeats": repeats,
        "timeout": "2m",
        "workload": {
            "kind": "inference",
            "network": list(networks),
            "schedule": "bulk",
            "rounds": 3,
            "warm": 1,
        },
        "limits": {"memory": ["max", *LIMITS], "swap": device.swap, "storage": device.storage},
    }
    if not any(folder.glob("*/*/complete.json")):
        _run(device, tables, folder)
    (found,), warnings = device_data(load(folder))
    assert found.context.calibration, warnings
    return found


def _run(device: Emulated, tables: dict[str, Any], folder: Path) -> None:
    progress = LineProgress()
    with _on_cores(device.cores):
        kind, size = parse_swap(device.swap)
        run_calibration(CalibrationOptions(folder, device.name, kind, size, ram=True), progress)
        run_sweep(scenario_of(tables), SweepOptions(folder, device.name), progress)


def _points(device: Emulated, data: dict[str, DeviceData]) -> Iterator[Slowed]:
    own = data[device.name]
    for curve in own.curves:
        carried_s = median(
            _carried(device, other, curve, data) for other in DEVICES if other != device
        )
        at = [_at(curve, seconds, own.context) for seconds in (curve.unlimited_s, carried_s)]
        for measured, simulated, carried in zip(curve.medians, *at, strict=True):
            if measured >= SLOWED:
                yield Slowed(
                    device.name, curve.phase, float(measured), float(simulated), float(carried)
                )


def _carried(device: Emulated, other: Emulated, curve: Curve, data: dict[str, DeviceData]) -> float:
    """The same curve's unlimited seconds on another device, its cores' work divided anew."""
    twins = data[other.name].curves
    twin = next(c for c in twins if (c.network, c.phase) == (curve.network, curve.phase))
    return twin.unlimited_s * other.cores / device.cores


def _at(curve: Curve, unlimited_s: float, context: Context) -> np.ndarray:
    """The simulated slowdowns at the curve's limits."""
    return np.asarray(simulated_slowdown(curve, unlimited_s, context).at(curve.limits))


def _row(name: str, points: Sequence[Slowed]) -> list[str]:
    own = [point for point in points if point.device == name]
    others = [point for point in points if point.device != name]
    errors: dict[str, list[float]] = {"simulated": [], "carried": []}
    for point in own:
        twins = [o for o in others if o.phase == point.phase] or others
        for key, found in errors.items():
            factor = median([o.measured / getattr(o, key) for o in twins] or [1.0])
            found.append(abs(getattr(point, key) * factor / point.measured - 1))
    told = [f"{median(found):.1%}" if found else "-" for found in errors.values()]
    return [name, str(len(own)), *told]


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2, sys.argv[2:] or NETWORKS)
