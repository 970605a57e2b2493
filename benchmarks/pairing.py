"""Two ways of doing one thing held against each other: in pairs, their order drawn at random."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable


def interval(ratios: list[float]) -> tuple[float, float]:
    """95 % of the medians of resampled pairs (bootstrap, 10,000 draws)."""
    rng = random.Random(1)
    medians = sorted(statistics.median(rng.choices(ratios, k=len(ratios))) for _ in range(10_000))
    return medians[250], medians[9750]


def in_pairs(seconds: Callable[[bool], float], pairs: int, seed: int) -> list[tuple[float, float]]:
    """What ``seconds(True)`` and ``seconds(False)`` took in each pair."""
    rng = random.Random(seed)
    found = []
    for _ in range(pairs):
        first = rng.random() < 0.5
        took = {first: seconds(first), not first: seconds(not first)}
        found.append((took[True], took[False]))
    return found
