"""The adaptive plan replayed on a sweep that was measured in full: edgecaffe's 160 trials."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from edgebench.records import TrialRecord
from edgebench.results.sweep_reader import read_sweep
from edgebench.scenario.adaptive import AdaptivePlanner, seconds_of
from edgebench.scenario.points import Point, points
from edgebench.scenario.scenario import load_scenario
from edgebench.scenario.uncertainty import Knot, knots

RESULTS = Path(__file__).parents[2] / "results"
REPEATS = 5
#: Repeats differ by about so much.
TARGET = 0.1
Trials = dict[str, list[TrialRecord]]


@pytest.fixture(scope="module")
def sweep() -> tuple[list[Point], Trials]:
    """The points, and each point's trials in the order of their repeats."""
    (path,) = RESULTS.glob("*/*-edgecaffe-f7f2d1")
    made: Trials = {}
    for record in read_sweep(path).records:
        made.setdefault(record.point, []).append(record)
    ordered = {point: sorted(trials, key=lambda r: r.repeat) for point, trials in made.items()}
    return points(load_scenario(path / "scenario.toml")), ordered


def replayed(every: list[Point], trials: Trials, target: float) -> list[TrialRecord]:
    """The trials that the adaptive plan would have made, as they came out."""
    planner, planned, records = AdaptivePlanner(every, REPEATS, 1, target), [], {}
    more = planner.first()
    while more:
        planned += more
        records |= {o.trial: replace(trials[o.point_id][o.repeat], trial=o.trial) for o in more}
        more = planner.further(planned, records)
    return list(records.values())


def grid(every: list[Point], trials: Trials, labels: Iterable[str], repeats: int):
    """The trials of an even grid of these limits, and unlimited."""
    kept = {"max", *labels}
    return [r for p in every if p.limits.label in kept for r in trials[p.id][:repeats]]


def mean_error(made: list[TrialRecord], trials: Trials) -> float:
    """Of a round's time at all seven limits of all schedules, told from these trials alone.

    Held against the medians of the full sweep's five repeats.
    """
    errors = []
    for schedule in {r.settings["schedule"] for r in made}:
        own = [r for r in made if r.settings["schedule"] == schedule]
        unlimited = [s for r in own if r.limit_bytes is None for s in _seconds(r)]
        every = [r for each in trials.values() for r in each]
        full = _by_limit(r for r in every if r.settings["schedule"] == schedule)
        demand = statistics.median(r.demand_bytes for r in own if r.demand_bytes)
        known = knots(_by_limit(own), unlimited, demand, 0.0)
        for limit, measured in full.items():
            told = statistics.median(unlimited) * math.exp(_between(known, math.log(limit)))
            errors.append(abs(told / statistics.median(measured) - 1))
    return statistics.mean(errors)


def _seconds(record: TrialRecord) -> list[float]:
    seconds = seconds_of(record, "round")
    return [] if seconds is None else [seconds]


def _by_limit(records: Iterable[TrialRecord]) -> dict[float, list[float]]:
    times: dict[float, list[float]] = {}
    for record in records:
        if record.limit_bytes is not None:
            times.setdefault(float(record.limit_bytes), []).extend(_seconds(record))
    return times


def _between(known: list[Knot], x: float) -> float:
    """The line between the knots on both sides."""
    low = max((k for k in known if k.x <= x + 1e-9), key=lambda k: k.x, default=known[0])
    high = min((k for k in known if k.x >= x - 1e-9), key=lambda k: k.x, default=known[-1])
    part = 0.0 if high.x == low.x else (x - low.x) / (high.x - low.x)
    return low.y + part * (high.y - low.y)


def test_a_quarter_of_the_trials_beats_an_even_grid_of_as_many(sweep: tuple[list[Point], Trials]):
    """Where it looks itself it knows every limit twice as well as every second limit would."""
    every, trials = sweep
    made = replayed(every, trials, TARGET)
    even = grid(every, trials, ("768M", "384M", "256M", "128M"), 2)
    assert len(made) <= 0.27 * sum(map(len, trials.values()))
    assert len(made) <= 1.05 * len(even)
    assert mean_error(made, trials) < mean_error(even, trials) / 2
    # More repeats of every second limit don't make up for the limits that they leave out.
    many = grid(every, trials, ("768M", "384M", "256M", "128M"), REPEATS)
    assert mean_error(made, trials) < 0.6 * mean_error(many, trials)


def test_single_trials_of_every_limit_know_less(sweep: tuple[list[Point], Trials]):
    """One trial of each limit is fewer trials, but unlimited ones that are known once mislead."""
    every, trials = sweep
    labels = {point.limits.label for point in every}
    once = grid(every, trials, labels, 1)
    assert mean_error(replayed(every, trials, TARGET), trials) < mean_error(once, trials)
