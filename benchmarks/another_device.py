"""How well a device's constants predict it where only another one ran networks: two real machines.

``python benchmarks/another_device.py measure [NETWORK…]`` on one, as root: calibrates it and
measures networks at limits, into ``results-of-another-device``. Then, with that folder beside the
kept sweeps, ``python benchmarks/another_device.py`` on any: what ``predict --constants`` says of
the same limits from the kept sweep ``validation`` and that calibration, against what was measured.
Baselines: the slowdown that the kept sweep's machine has at the same limit; and none at all.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import numpy as np
import report

from edgebench.cli.progress import LineProgress
from edgebench.results.results import load
from edgebench.run.calibration import CalibrationOptions, run_calibration
from edgebench.run.sweep import SweepOptions, run_sweep
from edgebench.scenario.scenario import scenario_of
from edgebench.slowdown.context import DeviceData, device_data
from edgebench.slowdown.curves import Curve
from edgebench.slowdown.prediction_source import elsewhere, source_of
from edgebench.slowdown.query import workload_query
from edgebench.units import parse_swap

SLOWED = 1.5
NETWORKS = ("alexnet", "resnet18", "resnet50", "mobilenet_v2")
LIMITS = ["80%", "60%", "50%", "40%", "30%"]
_ROOT = Path("results-of-another-device")
_KEPT = Path("results/vm-2core-24g/20261121T120452Z-validation-e2a9b0")
_PHASE = "total"


@dataclass(frozen=True)
class Point:
    """A limit of a workload: slowdowns, and steady seconds with their interval."""

    network: str
    loader: str
    limit_mib: float
    measured: float
    predicted: float
    as_here: float
    measured_s: float
    predicted_s: float
    low_s: float | None
    high_s: float | None


def measure(networks: Sequence[str]) -> None:
    """Calibrate this machine, and run the networks on two of its cores."""
    kind, size = parse_swap("3G")
    run_calibration(CalibrationOptions(_ROOT, "another", kind, size), LineProgress())
    tables = {
        "schema": 1,
        "name": "another",
        "timeout": "2m",
        "repeats": 1,
        "workload": {
            "kind": "inference",
            "network": list(networks),
            "schedule": "bulk",
            "loader": ["copy", "mmap"],
            "rounds": 4,
            "warm": 2,
            "threads": 2,
        },
        "limits": {"memory": ["max", *LIMITS], "swap": "3G", "cores": 2},
    }
    run_sweep(scenario_of(tables), SweepOptions(_ROOT, "another"), LineProgress())


def compare() -> None:
    """Predict what was measured there; write the errors and their baselines."""
    (there,), warnings = device_data(load(_ROOT))
    assert there.context.calibration, warnings
    points = list(_points(there))
    slowed = [point for point in points if point.measured >= SLOWED]
    rows = [_row("all", points), _row(f"measured {SLOWED:g} times or more", slowed)]
    says = f"{len({(p.network, p.loader) for p in points})} workloads; median errors."
    header = ["points", "number", "slowdown", "as measured here", "none", "seconds", "in interval"]
    constants = there.context.calibration.to_json()
    told = {"points": [asdict(point) for point in points], "constants": constants}
    report.write("another_device", says, header, rows, told)


def _points(there: DeviceData) -> Iterator[Point]:
    (constants,) = _ROOT.glob("*/calibration-*.json")
    (known,), _ = device_data(load(_KEPT))
    for curve in there.curves:
        if curve.phase == _PHASE and len(curve.limits):
            twin = next(one for one in known.curves if _is_twin(one, curve))
            yield from _points_of(curve, twin, constants)


def _is_twin(one: Curve, other: Curve) -> bool:
    return (one.network, one.phase, one.settings["schedule"], one.settings["loader"]) == (
        other.network,
        other.phase,
        other.settings["schedule"],
        other.settings["loader"],
    )


def _points_of(curve: Curve, twin: Curve, constants: Path) -> Iterator[Point]:
    loader = str(curve.settings["loader"])
    query = workload_query(curve.network, "bulk", loader)
    source, _ = elsewhere(source_of(_KEPT, query), None, constants)
    (found,) = source.predict(query, [f"{int(limit) >> 10}K" for limit in curve.limits])
    order = np.argsort(twin.limits)
    as_here = np.interp(curve.limits, twin.limits[order], twin.medians[order])
    for limit, measured, here, at in zip(
        curve.limits, curve.medians, as_here, found.at, strict=True
    ):
        (told,) = (phase for phase in at.phases if phase.phase == _PHASE)
        yield Point(
            curve.network,
            loader,
            float(limit) / 2**20,
            float(measured),
            told.slowdown,
            float(here),
            float(measured * curve.unlimited_s),
            told.seconds,
            told.low_s,
            told.high_s,
        )


def _row(name: str, points: Sequence[Point]) -> list[str]:
    errors = (
        [abs(p.predicted / p.measured - 1) for p in points],
        [abs(p.as_here / p.measured - 1) for p in points],
        [abs(1 / p.measured - 1) for p in points],
        [abs(p.predicted_s / p.measured_s - 1) for p in points],
    )
    held = sum(
        p.low_s is not None and p.high_s is not None and p.low_s <= p.measured_s <= p.high_s
        for p in points
    )
    medians = [f"{100 * median(one):.0f} %" if one else "-" for one in errors]
    return [name, str(len(points)), *medians, f"{held} of {len(points)}"]


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        measure(sys.argv[2:] or NETWORKS)
    else:
        compare()
