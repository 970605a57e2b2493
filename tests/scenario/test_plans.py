"""Plans by name: of a scenario, of the command line, and which fresh trials stand beside walks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from edgebench.cli.run import run
from edgebench.errors import ScenarioError
from edgebench.scenario.new_scenario import layer_scenario
from edgebench.scenario.points import planner_of, points
from edgebench.scenario.scenario import Scenario, load_scenario

WALK = """
schema = 1
name = "walked"
repeats = 2
[workload]
kind = "inference"
network = ["lenet", "alexnet"]
[limits]
memory = ["80%", "60%"]
plan = "walk"
target = 0.1
"""


def loaded(folder: Path, more: str = "", plan: str | None = None) -> Scenario:
    path = folder / "walked.toml"
    path.write_text(WALK + more)
    return load_scenario(path, plan)


def trials(scenario: Scenario) -> list[tuple[str, bool]]:
    made = {point.id: point for point in points(scenario)}
    planner = planner_of(scenario, list(made.values()))
    first = planner.first()
    both = [*first, *planner.further(first, {})]
    return sorted((made[one.point_id].limits.label, one.walk) for one in both)


def test_fresh_trials_stand_beside_walks_where_starts_says(tmp_path: Path) -> None:
    free = [("max", False)] * 2 + [("max", True)] * 4
    at_all = [("60%", False)] * 2 + [("80%", False)] * 2 + free
    assert trials(loaded(tmp_path)) == at_all
    scenario = loaded(tmp_path, 'starts = ["60%"]')
    assert trials(scenario) == [("60%", False)] * 2 + free
    done = CliRunner().invoke(run, [str(tmp_path / "walked.toml"), "--json", "--dry-run"])
    seen = json.loads(done.stdout)
    assert (seen["trials"], seen["walks"]) == (8, 4)


def test_starts_name_limits_of_the_scenario(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="none of memory's: 80%, 60%"):
        loaded(tmp_path, 'starts = ["50%"]')


def test_another_plan_is_one_flag_away(tmp_path: Path) -> None:
    own, other = loaded(tmp_path), loaded(tmp_path, 'starts = ["60%"]', "grid")
    assert trials(other) == sorted(
        [(label, False) for label in ("max", "80%", "60%") for _ in range(4)]
    )
    assert other.text.startswith("# Run with --plan grid, not with the plan below.\n")
    assert other.fingerprint() != own.fingerprint()
    assert other.limits.target is other.limits.starts is None
    done = CliRunner().invoke(run, [str(tmp_path / "walked.toml"), "--plan", "grid", "--dry-run"])
    assert f"edgebench run {tmp_path / 'walked.toml'} --plan grid" in done.stderr.replace("\n", "")


def test_layers_are_walked_once_or_tried_three_times() -> None:
    walked = layer_scenario("lenet", ("60%",), plan="walk")
    assert (walked.limits.plan, walked.repeats) == ("walk", 1)
    tried = layer_scenario("lenet", ("60%",))
    assert (tried.limits.plan, tried.repeats) == ("grid", 3)
    assert layer_scenario("lenet", ("60%",), plan="walk", repeats=2).repeats == 2
