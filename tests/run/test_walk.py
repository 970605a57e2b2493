"""Walks in real cgroups: one process, many limits, a record each."""

from __future__ import annotations

from pathlib import Path

import pytest
from shared_sweeps import SharedSweep

from edgebench.need import EQUAL_BYTES
from edgebench.records import TrialRecord
from edgebench.results.facts import point_facts
from edgebench.results.results import Results, load
from edgebench.results.times import round_stages, steadiness
from edgebench.run.walk.control import MOST_ROUNDS
from edgebench.slowdown.curves import curves
from tests.own_path import call

pytestmark = [pytest.mark.own_cgroup, pytest.mark.torch, pytest.mark.root, pytest.mark.swap]

BELOW_WHAT_LIVES = """
schema = 1
name = "ended"
seed = 3
repeats = 1
timeout = "2m"
[workload]
kind = "training"
network = "mlp"
width = 256
learning_rate = 0.001
steps = 5
[limits]
memory = ["150%", "8M"]
swap = "none"
plan = "walk"
target = 0.2
starts = ["150%"]
"""


def results_of(folder: Path, text: str) -> Results:
    scenario = folder / "tiny.toml"
    scenario.write_text(text)
    done = call("run", scenario, folder=folder)
    assert done.returncode == 0, done.stderr
    return load(folder / "results")


def walked(results: Results) -> list[TrialRecord]:
    """The records of the walk, up and down, in the order of its visits."""
    (sweep,) = results.sweeps
    both = [*sweep.records, *sweep.upward_records]
    of_walk = [record for record in both if record.walk]
    return sorted(of_walk, key=lambda record: record.walk.step if record.walk else 0)


@pytest.fixture(scope="module")
def results(shared_sweep: SharedSweep) -> Results:
    """A walk through two limits, one of them below the demand."""
    return load(shared_sweep("walk"))


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Walks that all end at a limit below what lives, as there is no swap."""
    return results_of(tmp_path_factory.mktemp("ended"), BELOW_WHAT_LIVES)


def test_one_process_visits_all_limits_down_and_up(results: Results) -> None:
    steps = walked(results)
    assert [step.walk.step for step in steps if step.walk] == list(range(len(steps)))
    assert steps[0].limit_bytes is None
    assert steps[-1].limit_bytes is None
    assert {step.direction for step in steps} == {None, "down", "up"}
    assert len({step.walk.walk for step in steps if step.walk}) == 1
    for step in steps:
        assert step.outcome == "ok"
        if step.limit_bytes and step.peak_bytes:
            assert step.peak_bytes <= step.limit_bytes


def test_rounds_of_a_limit_are_its_own(results: Results) -> None:
    rounds: list[int] = []
    for step in walked(results):
        assert step.walk
        own = [phase.round for phase in step.phases if phase.phase == "round"]
        assert len(own) == len(step.walk.round_s)
        assert len(own) <= MOST_ROUNDS
        rounds += own
        first, *others = results.sweeps[0].events(step.trial)
        assert (first["event"], first["limit_bytes"]) == ("limit", step.limit_bytes)
        assert {e["round"] for e in others if e["event"] == "start"} - {None} == set(own)
    assert rounds == list(range(len(rounds)))


def test_each_round_has_counts(results: Results) -> None:
    for step in walked(results):
        rounds = [phase for phase in step.phases if phase.phase == "round"]
        assert [one.round for one in step.round_counts] == [phase.round for phase in rounds]
        pairs = zip(step.round_counts, rounds, strict=True)
        assert all(one.major_faults == phase.major_faults for one, phase in pairs)
        assert all(one.in_bytes is not None for one in step.round_counts)
        unknown = {name for name in step.missing if name.startswith("round_")}
        told = {f"round_{name}" for name in step.round_sources}
        assert told | unknown >= {"round_in_bytes", "round_swap_in_bytes", "round_out_bytes"}
    (curve,) = results.miss_curves
    assert curve.unlimited_bytes <= EQUAL_BYTES
    assert {point.direction for point in curve.points} == {"down", "up", None}


def test_a_walk_has_one_start(results: Results) -> None:
    """The first round at a further limit is no start: its process has long begun."""
    steps = walked(results)
    assert "start" in round_stages(steps[0]).values()
    assert {stage for step in steps[1:] for stage in round_stages(step).values()} == {
        "settling",
        "steady",
    }


def test_its_last_round_shows_the_working_set(results: Results) -> None:
    """Watched after all timed rounds, told once: less than was ever used, more than the weights."""
    first, *others = walked(results)
    assert first.working_set
    assert {step.working_set for step in others} == {None}
    weights = 2 * 784 * 256 * 8
    assert weights < first.working_set.total_bytes < (first.peak_bytes or 0)
    unlimited, *_ = point_facts(results.sweeps[0])
    assert unlimited.working_set_bytes
    assert unlimited.working_set_bytes.median == first.working_set.total_bytes
    (curve,) = (one for one in curves(results) if one.phase == "total")
    assert curve.working_set_bytes == first.working_set.total_bytes


def test_the_way_up_is_kept_apart(results: Results) -> None:
    assert set(results.trials["direction"].dropna()) == {"down"}
    assert set(results.upward.trials["direction"]) == {"up"}
    (sweep,) = results.sweeps
    assert not [point for point in point_facts(sweep) if point.point.endswith("-up")]
    assert len(sweep.records) == sweep.planned
    (curve,) = (one for one in curves(results) if one.phase == "total")
    assert set(curve.limits) == set(results.trials["limit_bytes"].dropna())


def test_rounds_are_the_repeats_where_one_walk_is_all_there_is(results: Results) -> None:
    """At 85 % no fresh trial ran: its steady rounds say how sure its slowdown is."""
    (sweep,) = results.sweeps
    points = {point.limits.label: point for point in point_facts(sweep)}
    walks = [record.walk for record in sweep.records if record.limits.label == "85%"]
    rounds = [len(steadiness(walk.round_s).rounds) for walk in walks if walk]
    assert points["85%"].times_s["steady"].count == sum(rounds) > 1
    assert points["85%"].ratios["total"].low is not None
    # One walk and one fresh trial: trials are the repeats.
    assert points["150%"].times_s["steady"].count == 2


def test_a_limit_below_what_lives_ends_the_walk_and_the_rest_is_kept(ended: Results) -> None:
    """A kill (or, on version 1, a limit that the kernel refuses) costs only the limits below."""
    every = walked(ended)
    first = min(step.walk.walk for step in every if step.walk)
    steps = [step for step in every if step.walk and step.walk.walk == first]
    assert [step.outcome for step in steps[:2]] == ["ok", "ok"]
    assert steps[1].limits.label == "150%"
    killed = [step.limits.label for step in steps if step.outcome == "oom-killed"]
    refused = [doubt for doubt in steps[0].doubts if doubt.kind == "walk_refused"]
    assert killed == ["8M"] or refused
    (sweep,) = ended.sweeps
    assert sweep.complete


def test_where_no_walk_comes_to_its_end_another_process_shows_the_working_set(
    ended: Results,
) -> None:
    """It goes to no limit; its timed rounds are those of any visit without one."""
    (sweep,) = ended.sweeps
    first, *others = [one for one in sweep.records if one.walk and one.walk.step == 0]
    assert first.working_set is None
    assert "did not come to" in first.missing["working_set"]
    last = others[-1]
    assert last.walk
    assert last.working_set
    assert [one.trial for one in sweep.records if one.walk and one.walk.walk == last.trial] == [
        last.trial
    ]
    assert (last.outcome, last.limit_bytes, last.missing.get("working_set")) == ("ok", None, None)
    rounds = [phase.round for phase in last.phases if phase.phase == "round"]
    assert len(rounds) == len(last.walk.round_s)
    unlimited, *_ = point_facts(sweep)
    assert unlimited.working_set_bytes
    assert unlimited.working_set_bytes.median == last.working_set.total_bytes
