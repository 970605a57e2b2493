"""Demand and slowdown of trainings, simulated, against what kept sweeps measured.

``python benchmarks/training_memory.py SWEEP…`` reads finished sweeps of trainings (a minute) and
writes ``results/training_demand.json`` and ``results/training_slowdown.json``. Nothing is fitted.
Beside what is simulated stands the same with an allocator that gives all memory back when it is
freed, and the baseline: no limit slows anything.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from report import write

from edgebench.errors import ResultsError
from edgebench.results.results import Results, load
from edgebench.slowdown.calibration.device import load_calibration
from edgebench.slowdown.context import CannotPredictError, context_of
from edgebench.slowdown.curves import Curve, allocator_words, curves
from edgebench.slowdown.simulator.allocator import MALLOC
from edgebench.slowdown.simulator.profile import simulated_slowdown
from edgebench.slowdown.simulator.simulation import Device, anonymous_peak_bytes, device_of
from edgebench.slowdown.simulator.trace import RuntimeBase
from edgebench.slowdown.simulator.workload import SHAPING, training_of
from edgebench.slowdown.training_tables import with_trainings

MIB = 1 << 20
#: An allocator with these gives back what is freed.
GIVES_BACK = "MALLOC_MMAP_THRESHOLD_=4096 MALLOC_TRIM_THRESHOLD_=4096 MALLOC_TOP_PAD_=0"
#: A phase counts as slowed from this factor on.
SLOWED = 1.5


@dataclass(frozen=True)
class Demand:
    """What one training needs, in bytes; ``given_back``: simulated with all memory given back.

    All is the most of anonymous memory: the measured runtime's base and what training adds.
    """

    about: dict[str, Any]
    measured: float
    simulated: float
    given_back: float


@dataclass(frozen=True)
class Slowdown:
    """One phase of one training at one limit."""

    about: dict[str, Any]
    phase: str
    limit_bytes: float
    measured: float
    simulated: float
    given_back: float


def main() -> None:
    """Simulate, score, write."""
    demands: list[Demand] = []
    slowdowns: list[Slowdown] = []
    for folder in map(Path, sys.argv[1:]):
        results, tables = with_trainings(load(folder))
        constants = load_calibration(folder.resolve().parent.parent, folder.parent.name, "file")
        demands += simulated_demands(results, device_of(constants))
        slowdowns += simulated_slowdowns(results)
        for why in tables.reasons:
            print(why, file=sys.stderr)
    write(
        "training_demand",
        "Demand of trainings in MiB, measured and simulated, and the errors.",
        ("training", "measured", "simulated", "error", "given back at once", "error"),
        [demand_row(one) for one in demands],
        [asdict(one) for one in demands],
    )
    write(
        "training_slowdown",
        "Median relative error of simulated slowdowns of trainings, with known unlimited times.",
        ("phase", "points", "count", "simulated", "given back at once", "not slowed"),
        list(scores(slowdowns)),
        [asdict(one) for one in slowdowns],
    )


def simulated_demands(results: Results, device: Device) -> Iterator[Demand]:
    """Each training without a limit, with its own runtime's base."""
    trials = results.trials
    free = trials[trials["memory_bytes"].isna() & (trials["outcome"] == "ok")]
    words = allocator_words(results.environment)
    keys = ["network", *(name for name in SHAPING if name in free)]
    for values, own in free.groupby(keys, dropna=False):
        about = {k: v for k, v in zip(keys, values, strict=True) if not pd.isna(v)}
        base = float(own["base_bytes"].median())
        here = replace(device, base=RuntimeBase(base, min(base, device.base.hot_bytes)))
        told = []
        for malloc in (words, GIVES_BACK):
            steps = int(own["steps"].iloc[0])
            settings = {**about, "pipeline": about["network"], "steps": steps, MALLOC: malloc}
            try:
                told.append(anonymous_peak_bytes(training_of(settings, results.tables), here))
            except KeyError:
                break
        if len(told) == 2:
            said = {k: about[k] for k in ("network", "shape", "batch", "optimizer")}
            said |= {MALLOC: words} if words else {}
            yield Demand(said, float(own["demand_bytes"].median()), *told)


def simulated_slowdowns(results: Results) -> Iterator[Slowdown]:
    """Every phase of every training at each of its limits."""
    try:
        known = curves(results)
    except ResultsError as error:
        print(error, file=sys.stderr)
        return
    context, _ = context_of(results, known)
    for curve in known:
        # The demand would make what the allocator keeps a part of the runtime.
        settings = {**curve.settings, MALLOC: GIVES_BACK}
        back = replace(curve, settings=settings, demand_bytes=None)
        try:
            told = [simulated_slowdown(one, curve.unlimited_s, context) for one in (curve, back)]
        except CannotPredictError as error:
            print(error, file=sys.stderr)
            continue
        limits = curve.limits
        yield from (
            Slowdown(about_curve(curve), curve.phase, *(float(value) for value in values))
            for values in zip(
                limits, curve.medians, *(function.at(limits) for function in told), strict=True
            )
        )


def about_curve(curve: Curve) -> dict[str, Any]:
    """What tells the training from others."""
    wanted = ("shape", "batch", "optimizer", "checkpointing", "precision", "accumulation", MALLOC)
    settings = {k: curve.settings[k] for k in wanted if curve.settings.get(k) is not None}
    return {"network": curve.network, **settings}


def demand_row(one: Demand) -> tuple[Any, ...]:
    """A line of the table."""
    sizes = one.measured, one.simulated, one.given_back
    measured, told, back = (f"{size / MIB:.0f}" for size in sizes)
    errors = (f"{100 * (size / one.measured - 1):+.1f} %" for size in sizes[1:])
    first, second = errors
    return " ".join(map(str, one.about.values())), measured, told, first, back, second


def scores(points: list[Slowdown]) -> Iterator[tuple[Any, ...]]:
    """The errors of each phase, where it is slowed and over all."""
    by_phase: dict[str, list[Slowdown]] = defaultdict(list)
    for point in points:
        by_phase[point.phase].append(point)
    for phase, own in by_phase.items():
        for words, least in (("all", 0.0), (f"{SLOWED} times or more", SLOWED)):
            some = [point for point in own if point.measured >= least]
            if some:
                yield phase, words, len(some), *(f"{100 * error:.1f} %" for error in errors(some))


def errors(points: list[Slowdown]) -> list[float]:
    """Median relative errors: simulated, with memory given back, and of saying 1."""
    told = [
        [abs(value / one.measured - 1) for value in (one.simulated, one.given_back, 1.0)]
        for one in points
    ]
    return [float(value) for value in np.median(told, axis=0)]


if __name__ == "__main__":
    main()
