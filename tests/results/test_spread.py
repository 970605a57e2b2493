"""Intervals of medians: as wide as the repeats allow, from two on."""

from __future__ import annotations

import random

import pytest

from edgebench.results.spread import Spread, ratio_of, spread_of


def differing(repeats: int) -> float:
    """The share of 2,000 pairs of equal quantities that are called different."""
    chance = random.Random(11)

    def drawn() -> Spread:
        spread = spread_of([chance.lognormvariate(0, 0.05) for _ in range(repeats)])
        assert spread
        return spread

    ratios = [ratio_of(drawn(), drawn()) for _ in range(2000)]
    return sum(ratio.is_more or (ratio.high or 1) < 1 for ratio in ratios) / len(ratios)


def test_two_repeats_claim_a_difference_as_seldom_as_three():
    """Of three, one equal pair in ten differs; of two no more, and not none either."""
    assert differing(3) == pytest.approx(0.1, abs=0.02)
    assert 0.03 < differing(2) <= differing(3)
