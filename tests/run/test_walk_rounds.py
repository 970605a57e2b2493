"""When a limit has had enough rounds, and what is said where they never repeat."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from edgebench.records import PhaseSum, RoundCounts
from edgebench.results.results import load
from edgebench.run.sweep.sweep import SweepOptions, run_sweep
from edgebench.run.walk.control import MOST_ROUNDS, WalkStep
from edgebench.run.walk.pace import visited
from edgebench.run.walk.walk import Visit
from edgebench.scenario.scenario import scenario_of
from edgebench.spans import finished_spans
from tests.own_path import python_path
from tests.quiet import Quiet

#: Every second round takes twice as long as the others.
NETWORK = """
import itertools, time
import torch

class Uneven(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = itertools.count()

    def forward(self, values):
        time.sleep(0.08 if next(self.calls) % 2 else 0.04)
        return values

def network():
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 16 * 16, 10), Uneven())
"""
SCENARIO = """
schema = 1
name = "uneven"
repeats = 1
timeout = "2m"
[workload]
kind = "inference"
network = "uneven:network"
image = 16
rounds = 2
warm = 0
[limits]
memory = ["130%"]
plan = "walk"
"""


def at_one_limit(*seconds: float) -> WalkStep:
    """A step whose rounds took so long."""
    rounds = [PhaseSum(number, None, "round", taken) for number, taken in enumerate(seconds)]
    return WalkStep(Visit(None), None, phases=rounds)


def test_rounds_that_repeat_are_enough_at_once() -> None:
    """Four: the first pays for the change of limit, and three are the least that can repeat."""
    assert not at_one_limit(5.0, 1.0, 1.0).enough
    assert at_one_limit(5.0, 1.0, 1.0, 1.02).enough


def test_two_rounds_that_read_the_same_are_enough_at_a_limit() -> None:
    """Within one per cent, whatever their seconds; the first round, which pays, is not one."""
    assert not reading(9, 200).enough
    assert reading(9, 200, 201).enough
    assert not reading(9, 200, 230).enough
    assert reading(9, 200, 230, 231).enough
    assert not reading(0, 0).enough
    assert reading(0, 0, 0).enough


def test_while_memory_is_still_swapped_out_no_visit_ends() -> None:
    """Rounds that read alike by chance before that has ended, as those of a fresh process."""
    reads = (9, 467, 466, 234, 234)
    swapped = (90, 127, 180, 180, 180)
    ends = [
        replace(reading(*reads[:n]), swapped=[size << 20 for size in swapped[:n]]).enough
        for n in range(1, 6)
    ]
    assert ends == [False, False, False, False, True]
    assert reading(*reads[:3]).enough
    last = replace(reading(*[200] * MOST_ROUNDS), swapped=[n << 24 for n in range(MOST_ROUNDS)])
    assert last.enough


def test_without_a_limit_seconds_must_repeat() -> None:
    """Other rounds are compared with them: that they read nothing is not enough."""
    assert not reading(0, 0, 0, limit=None).enough


def test_what_is_not_counted_ends_no_visit() -> None:
    assert not reading(None, None, None).enough


def reading(*reads_mib: int | None, limit: int | None = 100 << 20) -> WalkStep:
    """A step whose rounds read so much, each slower than the last."""
    step = at_one_limit(*(2.0**number for number in range(len(reads_mib))))
    counts = [
        RoundCounts(number, None if read is None else read << 20)
        for number, read in enumerate(reads_mib)
    ]
    return replace(step, visit=Visit(limit, None), counts=counts)


def test_rounds_that_never_repeat_come_to_an_end() -> None:
    """Each twice the last: the walk goes on after so many, and all but the first count."""
    doubling = [0.01 * 2**n for n in range(MOST_ROUNDS)]
    assert not at_one_limit(*doubling[:-1]).enough
    step = at_one_limit(*doubling)
    assert step.enough
    assert visited(step.phases, []).seconds == doubling[MOST_ROUNDS // 2]


@pytest.mark.long
@pytest.mark.own_cgroup
@pytest.mark.root
def test_a_network_whose_rounds_never_repeat_is_walked_and_told(tmp_path: Path) -> None:
    (tmp_path / "uneven.py").write_text(NETWORK)
    (tmp_path / "uneven.toml").write_text(SCENARIO)
    environment = {**os.environ, "PYTHONPATH": python_path()}
    words = [sys.executable, "-m", "edgebench"]
    for verb in (["run", "uneven.toml"], ["show", "results"]):
        done = subprocess.run(
            [*words, *verb],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    assert "repeat" in done.stdout + done.stderr
    (sweep,) = load(tmp_path / "results").sweeps
    steps = [record for record in [*sweep.records, *sweep.upward_records] if record.walk]
    free = [step.walk for step in steps if step.walk and step.limit_bytes is None]
    assert {len(walk.round_s) for walk in free} == {MOST_ROUNDS}


@pytest.mark.own_cgroup
@pytest.mark.torch
@pytest.mark.root
@pytest.mark.parametrize(
    ("values", "packed_bytes", "ends"),
    [(4900, 1 << 20, False), (600, 1 << 20, True), (3000, 0, True)],
)
def test_a_walk_with_more_events_than_are_kept_comes_to_its_end(
    values: int, packed_bytes: int, ends: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of a limit that it has left make room, up to a bound; then too many end it."""
    # As many events at each limit, however long its rounds take.
    monkeypatch.setattr(WalkStep, "enough", property(lambda step: len(step.round_s) >= 4))
    monkeypatch.setattr("edgebench.run.walk.control._MOST_PACKED_BYTES", packed_bytes)
    monkeypatch.setattr("edgebench.run.trial.process._MOST_EVENT_VALUES", values)
    shares = [f"{share}%" for share in range(130, 180, 10)]
    tables = {
        "schema": 1,
        "name": "small",
        "repeats": 1,
        "timeout": "5m",
        "workload": {"kind": "training", "network": "mlp", "width": 16, "steps": 2},
        "limits": {"memory": ["max", *shares], "swap": "none", "plan": "walk", "starts": ["max"]},
    }
    options = SweepOptions(tmp_path, "test")
    (sweep,) = load(run_sweep(scenario_of(tables), options, Quiet()).folder).sweeps
    steps = [one for one in sweep.records if one.walk]
    assert {one.outcome for one in steps} == {"ok"}
    kinds = {doubt.kind for one in steps for doubt in one.doubts}
    assert kinds & {"walk_events", "events_dropped"} == (
        {"walk_events", "events_dropped"} if ends else set()
    )
    seen = {one.limits.label for one in steps}
    assert "max" in seen
    assert (seen != {"max", *shares}) is ends
    for one in steps:
        rounds = [span for span in finished_spans(sweep.events(one.trial)) if span.phase == "round"]
        assert ends or len(rounds) == len(one.round_counts)
