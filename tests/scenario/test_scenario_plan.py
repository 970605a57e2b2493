"""Plans: their points, in blocks and stable; fresh trials beside walks; and draws."""

from __future__ import annotations

import json
import mmap
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import to_builtins
from scenario_making import COMMAND, INFERENCE, load_text, refusal, with_key

from edgebench.cli.run import run
from edgebench.errors import ScenarioError
from edgebench.records import LimitSetting
from edgebench.scenario.new_scenario import layer_scenario
from edgebench.scenario.points import Point, limits_of, plan, planner_of, points, showing_demand
from edgebench.scenario.scenario import Scenario, load_scenario
from edgebench.text import parse_share, parse_size

LABELS = st.lists(st.sampled_from(["90%", "75%", "50%", "64M", "1G"]), unique=True)


@st.composite
def any_points(draw: st.DrawFn) -> list[Point]:
    labels = ["max", *draw(LABELS)]
    networks, cores = draw(st.integers(1, 3)), draw(st.sampled_from([[None], [1, 2]]))
    made = []
    for network in range(networks):
        for count in cores:
            for label in labels:
                share = parse_share(label)
                size = None if share else parse_size(label)
                limit = LimitSetting(label, size, cores=count)
                made.append(Point(f"p{len(made):03d}", {"network": network}, limit, share))
    return made


@settings(max_examples=25)
@given(any_points(), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_every_point_once_in_every_block_and_the_same_from_a_seed(
    made: list[Point], repeats: int, seed: int
) -> None:
    planned = plan(made, repeats, seed)
    assert Counter(trial.point_id for trial in planned) == {p.id: repeats for p in made}
    pairs = {(trial.point_id, trial.block) for trial in planned}
    assert len(pairs) == len(planned) == len({trial.trial for trial in planned})
    assert [trial.trial for trial in planned] == sorted(trial.trial for trial in planned)
    assert [trial.block for trial in planned] == sorted(trial.block for trial in planned)
    assert all(trial.repeat == trial.block for trial in planned)
    assert planned == plan(list(made), repeats, seed)
    longer = plan(made, repeats + 1, seed)[: len(planned)]
    assert [(t.point_id, t.block) for t in longer] == [(t.point_id, t.block) for t in planned]


@settings(max_examples=25)
@given(any_points(), st.integers(0, 2**32 - 1))
def test_demand_is_measured_before_a_share_of_it_is_needed(made: list[Point], seed: int) -> None:
    """In block 0 each share comes after an unlimited trial of the same work on the same cores."""
    by_id = {point.id: point for point in made}
    order = [by_id[trial.point_id] for trial in plan(made, 1, seed)]
    for place, point in enumerate(order):
        if point.share is not None:
            before = order[:place]
            assert any(other.unlimited and other.same_workload(point) for other in before)


def test_without_shares_the_unlimited_are_mixed_in() -> None:
    """Where no demand is needed, drift hits the unlimited point as much as any other."""
    made = [Point(f"p{n}", {}, LimitSetting(str(n), n << 20)) for n in range(1, 8)]
    made.append(Point("max", {}, LimitSetting()))
    firsts = {plan(made, 1, seed)[0].point_id for seed in range(60)}
    assert len(firsts) > 4


def test_the_matrix_of_a_scenario(tmp_path: Path) -> None:
    text = with_key(INFERENCE, "workload", 'schedule = ["linear", "bulk"]')
    text = with_key(text, "workload", 'loader = ["copy", "mmap"]')
    made = points(load_text(tmp_path, with_key(text, "workload", "batch = [1, 2, 4]")))
    assert len(made) == 2 * 2 * 2 * 3 * 3
    assert [p.id for p in made] == [f"p{n:03d}" for n in range(1, len(made) + 1)]
    assert len({json.dumps(to_builtins(p), sort_keys=True) for p in made}) == len(made)
    assert made[1].limits == LimitSetting("75%")
    assert made[1].share == 0.75


def test_a_pipeline_is_one_workload(tmp_path: Path) -> None:
    text = INFERENCE.replace('network = ["alexnet", "lenet"]', 'pipeline = ["lenet", "alexnet"]')
    made = points(load_text(tmp_path, text))
    assert len(made) == 3
    assert all(point.settings["networks"] == ["lenet", "alexnet"] for point in made)


def test_a_command_is_one_workload(tmp_path: Path) -> None:
    text = with_key(COMMAND, "workload", 'cwd = "."')
    (first, second) = points(load_text(tmp_path, with_key(text, "workload", 'env = {A = "b c"}')))
    assert first.settings == second.settings
    assert first.settings["command"] == ["true"]
    assert first.settings["cwd"] == str(tmp_path)
    assert first.settings["env"] == {"A": "b c"}


@settings(max_examples=40)
@given(st.floats(0.01, 5), st.integers(1, 1 << 40))
def test_a_share_is_rounded_up_to_a_page(share: float, demand: int) -> None:
    limit = limits_of(Point("p001", {}, LimitSetting("x%"), share), demand)
    assert limit.memory_bytes is not None
    assert limit.memory_bytes % mmap.PAGESIZE == 0
    assert 0 <= limit.memory_bytes - share * demand < mmap.PAGESIZE
    assert limit.label == "x%"


def test_a_throttle_may_be_a_share_of_demand() -> None:
    throttled = Point("p2", {}, LimitSetting(memory_high="50%"))
    made = [Point("p1", {}, LimitSetting()), throttled]
    assert limits_of(throttled, 64 << 20).memory_high_bytes == 32 << 20
    assert not throttled.unlimited
    assert showing_demand(made) == {"p1"}


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


SEARCH = """\
schema = 1
name = "tiny"
seed = 3
[workload]
kind = "convolution"
kernel = 3
batch = [1, 2]
[search]
draws = 6
[search.axes]
kernel = {low = 1, high = 11}
channels = {low = 4, high = 64, scale = "log"}
image = {choices = [32, 64]}
"""


def settings_of(scenario: Scenario) -> list[tuple[int, int, int]]:
    """What was drawn for each point of batch 1."""
    made = [point.settings for point in points(scenario) if point.settings["batch"] == 1]
    return [(s["kernel"], s["channels"], s["image"]) for s in made]


def test_draws_are_points_like_any_other(tmp_path: Path):
    scenario = load_text(tmp_path, SEARCH)
    made = [point.settings for point in points(scenario)]
    assert [(s["draw"], s["batch"]) for s in made] == [(d, b) for d in range(6) for b in (1, 2)]
    drawn = settings_of(scenario)
    assert all(1 <= k <= 11 and 4 <= c <= 64 and i in (32, 64) for k, c, i in drawn)
    assert len(set(drawn)) > 3


def test_the_seed_decides_the_draws(tmp_path: Path):
    first, again = load_text(tmp_path, SEARCH), load_text(tmp_path, SEARCH)
    other = load_text(tmp_path, SEARCH.replace("seed = 3", "seed = 4"))
    assert settings_of(first) == settings_of(again) != settings_of(other)
    assert first.fingerprint() == again.fingerprint() != other.fingerprint()


@pytest.mark.parametrize(
    ("given", "wrong", "says"),
    [
        ("kernel = {low = 1", "kernle = {low = 1", "did you mean 'kernel'"),
        ("low = 1, high = 11", "low = 11, high = 1", "low 11 is not below high 1"),
        ("low = 4, high = 64", "low = 0, high = 64", "no logarithm"),
        ("[32, 64]", "[]", "empty list"),
        ("high = 11", "high = 500", "kernel"),
        ("draws = 6", "draws = 0", "greater than or equal to 1"),
        ('scale = "log"', 'scale = "lag"', "did you mean 'log'"),
    ],
)
def test_what_can_not_be_drawn_is_refused(tmp_path: Path, given: str, wrong: str, says: str):
    assert says in refusal(tmp_path, SEARCH.replace(given, wrong))


def test_a_background_is_an_axis(tmp_path: Path):
    text = COMMAND + '[around]\nbackground = ["none", "64M"]\nsystem_memory = ["5s", "100ms"]\n'
    made = [point.settings for point in points(load_text(tmp_path, text))]
    assert list(dict.fromkeys(s["background_bytes"] for s in made)) == [0, 64 << 20]
    assert all(s["system_intervals_s"] == [5.0, 0.1] for s in made)
    for value in ('"much"', '"max"', "true"):
        told = refusal(tmp_path, COMMAND + f"[around]\nbackground = {value}\n")
        assert "around.background" in told
