"""The search for the least limits, in worlds where they are known."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest

from edgebench.errors import UsageError
from edgebench.plan.plan import Point, points
from edgebench.searching.bracketing import (
    PRECISION,
    BracketingPlanner,
    Found,
    Guess,
    viable,
    within,
)
from edgebench.searching.minimum import Asked, find_minimum, minimum_scenario

sys.path.insert(0, str(Path(__file__).parents[1] / "adaptive"))

from adaptive_making import DEMAND, World, hinge


def candidates(swap: str = "4G") -> list[Point]:
    """The points of a search."""
    return points(minimum_scenario(Asked("lenet", 1.5, swap=swap)))


def search(
    edge: float, slowdown: float | None, guess: Guess, swap: str = "4G"
) -> tuple[World, Found, Found]:
    """A search in a world that kills below ``edge`` of the demand and slows by the hinge."""
    made = candidates(swap)
    world = World(made, hinge, killed_below=edge)
    planner = BracketingPlanner(made, slowdown, "round", guess)
    world.explore(planner)
    tried = planner.tried(world.planned, world.records)
    return world, viable(tried), within(tried, slowdown or math.inf)


def true_share(slowdown: float) -> float:
    """Where the hinge reaches a slowdown, as a share of the demand."""
    return 0.9 / math.exp(((slowdown - 1) / 3.0) ** (1 / 1.5))


@pytest.mark.parametrize("edge", [0.06, 0.2, 0.43, 0.77, 0.98])
@pytest.mark.parametrize("wrong_by", [1.0, 0.5, 1.8])
def test_both_limits_are_found(edge: float, wrong_by: float):
    """Wherever the truth and however wrong the guess: bracketed within the precision."""
    guess = Guess(edge * DEMAND * wrong_by, true_share(1.5) * DEMAND * wrong_by)
    _, least, fast = search(edge, 1.5, guess)
    assert least.settled
    assert least.bad.limit_bytes < edge * DEMAND <= least.good.limit_bytes
    assert fast.settled
    truth = max(true_share(1.5), edge) * DEMAND
    assert fast.bad.limit_bytes <= truth * 1.0001
    assert fast.good.limit_bytes >= truth * 0.9999


def test_a_right_guess_takes_few_trials():
    """Unlimited twice, two on each side of both answers, and one more of what was a near thing."""
    guess = Guess(0.4 * DEMAND, true_share(1.5) * DEMAND)
    world, _, _ = search(0.4, 1.5, guess)
    assert len(world.planned) <= 8


def test_without_a_guess_the_demand_less_the_swap_is_where_it_begins():
    """Without swap the edge is at the demand, so few trials find it."""
    world, least, _ = search(0.97, None, Guess(), swap="none")
    assert least.settled
    assert len(world.planned) <= 4


def test_a_wrong_guess_costs_few_more():
    """Steps grow and then close in: even a guess off by three costs no dozen trials an answer."""
    world, _, _ = search(0.25, 1.5, Guess(0.75 * DEMAND, 0.25 * DEMAND))
    assert len(world.planned) <= 20


def test_everything_is_viable():
    """Where even the smallest candidate finishes, there is no limit that failed."""
    _, least, _ = search(0.0, None, Guess())
    assert least.bad is None
    assert least.good is not None


def test_nothing_is_fast_enough():
    """A factor that no limit meets: the search ends, and says so by having nothing good."""
    made = candidates()
    world = World(made, lambda share: 1.0 if share == math.inf else 2.0)
    planner = BracketingPlanner(made, 1.5, "round", Guess())
    world.explore(planner)
    found = within(planner.tried(world.planned, world.records), 1.5)
    assert found.good is None
    assert not found.settled


def test_candidates_are_near_enough():
    """Two steps of the candidates are within the precision, so that an answer can be settled."""
    limits = sorted(p.share for p in candidates() if p.share is not None)
    assert (
        max(high / low for low, high in zip(limits, limits[2:], strict=False)) <= PRECISION + 0.01
    )


def test_impossible_wishes_are_refused(tmp_path: Path):
    """An unknown network, and a phase that a schedule hasn't, are told before anything runs."""
    with pytest.raises(UsageError, match="did you mean 'alexnet'"):
        minimum_scenario(Asked("alexnt"))
    with pytest.raises(UsageError, match="no warm executions"):
        find_minimum(Asked("lenet", 1.5, "execute", "linear"), None, None)


def test_a_near_thing_is_tried_again():
    """With noise, an end of the bracket that is near the factor rests on two trials."""
    made = candidates()
    world = World(made, hinge, noise=0.03)
    planner = BracketingPlanner(made, 1.5, "round", Guess(0.1 * DEMAND, true_share(1.5) * DEMAND))
    world.explore(planner)
    found = within(planner.tried(world.planned, world.records), 1.5)
    for end in (found.good, found.bad):
        assert end.trials == 2 or abs(math.log(end.slowdown / 1.5)) >= 0.15
