"""The race of remedies, in worlds where what each of them buys is known."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from edgebench.records import TrialRecord
from edgebench.run.advise.candidates import PLAIN, candidates_of
from edgebench.run.advise.planner import AdvicePlanner
from edgebench.run.advise.request import AdviceRequest, advice_scenario, both_points
from edgebench.run.advise.trials import (
    COMBINING,
    MEASURING,
    SCREENING,
    UNLIMITED,
    AdviceTrials,
    outputs_differ,
)
from edgebench.run.walk.pace import pace_of_program
from edgebench.scenario.points import PlannedTrial, Point

pytestmark = pytest.mark.process

#: Candidate's name, and whether it is under the limit → seconds; None: killed.
World = Callable[[str, bool], float | None]
PROGRAM = AdviceRequest("100M", command=("true",), swap="1G")
#: What most remedies fit: a network whose weights are used again, and results may change.
NETWORK = AdviceRequest("100M", network="alexnet", warm=2, swap="1G", lossy=True)


@dataclass
class Raced:
    """A race that is over."""

    planner: AdvicePlanner
    planned: list[PlannedTrial]
    records: dict[str, TrialRecord]
    names: dict[str, tuple[str, bool]]

    @property
    def seen(self) -> AdviceTrials:
        """All trials."""
        return self.planner.trials(self.planned, self.records)

    @property
    def winner(self) -> str | None:
        """What was measured anew."""
        return self.planner.winner(self.seen)

    def blocks(self, first: int, end: int) -> list[tuple[str, bool]]:
        """The trials of these blocks, in order."""
        return [self.names[p.point_id] for p in self.planned if first <= p.block < end]


@pytest.fixture(autouse=True)
def _plain_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two cores, and no variable that decides for a remedy."""
    for name in ("OMP_NUM_THREADS", "LD_PRELOAD", *(n for n in os.environ if "MALLOC_" in n)):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})


def race(
    world: World,
    budget_s: float = 1e6,
    notes: Callable[[str], dict[str, Any]] = lambda name: {},
    request: AdviceRequest = PROGRAM,
) -> Raced:
    """Run the planner to its end; each time it is asked twice, and must say the same."""
    scenario = advice_scenario(request)
    candidates, _ = candidates_of(*both_points(scenario), lossy=request.lossy)
    planner = AdvicePlanner(candidates, pace_of_program, budget_s)
    by_point = {one.unlimited.id: (one, False) for one in candidates}
    by_point |= {one.limited.id: (one, True) for one in candidates}
    planned, records = planner.first(), dict[str, TrialRecord]()
    while True:
        one = planned[-1]
        candidate, limited = by_point[one.point_id]
        point = candidate.limited if limited else candidate.unlimited
        seconds = world(candidate.name, limited)
        late = seconds is not None and one.timeout_s is not None and seconds > one.timeout_s
        records[one.trial] = TrialRecord(
            *(one.trial, point.id, one.block, one.repeat, point.settings, point.limits),
            outcome="oom-killed" if seconds is None else "timeout" if late else "ok",
            started_utc="",
            wall_s=one.timeout_s if late else seconds or 0.1,
            harness_s=0.1,
            notes=notes(candidate.name),
        )
        further = planner.further(planned, records)
        assert further == planner.further(planned, records)
        if not further:
            names = {name: (one.name, limited) for name, (one, limited) in by_point.items()}
            return Raced(planner, planned, records, names)
        planned = planned + further
        assert len(planned) < 100


def world_of(seed: int = 0, noise: float = 0.02, **factors: float) -> World:
    """Plain takes 1 s without and 4 s with the limit; remedies that factor of it there."""
    chance = random.Random(seed)

    def seconds(name: str, limited: bool) -> float:
        factor = 1.0
        for one in name.split("+"):
            factor *= factors.get(one.replace("-", "_"), 1.0)
        return (4.0 * factor if limited else 1.0) * chance.lognormvariate(0, noise)

    return seconds


def test_no_pressure_no_trials():
    """Where the limit costs nothing, the plain workload is run twice with and without it."""
    raced = race(lambda name, limited: 1.05 if limited else 1.0)
    assert raced.blocks(0, 1000) == [(PLAIN, False), (PLAIN, True)] * 2
    assert not raced.planner.pressed(raced.seen)


def test_noise_is_no_pressure():
    """Five workloads whose times differ by 5 % by chance: nothing is tried of any."""
    for seed in range(5):
        chance = random.Random(seed)
        raced = race(lambda name, limited, c=chance: c.lognormvariate(0, 0.05))  # type: ignore[misc]
        assert raced.winner is None


def test_the_remedy_that_helps_is_found_and_measured_anew():
    """Three times faster: five fresh pairs under the limit, two without, in turns."""
    raced = race(world_of(mmap_threshold=0.3))
    assert raced.winner == "mmap-threshold"
    measured = raced.blocks(MEASURING, UNLIMITED)
    assert measured.count((PLAIN, True)) == measured.count(("mmap-threshold", True)) == 5
    assert raced.blocks(UNLIMITED, UNLIMITED + 9).count(("mmap-threshold", False)) == 2
    first = [name for name, _ in measured[::2]]
    assert {PLAIN, "mmap-threshold"} == set(first)


def test_what_loses_is_not_tried_again():
    """One trial of what is slower than plain, and it is stopped early."""
    raced = race(world_of(mmap_threshold=0.3, one_thread=3.0))
    assert raced.blocks(0, UNLIMITED).count(("one-thread", True)) == 1
    (lost,) = raced.seen.records("one-thread").values()
    assert lost.outcome == "timeout"
    assert lost.wall_s < 7


@pytest.mark.parametrize("seed", range(3))
def test_where_nothing_helps_nothing_wins(seed: int):
    """Pressure, and remedies that do nothing: none is measured anew, or it fails there."""
    raced = race(world_of(seed, noise=0.03))
    winner = raced.winner
    if winner is not None:
        logs = raced.seen.logs(winner, MEASURING, UNLIMITED)
        assert sum(logs) / len(logs) > -0.06


def test_two_that_add_up_are_tried_at_once():
    """Of different groups; the pair wins if it is faster than either."""
    raced = race(world_of(mmap_threshold=0.6, one_thread=0.7))
    assert raced.winner == "mmap-threshold+one-thread"
    assert raced.blocks(COMBINING, MEASURING).count(("mmap-threshold+one-thread", True)) == 2


def test_killed_even_plain():
    """What makes it finish wins; the plain workload is tried again only beside the winner."""
    raced = race(lambda name, limited: None if limited and "mmap" not in name else 1.0)
    assert raced.winner == "mmap-threshold"
    assert raced.seen.plain_end == "oom-killed"
    assert (PLAIN, True) not in raced.blocks(SCREENING, MEASURING)
    assert raced.blocks(MEASURING, UNLIMITED).count((PLAIN, True)) == 5


def test_a_remedy_that_changes_results_is_out():
    """However fast it is, other outputs are no answer."""
    raced = race(
        world_of(mmap_threshold=0.3, trim_threshold=0.6),
        notes=lambda name: {"output_sha256": {"net": "a" if name != "mmap-threshold" else "b"}},
    )
    assert raced.seen.end("mmap-threshold") == "changed"
    assert raced.winner == "trim-threshold"


def test_a_started_race_goes_on_as_it_would_have():
    """From any number of its trials on, the next one is the same: a resumed search changes none."""
    raced = race(world_of(mmap_threshold=0.5, one_thread=0.6, trim_threshold=0.8))
    for count in range(1, len(raced.planned)):
        before = raced.planned[:count]
        records = {one.trial: raced.records[one.trial] for one in before}
        (following,) = raced.planner.further(before, records)
        assert following == raced.planned[count]


@pytest.mark.parametrize("request_", [PROGRAM, NETWORK], ids=["program", "network"])
def test_a_search_holds_its_budget(request_: AdviceRequest):
    """Five minutes for a workload whose trials take ten seconds under the limit, with all steps."""
    factors = {"mmap_threshold": 0.3, "trim_threshold": 0.32, "arena_max": 0.9, "one_thread": 0.8}
    for seed in range(2):
        quick = world_of(seed, **factors)

        def slow(name: str, limited: bool, quick: World = quick) -> float:
            return 2.5 * (quick(name, limited) or 0.0)

        raced = race(slow, 300.0, request=request_)
        assert raced.seen.took_s() <= 300
        assert raced.winner is not None
        assert "threshold" in raced.winner
        measured = raced.blocks(MEASURING, UNLIMITED)
        assert measured.count((raced.winner, True)) == 5


def test_outputs_may_be_off_as_far_as_a_remedy_says():
    """``one-thread`` may change the last digits, and no more than those."""
    for shift, end in ((1e-5, "ok"), (0.01, "changed")):
        raced = race(
            world_of(one_thread=0.3),
            notes=lambda name, s=shift: {  # type: ignore[misc]
                "output_sha256": {"net": name},
                "output_values": [1.0, 2.0 + (s if name == "one-thread" else 0.0)],
            },
        )
        assert raced.seen.end("one-thread") == end


def test_a_loss_may_differ_where_that_was_asked_for():
    """Of remedies that may change something, as accumulation with batch normalisation; else not."""
    scenario = advice_scenario(AdviceRequest("100M", command=("true",)))
    for lossy in (False, True):
        candidates, _ = candidates_of(*both_points(scenario), lossy=lossy)
        found = {one.name: one for one in candidates}
        assert found["one-thread"].lossy is lossy
        assert not found["mmap-threshold"].lossy
        plain, own = (record(candidates[0].limited, loss) for loss in (2.0, 3.0))
        assert outputs_differ(found["one-thread"], own, [plain]) is not lossy
        assert outputs_differ(found["mmap-threshold"], own, [plain])


def record(point: Point, loss: float) -> TrialRecord:
    """A trial of it that finished with this loss."""
    about = ("0001", point.id, 0, 0, point.settings, point.limits)
    return TrialRecord(*about, outcome="ok", started_utc="", notes={"loss": loss})
