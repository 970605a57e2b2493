"""A study's tables, figures and exports, from results folders on disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner
from study_results import (
    MIB,
    accelerator_records,
    convolution_records,
    partial_records,
    record,
    search_records,
    write_sweep,
)

import edgebench
from edgebench.analysis.studies import convolutions, training
from edgebench.analysis.studies.convolutions import cost_bends, cost_frame
from edgebench.analysis.studies.hyperparameters import (
    SettingEffect,
    _effect_tables,
    background_effects,
    draw_frame,
    search_effects,
    search_tables,
)
from edgebench.analysis.studies.phases import accelerator_tables
from edgebench.analysis.studies.tables import StudyTable
from edgebench.analysis.studies.training import partial_tables, training_memory_tables
from edgebench.cli import cli
from edgebench.errors import ResultsError


@pytest.fixture(scope="module")
def convolution(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sweep(tmp_path_factory.mktemp("conv"), convolution_records(), {})


@pytest.fixture(scope="module")
def search(tmp_path_factory: pytest.TempPathFactory) -> Path:
    records, scenario = search_records()
    return write_sweep(tmp_path_factory.mktemp("search"), records, scenario)


def test_cost_is_per_image_and_leaves_warm_passes_out(convolution: Path):
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
    effects = background_effects(draw_frame(edgebench.load(search)))
    moved = {row["measure"]: row for row in effects}
    assert moved["own"]["largest_share"] < 0.01
    assert moved["system 5s"]["median_share"] > 0.02
    assert moved["own"]["draws"] == 24


def test_parts_stand_beside_the_whole(tmp_path: Path):
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
    path = request.getfixturevalue(name)
    shown = CliRunner().invoke(cli, ["show", "--study", str(path), "--json"])
    assert shown.exit_code == 0, shown.output
    told = json.loads(shown.stdout)
    wanted = {
        "convolution": ["convolution", "bends"],
        "search": ["trials", "effects", "verdict", "background"],
    }
    assert [table["name"] for table in told["tables"]] == wanted[name]
    assert "NaN" not in json.dumps(told)
    drawn = CliRunner().invoke(cli, ["plot", str(path)])
    assert drawn.exit_code == 0, drawn.output
    assert "partial" not in drawn.output
    stem = {"convolution": "convolution-forward", "search": "hyperparameters-memory"}[name]
    assert list((path / "figures").glob(f"{stem}*.png"))


def test_a_sweep_without_a_study_says_what_each_needs(tmp_path: Path):

    path = write_sweep(tmp_path, [record(1, {"kind": "command", "command": ["true"]})], {})
    with pytest.raises(ResultsError, match="a study: convolution, operators, frameworks"):
        CliRunner().invoke(cli, ["show", "--study", str(path)], catch_exceptions=False)


def shown(table: StudyTable) -> list[list[str]]:
    return [list(row) for row in table.as_table(table.rows).rows]


def effect(background: int | None, setting: str, low: float, high: float, **own: Any) -> Any:
    """An effect between two sizes; 3.25 MiB over the range, from 1.5 to 5."""
    group = {"data": own.get("data", "digits"), "network": "mlp", "background_bytes": background}
    across = 3.25 * MIB, 1.5 * MIB, 5 * MIB
    measure, draws = own.get("measure", "own_bytes"), own.get("draws", 24)
    middle = (low + high) / 2
    return SettingEffect(group, measure, setting, draws, middle, low, high, *across, 0.42)


def test_each_effect_is_a_row():
    effects = [
        effect(512 * MIB, "learning_rate", -0.9, -0.5),
        effect(None, "learning_rate", -0.3, 0.1, data="letters", draws=30),
        effect(0, "width", 0.25, 0.75, measure="system_5s_bytes"),
    ]
    table, verdict = _effect_tables(effects)
    assert (table.name, verdict.name) == ("effects", "verdict")
    sizes = ["+3.2", "+1.5", "+5.0"]
    where = [["digits, background 512 MiB", "own"], ["letters", "own"]]
    where += [["digits, background 0 MiB", "system 5s"]]
    assert shown(table) == [
        [*where[0], "learning_rate", "-0.70", "-0.90", "-0.50", *sizes, "42%", "yes"],
        [*where[1], "learning_rate", "-0.10", "-0.30", "+0.10", *sizes, "42%", "no"],
        [*where[2], "width", "+0.50", "+0.25", "+0.75", *sizes, "42%", "yes"],
    ]
    assert shown(verdict) == [[*where[0], "yes", *sizes], [*where[1], "no", *sizes]]
    assert "from 24 or 30 draws" in table.says[0]
    (alone,) = _effect_tables([effect(None, "width", 1.0, 2.0)])
    assert alone.rows[0]["group"] == "all"


def test_memory_in_training_stands_beside_inference(monkeypatch: pytest.MonkeyPatch):
    columns = ["network", "mode", "batch", "demand_bytes", "base_bytes", "above_bytes"]
    columns += ["memray_bytes", "accelerator", "accelerator_bytes"]
    rows = [
        ["lenet", "training", 16, 210.25 * MIB, 110 * MIB, 64 * MIB, 42 * MIB],
        ["lenet", "inference", 4, 150 * MIB, 100 * MIB, 31 * MIB, 23 * MIB],
    ]
    frame = pd.DataFrame([[*row, "cuda", 33.5 * MIB] for row in rows], columns=columns)
    monkeypatch.setattr(training, "training_memory_frame", lambda _: frame)
    (table,) = training_memory_tables(Any)
    assert shown(table) == [
        ["lenet", "inference", "4", "150.0", "100.0", "31.0", "23.0", "cuda", "33.5"],
        ["lenet", "training", "16", "210.2", "110.0", "64.0", "42.0", "cuda", "33.5"],
    ]


def test_a_convolution_s_cost_is_the_median_of_its_trials(monkeypatch: pytest.MonkeyPatch):
    about = {"work": "forward", "limit_label": "max", "channels": 32, "image": 64, "batch": 4}
    trials = [(2, 3, 0.0125, 6), (2, 3, 0.0155, 7), (1, 5, 0.017, 3), (1, 5, 0.018, 2)]
    rows = [
        {**about, "stack": stack, "kernel": kernel, "image_s": s, "image_bytes": mib * MIB}
        for stack, kernel, s, mib in trials
    ]
    monkeypatch.setattr(convolutions, "cost_frame", lambda _: pd.DataFrame(rows))
    (table,) = convolutions.convolution_tables(Any)
    assert shown(table) == [
        ["forward", "max", "1", "5", "4", "17.500", "2.50"],
        ["forward", "max", "2", "3", "4", "14.000", "6.50"],
    ]


def test_copies_stand_beside_their_phase_s_time(tmp_path: Path):
    results = edgebench.load(write_sweep(tmp_path, accelerator_records(), {}))
    (table,) = accelerator_tables(results)
    assert [" ".join(row) for row in shown(table)] == [
        "lenet 16 max  data 2.000 1.00 1.000 0.00 0.000 50% 0.0",
        "lenet 16 max  forward 10.000 0.00 0.000 0.00 0.000 0% 32.0",
    ]
    # On the processor there is no such table.
    results = edgebench.load(write_sweep(tmp_path, accelerator_records()[1:], {}))
    with pytest.raises(ResultsError, match='accelerator = "cuda"'):
        accelerator_tables(results)
