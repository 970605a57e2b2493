"""A study's tables, figures and exports, from results folders on disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from study_results import convolution_records, partial_records, search_records, write_sweep

import edgebench
from edgebench.analysis.studies.convolutions import cost_bends, cost_frame, stacked_kernels
from edgebench.analysis.studies.hyperparameters import (
    background_effects,
    draw_frame,
    search_effects,
    search_tables,
)
from edgebench.analysis.studies.training import partial_tables
from edgebench.cli import cli
from edgebench.errors import ResultsError


@pytest.fixture(scope="module")
def convolution(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A convolution's sweep with a known bend."""
    return write_sweep(tmp_path_factory.mktemp("conv"), convolution_records(), {})


@pytest.fixture(scope="module")
def search(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random search whose learning rate does nothing."""
    records, scenario = search_records()
    return write_sweep(tmp_path_factory.mktemp("search"), records, scenario)


def test_cost_is_per_image_and_leaves_warm_passes_out(convolution: Path):
    """An image's time is the median counted pass over the batch; its bytes lie above the base."""
    costs = cost_frame(edgebench.load(convolution))
    row = costs[(costs["kernel"] == 3) & (costs["batch"] == 4) & (costs["stack"] == 1)].iloc[0]
    assert row["image_s"] == pytest.approx(1e-3 * 1.9 * 1.25, rel=0.03)
    assert row["image_bytes"] == pytest.approx((4 << 20) / 4)
    assert row["field"] == 3


@pytest.mark.heavy
def test_the_bend_is_at_the_kernel_that_was_put_in(convolution: Path):
    """5 x 5 lies in the interval at every batch, and the slope beyond is three times as steep."""
    bends = [b for b in cost_bends(cost_frame(edgebench.load(convolution))) if b.along == "kernel"]
    assert len(bends) == 10
    assert all(b.bend.found for b in bends)
    assert sum(b.interval[0] - 0.1 <= 5 <= b.interval[1] + 0.1 for b in bends) >= 8
    assert bends[0].bend.after / bends[0].bend.before == pytest.approx(3, rel=0.2)


def test_stacks_stand_beside_the_kernel_of_their_field(convolution: Path):
    """Two of 3 x 3 are held against 5 x 5, with the ratio that was put in inside its interval."""
    pairs = list(stacked_kernels(cost_frame(edgebench.load(convolution))))
    assert {(p.small, p.large) for p in pairs} == {(2, 3), (3, 5), (4, 7), (5, 9)}
    truth = 2 * 1.9 / 3.5
    found = [p for p in pairs if p.small == 3]
    assert sum(p.low <= truth <= p.high for p in found) >= len(found) - 2
    assert all(p.ratio == pytest.approx(truth, rel=0.05) for p in found)


def test_the_false_conclusion_shows_itself_as_noise(search: Path):
    """A rate without effect has an interval around 0 by both measures; width is found."""
    found = search_effects(edgebench.load(search))
    tables = {table.name: table for table in search_tables(edgebench.load(search))}
    assert [row["survives"] for row in tables["verdict"].rows] == ["no"] * 4
    widths = [e for e in found if e.setting == "width" and e.measure == "own_bytes"]
    drawn = draw_frame(edgebench.load(search))["width"]
    truth = (drawn.max() - drawn.min()) * (1 << 20) / 8
    assert all(e.shown and e.across == pytest.approx(truth, rel=0.02) for e in widths)


def test_a_true_effect_would_survive(tmp_path: Path):
    """The analysis is no rubber stamp: where small rates do use more, it says so."""
    records, scenario = search_records(rate_fools=400)
    tables = search_tables(edgebench.load(write_sweep(tmp_path, records, scenario)))
    (verdict,) = (table for table in tables if table.name == "verdict")
    system = [row for row in verdict.rows if row["measure"] == "system 5s"]
    assert {row["survives"] for row in system} == {"yes"}
    assert system[0]["across"] < 0


def test_a_background_moves_the_systems_measure_alone(search: Path):
    """The same draws with a neighbour: the system's mean jumps, the trial's own stays."""
    effects = background_effects(draw_frame(edgebench.load(search)))
    moved = {row["measure"]: row for row in effects}
    assert moved["own"]["largest_share"] < 0.01
    assert moved["system 5s"]["median_share"] > 0.02
    assert moved["own"]["draws"] == 24


def test_parts_stand_beside_the_whole(tmp_path: Path):
    """A part's step and memory are shares of training all; gradients are told in bytes."""
    results = edgebench.load(write_sweep(tmp_path, partial_records(), {}))
    (table,) = partial_tables(results)
    rows = {row["trained"]: row for row in table.rows}
    assert rows["last"]["step_s_share"] == pytest.approx(0.4)
    assert rows["filters 40%"]["gradient_bytes"] == 168_000
    assert rows["last"]["own_bytes_share"] == pytest.approx(0.4)
    assert rows["all"]["accuracy"] == pytest.approx(0.805)


@pytest.mark.process
@pytest.mark.parametrize("name", ["convolution", "search"])
def test_the_verb_shows_and_draws_them(name: str, request: pytest.FixtureRequest):
    """`show --study` prints every table; `plot` draws what there is."""
    path = request.getfixturevalue(name)
    shown = CliRunner().invoke(cli, ["show", "--study", str(path), "--json"])
    assert shown.exit_code == 0, shown.output
    told = json.loads(shown.stdout)
    wanted = {
        "convolution": ["convolution", "bends", "stacked"],
        "search": ["trials", "effects", "verdict", "background"],
    }
    assert [table["name"] for table in told["tables"]] == wanted[name]
    assert "NaN" not in json.dumps(told)
    drawn = CliRunner().invoke(cli, ["plot", str(path)])
    assert drawn.exit_code == 0, drawn.output
    assert "partial" not in drawn.output
    stem = {"convolution": "convolution-forward", "search": "hyperparameters-memory"}[name]
    assert any(file.name.startswith(stem) for file in (path / "figures").glob("*.png"))


def test_a_sweep_without_a_study_says_what_each_needs(tmp_path: Path):
    """The verb names every study and what it lacked."""
    from study_results import record

    path = write_sweep(tmp_path, [record(1, {"kind": "command", "command": ["true"]})], {})
    with pytest.raises(ResultsError, match="a study: convolution, operators, frameworks"):
        CliRunner().invoke(cli, ["show", "--study", str(path)], catch_exceptions=False)
