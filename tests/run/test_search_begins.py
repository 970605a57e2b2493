"""Where the search for the least limit begins, and how often it tries the answer again."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from edgebench.run.limit_search import BracketingPlanner, LimitGuess
from edgebench.run.minimum_requests import MinimumRequest, minimum_scenario
from edgebench.scenario.points import points

sys.path.insert(0, str(Path(__file__).parents[1] / "scenario"))

from adaptive_making import World


def shares(swap: str, *, edge: float, confirm: int = 0) -> list[float]:
    """The limits tried, as shares of the demand, in a world that kills below ``edge``."""
    made = points(minimum_scenario(MinimumRequest("lenet", swap=swap, within=None)))
    world = World(made, lambda share: 1.0, killed_below=edge)
    world.explore(BracketingPlanner(made, None, "round", LimitGuess(), confirm))
    return world.shares()


def test_without_swap_it_begins_at_the_demand():
    """Less than the demand can't fit."""
    assert shares("none", edge=0.97)[0] == pytest.approx(1.0, abs=0.06)


def test_with_plenty_of_swap_it_begins_where_swap_no_longer_helps():
    """Near a sixth of the demand: nothing runs with much less, however much swap there is."""
    assert shares("8G", edge=0.12)[0] == pytest.approx(0.15, abs=0.02)


@pytest.mark.parametrize("confirm", [0, 2, 5])
def test_the_answer_is_tried_as_often_as_asked(confirm: int):
    """The least limit that finished is tried that many times more."""
    tried = shares("none", edge=0.8, confirm=confirm)
    least = min(share for share in tried if share >= 0.8)
    assert sum(share == least for share in tried) == 1 + confirm
