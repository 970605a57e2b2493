"""Points and their plan: complete, stable, and with demand measured before it is needed."""

from __future__ import annotations

import json
import mmap
from collections import Counter
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import to_builtins
from scenario_making import COMMAND, INFERENCE, load_text, with_key

from edgebench.records import LimitSetting
from edgebench.scenario.points import Point, limits_of, plan, points, showing_demand
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
def test_every_point_once_in_every_block(made: list[Point], repeats: int, seed: int) -> None:
    planned = plan(made, repeats, seed)
    assert Counter(trial.point_id for trial in planned) == {p.id: repeats for p in made}
    pairs = {(trial.point_id, trial.block) for trial in planned}
    assert len(pairs) == len(planned) == len({trial.trial for trial in planned})
    assert [trial.trial for trial in planned] == sorted(trial.trial for trial in planned)
    assert [trial.block for trial in planned] == sorted(trial.block for trial in planned)
    assert all(trial.repeat == trial.block for trial in planned)


@settings(max_examples=25)
@given(any_points(), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_the_same_seed_gives_the_same_plan(made: list[Point], repeats: int, seed: int) -> None:
    planned = plan(made, repeats, seed)
    assert planned == plan(list(made), repeats, seed)
    longer = plan(made, repeats + 1, seed)
    assert [(t.point_id, t.block) for t in longer[: len(planned)]] == [
        (t.point_id, t.block) for t in planned
    ]


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
