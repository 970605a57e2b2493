"""The trials of ``advise``, in worlds where what each remedy buys is known."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from msgspec.structs import replace

from edgebench.records import TrialRecord
from edgebench.run.advise.advice import advised_scenario, both_points, candidates_of
from edgebench.run.advise.planner import (
    CONFIRMING,
    PLAIN,
    SCREENING,
    AdvicePlanner,
    outputs_differ,
)
from edgebench.run.search.search import pace_of_program, whole_s
from edgebench.scenario.points import PlannedTrial, Point

pytestmark = pytest.mark.process

#: Candidate's name, and whether it is under the limit → seconds; None: killed.
World = Callable[[str, bool], float | None]
PROGRAM = advised_scenario(("true",), "100M", {"swap": "1G"})
#: What most remedies fit: a network whose weights are used again.
NETWORK = advised_scenario("alexnet", "100M", {"warm": 2, "swap": "1G"})


@dataclass
class Searched:
    planner: AdvicePlanner
    planned: list[PlannedTrial]
    records: dict[str, TrialRecord]
    names: dict[str, tuple[str, bool]]

    def blocks(self, first: int, end: int) -> list[tuple[str, bool]]:
        return [self.names[p.point_id] for p in self.planned if first <= p.block < end]

    @property
    def confirmed(self) -> set[str]:
        return {name for name, _ in self.blocks(CONFIRMING, 1000)} - {PLAIN}


@pytest.fixture(autouse=True)
def _plain_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OMP_NUM_THREADS", "LD_PRELOAD", *(n for n in os.environ if "MALLOC_" in n)):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})


def search(
    world: World,
    budget_s: float = 1e6,
    notes: Callable[[str], dict[str, Any]] = lambda name: {},
    scenario: Any = PROGRAM,
    lossy: bool = False,
    prepared_s: float = 0.0,
) -> Searched:
    unlimited, limited = both_points(scenario)
    candidates, _ = candidates_of(unlimited, limited, lossy=lossy)
    began_s = time.monotonic() - prepared_s
    planner = AdvicePlanner(unlimited, candidates, pace_of_program, budget_s, began_s=began_s)
    names = {one.point.id: (one.name, True) for one in candidates}
    names[unlimited.id] = PLAIN, False
    points = {one.point.id: one.point for one in candidates} | {unlimited.id: unlimited}
    planned, records = planner.first(), dict[str, TrialRecord]()
    while True:
        one = planned[-1]
        point, seconds = points[one.point_id], world(*names[one.point_id])
        late = seconds is not None and one.timeout_s is not None and seconds > one.timeout_s
        records[one.trial] = TrialRecord(
            *(one.trial, point.id, one.block, one.repeat, point.settings, point.limits),
            outcome="oom-killed" if seconds is None else "timeout" if late else "ok",
            started_utc="",
            wall_s=one.timeout_s if late else seconds or 0.1,
            harness_s=0.1,
            notes=notes(names[one.point_id][0]),
        )
        further = planner.further(planned, records)
        assert further == planner.further(planned, records)
        if not further:
            return Searched(planner, planned, records, names)
        planned = planned + further
        assert len(planned) < 120


def world_of(seed: int = 0, noise: float = 0.02, scale: float = 1.0, **factors: float) -> World:
    chance = random.Random(seed)

    def seconds(name: str, limited: bool) -> float:
        factor = 4.0 * factors.get(name.replace("-", "_"), 1.0) if limited else 1.0
        return scale * factor * chance.lognormvariate(0, noise)

    return seconds


def test_no_pressure_no_trials():
    found = search(lambda name, limited: 1.05 if limited else 1.0)
    assert found.blocks(0, 1000) == [(PLAIN, False), (PLAIN, True)] * 2
    assert not found.planner.pressed
    # Nor is anything tried where times differ by chance.
    for seed in range(5):
        chance = random.Random(seed)
        found = search(lambda name, limited, c=chance: c.lognormvariate(0, 0.05))  # type: ignore[misc]
        assert not found.blocks(SCREENING, 1000)


def test_the_best_two_are_measured_anew():
    found = search(world_of(mmap_threshold=0.3, arena_max=0.4, one_thread=0.8))
    assert found.confirmed == {"mmap-threshold", "arena-max"}
    assert found.planner.easiest(sorted(found.confirmed)) == "mmap-threshold"
    measured = found.blocks(CONFIRMING, 1000)
    assert len(measured) == 15
    assert {name for name, _ in measured[::3]} == {PLAIN, *found.confirmed}


def test_what_loses_is_not_tried_again():
    found = search(world_of(mmap_threshold=0.3, arena_max=0.8, one_thread=3.0))
    for name in ("one-thread", "arena-max"):
        assert found.blocks(0, 1000).count((name, True)) == 1
    (lost,) = found.planner.records("one-thread").values()
    assert lost.outcome == "timeout"
    assert lost.wall_s < 7


@pytest.mark.parametrize(
    ("plain_s", "tried", "stopped_s"),
    [
        # 1.25 times the plain one's time, and at least two seconds later.
        (20.0, {}, 25.0),
        (1.0, {}, 3.0),
        # 1.5 times the fastest, which does a third of the work in a round.
        (20.0, {"layer-by-layer": 4.0}, 18.0),
        (20.0, {"layer-by-layer": 4.0, "mapped-weights": 6.0}, 9.0),
    ],
)
def test_when_a_trial_has_lost(plain_s: float, tried: dict[str, float], stopped_s: float):
    factors = {name.replace("-", "_"): s / plain_s for name, s in tried.items()}
    found = search(world_of(noise=0.0, scale=plain_s / 4, **factors), scenario=NETWORK)
    wanted = {found.planner.records(name)[SCREENING].trial for name in tried}
    kept = [p for p in found.planned if p.block < SCREENING or p.trial in wanted]
    found.planner.read(kept, found.records)
    assert found.planner._stop_s("stream", SCREENING) == pytest.approx(stopped_s)
    assert found.planner._stop_s(PLAIN, SCREENING) is None


@pytest.mark.parametrize(
    ("took_s", "killed", "is_confirmed"),
    [
        ([3.6] * 5, 0, True),
        # Too little; and 0.76 times as long in the mean, which is one trial of five.
        ([3.9] * 5, 0, False),
        ([1.0, 4.0, 4.0, 4.0, 4.0], 0, False),
        # Fisher's test of 5 in 5 beside 3 and 2 in 5: 10 / 45 and 10 / 120.
        ([4.0] * 5, 2, False),
        ([4.0] * 5, 3, True),
    ],
)
def test_what_fresh_trials_do_not_show_is_not_confirmed(
    took_s: list[float], killed: int, is_confirmed: bool
):
    found = search(world_of(noise=0.0, mmap_threshold=0.3))
    fresh = found.planner.records("mmap-threshold", CONFIRMING, 1000).values()
    plain = found.planner.records(PLAIN, CONFIRMING, 1000).values()
    changed = [replace(record, wall_s=s) for record, s in zip(fresh, took_s, strict=True)]
    changed += [replace(record, outcome="oom-killed") for record in list(plain)[:killed]]
    found.planner.read(found.planned, found.records | {r.trial: r for r in changed})
    assert found.planner.is_confirmed("mmap-threshold") is is_confirmed


def test_killed_even_plain():
    fit = {"mmap-threshold", "arena-max"}
    found = search(lambda name, limited: None if limited and name not in fit else 1.0)
    assert found.confirmed == fit
    assert found.planner.plain_end == "oom-killed"
    assert (PLAIN, True) not in found.blocks(SCREENING, CONFIRMING)
    assert found.blocks(CONFIRMING, 1000).count((PLAIN, True)) == 5
    assert all(map(found.planner.is_confirmed, fit))


def test_outputs_may_be_off_as_far_as_a_remedy_says():
    """Other outputs are no answer, however fast; ``one-thread`` may change the last digits."""
    found = search(
        world_of(mmap_threshold=0.3, arena_max=0.6),
        notes=lambda name: {"output_sha256": {"net": "a" if name != "mmap-threshold" else "b"}},
    )
    assert found.planner.end_of("mmap-threshold") == "changed"
    assert found.confirmed == {"arena-max"}
    for shift, end in ((1e-5, "ok"), (0.01, "changed")):
        found = search(
            world_of(one_thread=0.3),
            notes=lambda name, s=shift: {  # type: ignore[misc]
                "output_sha256": {"net": name},
                "output_values": [1.0, 2.0 + (s if name == "one-thread" else 0.0)],
            },
        )
        assert found.planner.end_of("one-thread") == end


def test_a_started_search_goes_on_as_it_would_have():
    found = search(world_of(mmap_threshold=0.5, one_thread=0.6, trim_threshold=0.8))
    for count in range(1, len(found.planned)):
        before = found.planned[:count]
        records = {one.trial: found.records[one.trial] for one in before}
        (following,) = found.planner.further(before, records)
        assert following == found.planned[count]


@pytest.mark.parametrize(
    ("scenario", "best"),
    [(PROGRAM, "mmap_threshold"), (NETWORK, "mmap_threshold"), (NETWORK, "stream")],
)
def test_five_minutes_are_enough_for_trials_of_ten_seconds(scenario: Any, best: str):
    for seed in range(2):
        world = world_of(seed, scale=2.5, **{best: 0.3, "arena_max": 0.9, "one_thread": 0.8})
        found = search(world, 300.0, scenario=scenario, prepared_s=12.0)
        assert found.planner.outside_s + found.planner.took_s() <= 300
        assert best.replace("_", "-") in found.confirmed
        measured = found.blocks(CONFIRMING, 1000)
        assert measured.count((best.replace("_", "-"), True)) == 5


@pytest.mark.parametrize("budget_s", [8.0, 25.0, 50.0, 120.0, 400.0])
@pytest.mark.parametrize("scale", [0.5, 3.0, 20.0])
@pytest.mark.parametrize("factors", [{}, {"mmap_threshold": 0.5}, {"jemalloc": 0.9}])
def test_no_search_takes_longer_than_its_budget(
    budget_s: float, scale: float, factors: dict[str, float]
):
    found = search(world_of(scale=scale, noise=0.2, **factors), budget_s, prepared_s=5.0)
    harness_s = 0.1
    assert found.planner.outside_s + found.planner.took_s() <= budget_s + harness_s + 0.1
    # What was cut short by the budget is no evidence.
    assert "timeout" not in [r.outcome for r in found.planner.records(PLAIN, CONFIRMING).values()]


def test_preparation_is_what_the_trials_of_this_start_did_not_take():
    now = datetime.now(timezone.utc)
    unlimited, limited = both_points(PROGRAM)
    candidates, _ = candidates_of(unlimited, limited, lossy=False)
    began_s = time.monotonic() - 20.0
    planner = AdvicePlanner(unlimited, candidates, pace_of_program, 300.0, began_s=began_s)
    about = (unlimited.id, 0, 0, unlimited.settings, unlimited.limits, "ok")
    ago = [(now - timedelta(seconds=s)).isoformat() for s in (3600, 9)]
    earlier = TrialRecord("0001", *about, started_utc=ago[0], wall_s=50.0)
    own = TrialRecord("0002", *about, started_utc=ago[1], wall_s=8.0)
    planner.further([], {"0001": earlier, "0002": own})
    assert planner.outside_s == pytest.approx(12.0, abs=1.0)
    assert whole_s(own) == 8.0


def test_a_loss_may_differ_where_that_was_asked_for():
    """Of remedies that may change something, as accumulation with batch normalisation; else not."""

    def record(point: Point, loss: float) -> TrialRecord:
        about = ("0001", point.id, 0, 0, point.settings, point.limits)
        return TrialRecord(*about, outcome="ok", started_utc="", notes={"loss": loss})

    for lossy in (False, True):
        candidates, _ = candidates_of(*both_points(PROGRAM), lossy=lossy)
        found = {one.name: one for one in candidates}
        plain, own = (record(candidates[0].point, loss) for loss in (2.0, 3.0))
        assert outputs_differ(found["one-thread"], own, [plain]) is not lossy
        assert outputs_differ(found["mmap-threshold"], own, [plain])
