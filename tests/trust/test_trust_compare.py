"""How often `compare` cries wolf, and how often it finds a change: counted on sweeps made up.

Seeded. Ten points of three repeats each, the scenario's default. Spreads differ from point to
point as they do on real machines: a point's own spread is log-normal about the sweep's.
"""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Iterator

import pytest
from msgspec import structs

from edgebench.analysis.compare import compare_sweeps
from edgebench.errors import ResultsError, UsageError
from edgebench.records import PhaseSum
from edgebench.results.sweep_reader import Sweep
from tests.made_records import record, rounds, sweep

_POINTS, _REPEATS = 10, 3
_PAIRS = 100
#: How much spreads differ between points: the standard deviation of their logarithms.
_DIFFER = 0.4


def noisy(chance: random.Random, spreads: list[float], factors: list[float]) -> Sweep:
    times = {"load": 0.3, "first": 0.2, "execute": 0.1}
    records = []
    for point, (spread, factor) in enumerate(zip(spreads, factors, strict=True), start=100):
        for _ in range(_REPEATS):
            phases = [
                PhaseSum(0, "n", name, s * factor * chance.lognormvariate(0, spread))
                for name, s in times.items()
            ]
            phases += rounds(sum(phase.wall_s for phase in phases))
            records.append(record(point, phases=phases))
    return sweep(*records)


def pairs(noise: float, factors: list[float], seed: int) -> Iterator[tuple[Sweep, Sweep]]:
    chance = random.Random(seed)
    for _ in range(_PAIRS):
        spreads = [noise * math.exp(chance.gauss(0, _DIFFER)) for _ in range(_POINTS)]
        yield noisy(chance, spreads, [1.0] * _POINTS), noisy(chance, spreads, factors)


@pytest.mark.heavy
@pytest.mark.promise("Equal sweeps are reported as different in at most one of twenty comparisons.")
@pytest.mark.parametrize("noise", [0.01, 0.03, 0.08])
def test_equal_sweeps_are_seldom_told_apart(noise: float) -> None:
    same = [1.0] * _POINTS
    flagged = sum(bool(compare_sweeps(a, b).regressions) for a, b in pairs(noise, same, 11))
    assert flagged <= 0.05 * _PAIRS


@pytest.mark.heavy
@pytest.mark.promise(
    "A slowdown of 10 % is found in at least 95 of 100 comparisons, at three repeats and "
    "noise of up to 3 %."
)
@pytest.mark.parametrize("noise", [0.01, 0.02, 0.03])
def test_a_tenth_slower_is_found(noise: float) -> None:
    slower = [1.1] * _POINTS
    found = sum(bool(compare_sweeps(a, b).regressions) for a, b in pairs(noise, slower, 12))
    assert found >= 0.95 * _PAIRS


@pytest.mark.promise("Sweeps of different devices are compared only if requested.")
def test_other_devices_are_refused_unless_asked_for() -> None:
    """Different machines differ: that is no regression unless one says so."""
    a, b = next(pairs(0.01, [1.0] * _POINTS, 14))
    with pytest.raises(UsageError, match="different devices"):
        compare_sweeps(a, dataclasses.replace(b, device="pi"))
    assert compare_sweeps(a, dataclasses.replace(b, device="pi"), across_devices=True).rows


def with_storage(made: Sweep, label: str) -> Sweep:
    records = [
        structs.replace(r, limits=structs.replace(r.limits, storage=label)) for r in made.records
    ]
    return dataclasses.replace(made, records=records)


def test_other_storage_is_refused() -> None:
    a, b = next(pairs(0.01, [1.0] * _POINTS, 15))
    held = with_storage(b, "read=90MB/s")
    with pytest.raises(ResultsError, match="no point in common"):
        compare_sweeps(a, held)
    assert compare_sweeps(with_storage(a, "read=90MB/s"), held).rows
