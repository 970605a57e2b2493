"""The simulator against counted truth: faults and slowdowns of a sweep's phases.

``python benchmarks/simulated_counts.py SWEEP`` reads a finished sweep of
networks (seconds) and writes ``results/simulated_counts.json``. Nothing is fitted. The simulator's
few constants were chosen on the families in :data:`TRAINING` alone; all others are scored apart.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from report import write

from edgebench.slowdown.calibration.device import load_calibration
from edgebench.slowdown.simulator.simulation import Device, Simulation, device_of, simulate
from edgebench.slowdown.simulator.workload import workload_of

TRAINING = ("alexnet", "vgg", "resnet", "squeezenet")
#: Faults that bring back at least 20 MiB by read-ahead of 4 pages each.
_MANY_FAULTS = 1280
_PHASES = ("load", "first", "execute", "start", "total")
Trials = Sequence[dict[str, Any]]


@dataclass(frozen=True)
class Point:
    """One phase at one limit: measured and simulated slowdown, and major faults."""

    network: str
    loader: str
    phase: str
    slowdown: float
    told: float
    faults: float
    told_faults: float


def main() -> None:
    """Simulate, score, write."""
    sweep = Path(sys.argv[1])
    device = device_of(load_calibration(sweep.resolve().parent.parent, sweep.parent.name, "file"))
    points = [point for one in workloads(sweep) for point in compared(*one, device)]
    rows = [row for part in (True, False) for row in scores(points, part)]
    header = ("families", "points", "of", "count", "simulated", "not slowed")
    says = "Median relative error of what is simulated, and of saying that no limit slows anything."
    write("simulated_counts", says, header, rows, [vars(point) for point in points])


def workloads(sweep: Path) -> Iterator[tuple[dict[str, Any], Trials, dict[str, Any]]]:
    """Each workload's settings, its finished trials, and the networks' tables."""
    about = json.loads((sweep / "networks.json").read_text())["networks"]
    tables = {name: one["table"] for name, one in about.items()}
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in (sweep / "trials.jsonl").read_text().splitlines():
        trial = json.loads(line)
        if trial["outcome"] == "ok":
            groups[json.dumps(trial["settings"], sort_keys=True)].append(trial)
    for settings, trials in groups.items():
        yield json.loads(settings), trials, tables


def compared(
    settings: dict[str, Any], trials: Trials, tables: dict[str, Any], device: Device
) -> Iterator[Point]:
    """Every phase at every limit of one workload."""
    network = "+".join(settings["networks"])
    workload = workload_of({**settings, "pipeline": network}, tables)
    by_limit: dict[float, list[dict[str, Any]]] = defaultdict(list)
    for trial in trials:
        by_limit[trial["limit_bytes"] or np.inf].append(trial)
    free, limits = by_limit.pop(np.inf), sorted(by_limit)
    found = simulate(workload, device, np.array(limits, dtype=float))
    for phase in _PHASES:
        seconds = measured(free, phase, "wall_s")
        if seconds is None:
            continue
        before = measured(free, phase, "major_faults") or 0.0
        io_s, faults = (of_phase(found, values, phase) for values in (found.io_s, found.faults))
        for place, limit in enumerate(limits):
            took = measured(by_limit[limit], phase, "wall_s")
            counted = measured(by_limit[limit], phase, "major_faults")
            assert took is not None
            assert counted is not None
            yield Point(
                network,
                settings["loader"],
                phase,
                took / seconds,
                1 + io_s[place] / seconds,
                max(counted - before, 0.0),
                float(faults[place]),
            )


def of_phase(found: Simulation, values: np.ndarray, phase: str) -> np.ndarray:
    """Simulated values of a phase's tasks, in its rounds."""
    tasks = found.where(None if phase in ("start", "total") else phase)
    return found.a_round(values, tasks, start=phase == "start")


def measured(trials: Trials, phase: str, what: str) -> float | None:
    """The median over trials of the median over steady rounds, or over first ones for a start."""
    name = "round" if phase in ("start", "total") else phase
    each = []
    for trial in trials:
        sums = [p for p in trial["phases"] if p["phase"] == name]
        rounds = [p[what] for p in sums if (p["round"] == 0) == (phase == "start")]
        if rounds:
            each.append(float(np.median(rounds)))
    return float(np.median(each)) if each else None


def scores(points: Sequence[Point], training: bool) -> Iterator[tuple[Any, ...]]:
    """The table's rows for one part of the families."""
    name = "training" if training else "kept shut"
    own = [p for p in points if p.network.startswith(TRAINING) == training]
    steady = [p for p in own if p.phase != "start"]
    start = [p for p in own if p.phase == "start"]
    for which, group in (("steady", steady), ("start", start)):
        for least, most in ((0.0, np.inf), (1.2, 1.5), (1.5, np.inf), (2.0, np.inf)):
            some = [p for p in group if least <= p.slowdown < most]
            between = (
                f"{least:g} to {most:g} times" if most < np.inf else f"{least:g} times or more"
            )
            yield row(name, f"{which}, {between if least else 'all'}", "slowdown", some, slowdown)
        many = [p for p in group if p.loader == "copy" and p.faults >= _MANY_FAULTS]
        yield row(name, f"{which}, copy, 20 MiB or more", "major faults", many, major_faults)


def row(
    name: str,
    points: str,
    of: str,
    group: Sequence[Point],
    error: Callable[[Point], tuple[float, float]],
) -> tuple[Any, ...]:
    """Median errors over a group: what is simulated, and the baseline."""
    if not group:
        return name, points, of, 0, "-", "-"
    told, nothing = np.median([error(point) for point in group], axis=0)
    return name, points, of, len(group), f"{100 * told:.1f} %", f"{100 * nothing:.1f} %"


def slowdown(point: Point) -> tuple[float, float]:
    """Relative errors of the slowdown, and of saying there is none."""
    return abs(point.told / point.slowdown - 1), abs(1 / point.slowdown - 1)


def major_faults(point: Point) -> tuple[float, float]:
    """Relative errors of the faults, and of saying there are none."""
    return abs(point.told_faults / point.faults - 1), 1.0


if __name__ == "__main__":
    main()
