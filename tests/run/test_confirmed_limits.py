"""The least viable limit is confirmed: it is one that finished in every trial."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from edgebench.records import TrialRecord
from edgebench.results.limit_to_give import LimitBracket, viable_bracket
from edgebench.run.search.minimum import search_of
from edgebench.run.search.search import PRECISION, LimitSearch, SearchRules
from edgebench.run.walk.pace import pace_of_rounds
from edgebench.scenario.points import PlannedTrial, points

sys.path.insert(0, str(Path(__file__).parents[1] / "scenario"))

from planner_worlds import DEMAND, World, hinge


class Sometimes(World):
    """Below 0.5 of the demand everything is killed; below 0.6 the first repeat finishes."""

    def make(self, planned: PlannedTrial) -> TrialRecord:
        """Killed at the second repeat where a limit kills now and then."""
        (point,) = (point for point in self.points if point.id == planned.point_id)
        made = super().make(planned)
        if 0.5 <= (point.limits.memory_bytes or 9 * DEMAND) / DEMAND < 0.6 and planned.repeat == 1:
            return replace(made, outcome="oom-killed", phases=[])
        return made


def search(confirm: int) -> tuple[World, LimitBracket]:
    """A search in that world."""
    made = points(search_of("lenet", {"swap": "4G"}).scenario)
    world = Sometimes(made, hinge, killed_below=0.5)
    planner = LimitSearch(made, SearchRules(pace_of_rounds, slowdown=3.0, confirm=confirm))
    world.explore(planner)
    return world, viable_bracket(planner.tried(world.planned, world.records))


@pytest.mark.promise(
    "Trials at the least viable limit are repeated; a limit that sometimes kills is not viable."
)
def test_a_limit_that_kills_now_and_then_is_not_the_least():
    """Unconfirmed it passes for viable; confirmed, the answer is one that finished every time."""
    _, lucky = search(0)
    assert lucky.good is not None
    assert lucky.good.limit_bytes < 0.6 * DEMAND
    world, found = search(3)
    assert found.is_known_to(PRECISION)
    assert found.good is not None
    assert found.bad is not None
    assert 0.6 * DEMAND <= found.good.limit_bytes <= 0.6 * DEMAND * PRECISION
    assert (found.good.finished, found.good.trials) == (4, 4)
    assert found.bad.killed
    assert len(world.planned) <= 20
