"""What a search of remedies may take: its preparation, trying, and the winner's measurement."""

from __future__ import annotations

import random
import time
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from edgebench.records import LimitSetting, TrialRecord
from edgebench.run.advise.budget import SearchClock
from edgebench.run.advise.candidates import PLAIN, candidates_of
from edgebench.run.advise.planner import AdvicePlanner
from edgebench.run.advise.request import AdviceRequest, advice_scenario, both_points
from edgebench.run.advise.trials import MEASURING, SCREENING, UNLIMITED, AdviceTrials
from edgebench.run.walk.pace import pace_of_program
from edgebench.scenario.points import PlannedTrial

#: A plain trial without and with the limit, seconds.
FREE_S, LIMITED_S = 6.0, 17.0
#: A network whose weights are used again: many remedies fit it.
NETWORK = AdviceRequest("100M", network="alexnet", warm=2, swap="1G")


def searched(
    factors: dict[str, float],
    *,
    budget_s: float = 300.0,
    prepared_s: float = 0.0,
    seed: int = 0,
) -> tuple[AdvicePlanner, AdviceTrials]:
    """Run a search to its end, where a remedy's trial takes that part of the plain one's time."""
    candidates, _ = candidates_of(*both_points(advice_scenario(NETWORK)), lossy=False)
    clock = SearchClock(time.monotonic() - prepared_s)
    planner = AdvicePlanner(candidates, pace_of_program, budget_s, clock=clock)
    by_point = {one.limited.id: (one.name, LIMITED_S) for one in candidates}
    by_point |= {one.unlimited.id: (one.name, FREE_S) for one in candidates}
    chance = random.Random(seed)
    planned: list[PlannedTrial] = []
    records: dict[str, TrialRecord] = {}
    further = planner.first()
    while further:
        (one,) = further
        planned.append(one)
        name, whole_s = by_point[one.point_id]
        factor = factors.get(name, 1.0) if whole_s == LIMITED_S else 1.0
        wall_s = factor * whole_s * chance.lognormvariate(0, 0.03)
        late = one.timeout_s is not None and wall_s > one.timeout_s
        outcome = "timeout" if late else "ok"
        records[one.trial] = recorded(one, one.timeout_s if late else wall_s, outcome)
        further = planner.further(planned, records)
    return planner, planner.trials(planned, records)


def recorded(one: PlannedTrial, wall_s: float | None, outcome: str = "ok") -> TrialRecord:
    """The trial's record."""
    return TrialRecord(
        *(one.trial, one.point_id, one.block, one.repeat, {}, LimitSetting()),
        outcome=outcome,
        started_utc="",
        wall_s=wall_s,
    )


def tried(seen: AdviceTrials) -> list[str]:
    """The remedies that were tried."""
    return [name for name in seen.remedies if seen.records(name, SCREENING, MEASURING)]


@pytest.mark.process
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("best", ["stream", "mapped-weights", "mmap-threshold"])
def test_all_of_it_ends_within_the_budget(best: str, seed: int):
    """With 12 s of preparation and trials of 17 s: five pairs are measured by the fifth minute."""
    planner, seen = searched({best: 0.5}, prepared_s=12.0, seed=seed)
    assert planner.winner(seen) == best
    assert planner.budget.outside_s + seen.took_s() <= 300
    for name in (PLAIN, best):
        assert len(seen.records(name, MEASURING, UNLIMITED)) == 5
    assert len(seen.records(best, UNLIMITED, UNLIMITED + 9, limited=False)) == 2
    assert 3 <= len(tried(seen)) < len(seen.remedies)


@pytest.mark.process
def test_a_remedy_that_the_fastest_beats_by_far_is_stopped():
    """At 1.5 times the fastest one's time, though it is faster than plain; and not tried again."""
    planner, seen = searched({"stream": 0.4, "mapped-weights": 0.8}, budget_s=1e4)
    (lost,) = seen.records("mapped-weights").values()
    assert lost.outcome == "timeout"
    (first, *_) = seen.records("stream").values()
    assert lost.wall_s == pytest.approx(1.5 * (first.wall_s or 0.0))
    assert planner.winner(seen) == "stream"


def test_the_clock_knows_what_the_trials_of_this_start_did_not_take():
    """Trials of an earlier start, which this one goes on with, were not made in its time."""
    now = datetime.now(UTC)
    clock = SearchClock(time.monotonic() - 20.0, now - timedelta(seconds=20))
    point = PlannedTrial("0001", "p001", 0, 0, None)
    hour_ago, lately = (now - timedelta(seconds=s) for s in (3600, 9))
    earlier = replace(recorded(point, 50.0), started_utc=hour_ago.isoformat())
    own = replace(recorded(point, 8.0), started_utc=lately.isoformat())
    outside_s = clock.outside_s({"0001": earlier, "0002": own})
    assert outside_s == pytest.approx(12.0, abs=1.0)
    assert clock.outside_s({}) == outside_s
