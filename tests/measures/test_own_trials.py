"""Strategies' own trials in real sweeps: made after the timed ones, and in nobody's way."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from edgebench.errors import ResultsError, ScenarioError
from edgebench.measures import strategies
from edgebench.measures.strategies import ErrorBar, Reading, Strategy, TrialData
from edgebench.records import LimitSetting
from edgebench.results.facts import point_facts
from edgebench.results.results import load
from edgebench.run.sweep.sweep import SweepOptions, run_sweep
from edgebench.scenario.points import PlannedTrial, Point, own_trials
from edgebench.scenario.scenario import Scenario, load_scenario
from tests.quiet import Quiet

SCENARIO = """
schema = 1
name = "tiny"
repeats = 2
timeout = "4m"
[workload]
kind = "command"
command = ["true"]
[limits]
memory = ["64M"]
[memory]
strategies = {strategies}
timeout = "{timeout}"
"""


class _Made(Strategy):
    title = counts = blind_to = "made up"
    own_trial = True

    def read(self, seen: TrialData) -> Reading:
        assert seen.folder is not None
        size = int((seen.folder / "size").read_text())
        return Reading(self.name, size, "told", ErrorBar(0, "made up"))


class Working(_Made):
    name = "working"

    def wrap(
        self, command: Sequence[str], env: Mapping[str, str], folder: Path
    ) -> tuple[list[str], dict[str, str]]:
        words = ["sh", "-c", 'echo "$SIZE" >"$FOLDER/size"']
        return words, {**env, "SIZE": "4096", "FOLDER": str(folder)}


class Absent(_Made):
    name = "absent"

    def unavailable(self) -> str | None:
        return "absent is not installed: apt-get install absent"


class Crashing(_Made):
    name, words = "crashing", ("false",)

    def wrap(
        self, command: Sequence[str], env: Mapping[str, str], folder: Path
    ) -> tuple[list[str], dict[str, str]]:
        return list(self.words), dict(env)


class Slow(Crashing):
    name, words = "slow", ("sleep", "100000")


class _Silent(Quiet):
    def __init__(self) -> None:
        self.said: list[str] = []

    def stage(self, text: str) -> None:
        self.said.append(text)


def scenario_of(folder: Path, *strategies: str, timeout: str = "1s", more: str = "") -> Scenario:
    file = folder / "tiny.toml"
    asked = {"strategies": json.dumps(strategies), "timeout": timeout}
    file.write_text(SCENARIO.format(**asked) + more)
    return load_scenario(file)


def test_own_trials_come_after_all_timed_ones() -> None:
    points = [Point(f"p{n}", {"kind": "command"}, LimitSetting()) for n in (1, 2)]
    timed = [PlannedTrial(f"{n:04d}", "p1", block, block) for n, block in ((1, 0), (2, 1))]
    planned = own_trials(points, timed, ["a", "b"])
    assert [one.trial for one in planned] == ["0003", "0004", "0005", "0006"]
    assert {one.block for one in planned} == {2}
    pairs = [(one.strategy, one.point_id) for one in planned]
    assert pairs == [("a", "p1"), ("a", "p2"), ("b", "p1"), ("b", "p2")]


@pytest.mark.own_cgroup
def test_own_trials_are_in_no_timed_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is absent, crashes or runs past its own limit costs its own figures alone."""
    for strategy in (Working(), Absent(), Crashing(), Slow()):
        monkeypatch.setitem(strategies.with_own_trial(), strategy.name, strategy)
    scenario = scenario_of(tmp_path, "absent", "crashing", "slow", "working", timeout="1s")
    progress = _Silent()
    summary = run_sweep(scenario, SweepOptions(tmp_path / "results", "here"), progress)
    assert (summary.trials, summary.outcomes) == (4, {"ok": 4})
    assert any("apt-get install absent" in words for words in progress.said)
    results = load(summary.folder)
    (sweep,) = results.sweeps
    assert sweep.planned == len(results.trials) == 4
    assert sum(sum(point.outcomes.values()) for point in point_facts(sweep)) == 4
    own = {record.strategy: record for record in sweep.strategy_records}
    assert len(sweep.strategy_records) == 2 * len(own)
    assert {name: record.outcome for name, record in own.items()} == {
        "absent": "failed",
        "crashing": "failed",
        "slow": "timeout",
        "working": "ok",
    }
    assert "apt-get install absent" in str(own["absent"].reason)
    assert sweep.reading(own["working"].trial).peak_bytes == 4096
    with pytest.raises(ResultsError):
        sweep.reading(own["crashing"].trial)
    # Nothing of it passes for the workload's demand.
    assert all(record.demand_bytes is None for record in sweep.strategy_records)


def test_a_command_has_no_worker_to_look_from(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="a command has none; leave it out"):
        scenario_of(tmp_path, "process")


def test_dumps_are_as_far_apart_as_the_scenario_says(tmp_path: Path) -> None:
    lines = ("", 'dump_every = "32M"', 'dump_every = "8M"')
    scenarios = [scenario_of(tmp_path, "tcmalloc", more=line) for line in lines]
    assert [one.memory.dump_every_bytes >> 20 for one in scenarios] == [32, 32, 8]
    prints = [one.fingerprint() for one in scenarios]
    assert prints[0] == prints[1] != prints[2]
