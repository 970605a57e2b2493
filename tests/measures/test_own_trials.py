"""Strategies' own trials in real sweeps: made after the timed ones, and in nobody's way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from edgebench.errors import ResultsError, ScenarioError
from edgebench.measures import strategies
from edgebench.measures.strategies import ErrorBar, Reading, Strategy, TrialData
from edgebench.records import LimitSetting
from edgebench.results.facts import point_facts
from edgebench.results.results import Results, load
from edgebench.run.sweep.sweep import SweepOptions, SweepSummary, run_sweep
from edgebench.scenario.points import PlannedTrial, Point, own_trials
from edgebench.scenario.scenario import load_scenario
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

    def begin(self, folder: Path, total: int, done: int) -> None:
        self.total = total


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> None:
    for strategy in (Working(), Absent(), Crashing(), Slow()):
        monkeypatch.setitem(strategies.with_own_trial(), strategy.name, strategy)


def sweep(
    folder: Path, strategies: Sequence[str], timeout: str = "4m"
) -> tuple[SweepSummary, Results, _Silent]:
    file = folder / "tiny.toml"
    asked = {"strategies": list(strategies), "timeout": timeout}
    file.write_text(SCENARIO.format(**asked).replace("'", '"'))
    progress = _Silent()
    summary = run_sweep(load_scenario(file), SweepOptions(folder / "results", "here"), progress)
    return summary, load(summary.folder), progress


def test_own_trials_come_after_all_timed_ones() -> None:
    points = [Point(f"p{n}", {"kind": "command"}, LimitSetting()) for n in (1, 2)]
    timed = [PlannedTrial(f"{n:04d}", "p1", block, block) for n, block in ((1, 0), (2, 1))]
    planned = own_trials(points, timed, ["a", "b"])
    assert [one.trial for one in planned] == ["0003", "0004", "0005", "0006"]
    assert {one.block for one in planned} == {2}
    pairs = [(one.strategy, one.point_id) for one in planned]
    assert pairs == [("a", "p1"), ("a", "p2"), ("b", "p1"), ("b", "p2")]


@pytest.mark.own_cgroup
@pytest.mark.usefixtures("made")
def test_a_strategys_trials_are_in_no_timed_figure(tmp_path: Path) -> None:
    summary, results, progress = sweep(tmp_path, ["working"])
    assert (summary.trials, summary.outcomes) == (4, {"ok": 4})
    assert progress.total == 6
    (only,) = results.sweeps
    assert only.planned == len(results.trials) == 4
    assert sum(sum(point.outcomes.values()) for point in point_facts(only)) == 4
    own = only.strategy_records
    assert [record.strategy for record in own] == ["working", "working"]
    assert only.reading(own[0].trial).peak_bytes == 4096
    # Nothing of it passes for the workload's demand.
    assert all(record.demand_bytes is None for record in own)


@pytest.mark.own_cgroup
@pytest.mark.usefixtures("made")
def test_one_that_is_absent_or_crashes_costs_its_own_figures(tmp_path: Path) -> None:
    """The sweep says so, and goes on; what each was about is in its records."""
    names = ["absent", "crashing", "working"]
    summary, results, progress = sweep(tmp_path, names)
    assert summary.outcomes == {"ok": 4}
    assert any("apt-get install absent" in words for words in progress.said)
    by_strategy = {record.strategy: record for record in results.sweeps[0].strategy_records}
    outcomes = {name: record.outcome for name, record in by_strategy.items()}
    assert outcomes == {"absent": "failed", "crashing": "failed", "working": "ok"}
    assert "apt-get install absent" in str(by_strategy["absent"].reason)
    for name in names[:2]:
        with pytest.raises(ResultsError):
            results.sweeps[0].reading(by_strategy[name].trial)


@pytest.mark.own_cgroup
@pytest.mark.usefixtures("made")
def test_own_trials_have_a_time_limit_of_their_own(tmp_path: Path) -> None:
    """One that would run for days ends by it; timed trials have the scenario's."""
    summary, results, _ = sweep(tmp_path, ["slow"], timeout="1s")
    assert summary.outcomes == {"ok": 4}
    assert {one.outcome for one in results.sweeps[0].strategy_records} == {"timeout"}


def test_a_command_has_no_worker_to_look_from(tmp_path: Path) -> None:
    file = tmp_path / "tiny.toml"
    file.write_text(SCENARIO.format(strategies='["process"]', timeout="1s"))
    with pytest.raises(ScenarioError, match="a command has none; leave it out"):
        load_scenario(file)


def test_dumps_are_as_far_apart_as_the_scenario_says(tmp_path: Path) -> None:
    plain = SCENARIO.format(strategies='["tcmalloc"]', timeout="1s")
    found = []
    for line in ("", 'dump_every = "32M"', 'dump_every = "8M"'):
        file = tmp_path / "tiny.toml"
        file.write_text(plain + line)
        found.append(load_scenario(file))
    assert [one.memory.dump_every_bytes >> 20 for one in found] == [32, 32, 8]
    assert found[0].fingerprint() == found[1].fingerprint() != found[2].fingerprint()
