"""Whether memory still grows, told from series of programs of whom it is known."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from edgebench.cgroups.sampler_process import judge_growth
from edgebench.text import MIB

#: Seconds that a series lasts, and seconds between two samples.
_LASTS_S, _EACH_S = 60.0, 0.05
#: Seconds since the start → MiB in use.
Shape = Callable[[float], float]


def noisy(shape: Shape, most: float, seed: int = 1) -> Shape:
    """The shape with up to so many MiB more, at random."""
    chance = random.Random(seed)
    return lambda t: shape(t) + most * chance.random()


def tooth(t: float, period_s: float) -> float:
    return t / period_s % 1.0


def jagged(period_s: float, least: float, most: float, per_s: float = 0.0, seed: int = 2) -> Shape:
    """What a garbage collector leaves: teeth of different heights, on a floor that may rise."""
    heights = [random.Random(seed + n).uniform(0.7, 1.0) for n in range(1000)]
    return lambda t: (
        least + per_s * t + (most - least) * heights[int(t / period_s)] * tooth(t, period_s)
    )


def ramp(t: float, end_s: float) -> float:
    """From 0 to 1 until so many seconds."""
    return min(1.0, t / end_s)


#: Programs whose memory grows for as long as they run.
GROWING: dict[str, Shape] = {
    "a leak at each request": lambda t: 30 + 1.5 * math.floor(t / 0.3),
    "a slow leak on a large base": lambda t: 900 * ramp(t, 5) + 0.5 * t,
    "a leak below a garbage collector": jagged(2.5, 100, 160, per_s=1.2),
    "a leak that gets slower": lambda t: 50 + 40 * math.sqrt(t),
    "a leak that begins late": lambda t: 200 + 3 * max(0.0, t - 35),
    "a leak under noise": noisy(lambda t: 300 + 1.0 * t, 15),
}
POOL = (0, 0, 0, 0, 4, 0, 2, 5, 4, 5, 5, 5)
#: Programs whose need can be told.
LEVEL: dict[str, Shape] = {
    "a steady garbage collector": jagged(2.5, 100, 160),
    "a cache that fills early": lambda t: 50 + 250 * ramp(t, 15),
    "a cache that fills late": lambda t: 50 + 250 * ramp(t, 48),
    "a large program that grows by less than a 200th": lambda t: 900 + 3 * t / _LASTS_S,
    "a small program that grows by less than 1 MiB": lambda t: 20 + 0.9 * t / _LASTS_S,
    # Of the pairs of its last eight 5 s too few rise, less those that fall; some are level.
    "a pool that changes now and then": lambda t: 100 + 9 * POOL[min(11, int(t / 5))],
    "a warm-up": lambda t: 100 + 200 * (1 - math.exp(-t / 8)),
    "batches come and go": noisy(lambda t: 200 + 80 * (tooth(t, 1.1) < 0.3), 6, 4),
}


def judged(shape: Shape, lasts_s: float = _LASTS_S):
    since_s = [n * _EACH_S for n in range(round(lasts_s / _EACH_S))]
    return judge_growth([1000 + s for s in since_s], [round(shape(s) * MIB) for s in since_s])


@pytest.mark.parametrize("name", GROWING)
def test_growth_is_told(name: str):
    found = judged(GROWING[name])
    assert found is not None
    assert found.grows
    assert found.level_s is None


@pytest.mark.parametrize("name", LEVEL)
def test_a_plateau_is_told_from_growth(name: str):
    found = judged(LEVEL[name])
    assert found is not None
    assert not found.grows
    assert found.bytes_per_s == 0


def test_how_fast_and_since_when():
    leak, cache = judged(lambda t: 30 + t), judged(LEVEL["a cache that fills early"])
    assert leak.bytes_per_s * 60 / MIB == pytest.approx(60, rel=0.1)
    assert cache.level_s == pytest.approx(15, rel=0.05)


@pytest.mark.parametrize("left", [2, 50])
def test_what_a_program_gives_back_when_it_ends_hides_no_growth(left: float):
    assert judged(lambda t: 30 + 1.5 * t if t < 59.8 else left).grows


def test_too_short_a_series_tells_nothing():
    assert judged(lambda t: 100 * t, 0.9) is None
