"""The search for a program's least limits, in worlds where they are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from msgspec.structs import replace
from scenario.planner_worlds import World

from edgebench.errors import UsageError
from edgebench.records import TrialRecord
from edgebench.results.limit_to_give import given_bracket, viable_bracket
from edgebench.run.search.minimum import search_of
from edgebench.run.search.search import PRECISION, LimitSearch, needs_of
from edgebench.scenario.points import PlannedTrial, points
from edgebench.text import MIB


@dataclass
class Program(World):
    """Limit in MiB (None: unlimited) and number of the trial → seconds; None: killed."""

    seconds: Callable[[float | None, int], float | None] = lambda mib, number: None
    demands: Sequence[int] = ()

    def make(self, planned: PlannedTrial) -> TrialRecord:
        record, number = super().make(planned), int(planned.trial) - 1
        limit = record.limit_bytes
        seconds = self.seconds(None if limit is None else limit / MIB, number)
        late = seconds is not None and planned.timeout_s is not None and seconds > planned.timeout_s
        need = self.demands[min(number, len(self.demands) - 1)] * MIB
        return replace(
            record,
            outcome="oom-killed" if seconds is None else "timeout" if late else "ok",
            wall_s=planned.timeout_s if late else seconds or 0.5,
            harness_s=0.2,
            demand_bytes=need if limit is None else None,
            phases=[],
        )


def search(
    seconds: Callable[[float | None, int], float | None], demands: list[int], **given: Any
) -> tuple[LimitSearch, list[PlannedTrial], dict[str, TrialRecord]]:
    asked = search_of(("true",), {"confirm": 3, "killed": True, **given})
    world = Program(points(asked.scenario), lambda _: 1.0, seconds=seconds, demands=demands)
    planner = asked.planner
    return planner, world.explore(planner), world.records


def spent(records: dict[str, TrialRecord]) -> float:
    return sum((one.wall_s or 0) + (one.harness_s or 0) for one in records.values())


@pytest.mark.parametrize("edge", [412, 405, 350, 200, 430])
def test_a_program_of_three_seconds_is_answered_within_a_minute(edge: int):
    planner, planned, records = search(
        lambda mib, _: 3.0 if not mib or mib >= edge else None, [412]
    )
    found = viable_bracket(planner.tried(planned, records))
    assert found.is_known_to(PRECISION)
    assert found.bad.limit_bytes < edge * MIB <= found.good.limit_bytes
    assert found.good.trials == 4 or spent(records) > 39
    assert spent(records) < 50


def test_with_swap_it_finds_where_it_gets_slow_within_a_minute():
    """Twice as slow at 300 MiB: bracketed, though no trial below was let run to its end."""

    def world(mib: float | None, _: int) -> float:
        return 3.0 * max(1.0, (412 / mib) ** 2.2) if mib else 3.0

    planner, planned, records = search(world, [412], slowdown=2.0, swap="2G")
    found = given_bracket(planner.tried(planned, records), 2.0)
    assert found.bad.limit_bytes < 300.7 * MIB <= found.good.limit_bytes
    assert found.good.limit_bytes / found.bad.limit_bytes < 1.15
    assert spent(records) < 60
    # A limited trial is stopped at five times the unlimited time.
    assert max(one.wall_s for one in records.values()) <= 15.0


@pytest.mark.parametrize("budget_s", [8, 20, 45, 120])
@pytest.mark.parametrize("slowdown", [None, 4.0])
def test_a_given_budget_is_kept(budget_s: int, slowdown: float | None):
    """What the budget cuts short is evidence, since it was slower than allowed by then."""

    def world(mib: float | None, _: int) -> float:
        return 5.0 * max(1.0, (412 / mib) ** 3) if mib else 5.0

    given = {"slowdown": slowdown, "swap": "2G", "budget": f"{budget_s}s"}
    planner, planned, records = search(world, [412], **given)
    assert spent(records) <= budget_s + 0.2
    factor = slowdown or 1.1
    for one in planner.tried(planned, records):
        is_fast = (412 * MIB / one.limit_bytes) ** 3 <= factor
        assert one.is_fast(slowdown) is is_fast


def test_a_demand_that_differs_is_measured_four_times():
    _, _, records = search(lambda mib, _: 1.0, [400, 530, 412, 450])
    unlimited = [r for r in records.values() if r.limits.memory_bytes is None]
    assert len(unlimited) == 4
    sizes = [need.total_bytes for need in needs_of(unlimited)]
    assert (min(sizes), max(sizes)) == (400 * MIB, 530 * MIB)


def test_a_program_that_fails_is_run_once():
    _, planned, _ = search(lambda mib, _: None, [400])
    assert len(planned) == 1


def test_one_limit_is_tried_until_it_fails():
    planner, planned, records = search(
        lambda mib, number: None if number == 2 else 1.0, [1], within="300M", killed=False
    )
    assert len(planned) == 3
    assert planner.tried(planned, records)[0].killed


def test_a_throughput_is_searched_for_as_it_was_asked():
    assert search_of(("true",), {"throughput": 12.5}).rules.throughput == 12.5


@pytest.mark.parametrize("pattern", ["tokens/s", "([0-9]+) of ([0-9]+)", "([0-9]+"])
def test_a_pattern_needs_one_number(pattern: str):
    with pytest.raises(UsageError, match="--throughput-pattern"):
        search_of(("true",), {"throughput_pattern": pattern})
