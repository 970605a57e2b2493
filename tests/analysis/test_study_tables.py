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
from edgebench.analysis.studies.phases import accelerator_frame, accelerator_tables
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
    assert any(file.name.startswith(stem) for file in (path / "figures").glob("*.png"))


def test_a_sweep_without_a_study_says_what_each_needs(tmp_path: Path):

    path = write_sweep(tmp_path, [record(1, {"kind": "command", "command": ["true"]})], {})
    with pytest.raises(ResultsError, match="a study: convolution, operators, frameworks"):
        CliRunner().invoke(cli, ["show", "--study", str(path)], catch_exceptions=False)


def shown(table: StudyTable) -> tuple[list[str], list[list[str]]]:
    read = table.as_table(table.rows)
    return list(read.columns), [list(row) for row in read.rows]


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
    where, across = ["draws of", "measure"], ["MiB over its range", "from", "to"]
    size = ["effect", "from", "to"]
    rest = ["variance explained", "interval excludes 0"]
    titles, rows = shown(table)
    assert titles == [*where, "setting", *size, *across, *rest]
    sizes = ["+3.2", "+1.5", "+5.0"]
    where = [["digits, background 512 MiB", "own"], ["letters", "own"]]
    where += [["digits, background 0 MiB", "system 5s"]]
    assert rows == [
        [*where[0], "learning_rate", "-0.70", "-0.90", "-0.50", *sizes, "42%", "yes"],
        [*where[1], "learning_rate", "-0.10", "-0.30", "+0.10", *sizes, "42%", "no"],
        [*where[2], "width", "+0.50", "+0.25", "+0.75", *sizes, "42%", "yes"],
    ]
    assert shown(verdict) == (
        ["draws of", "measure", "confirmed", *across],
        [[*where[0], "yes", *sizes], [*where[1], "no", *sizes]],
    )
    assert "shown" not in verdict.rows[0]
    assert "from 24 or 30 draws" in table.says[0]
    (alone,) = _effect_tables([effect(None, "width", 1.0, 2.0)])
    assert alone.rows[0]["group"] == "all"


def test_memory_in_training_stands_beside_inference(monkeypatch: pytest.MonkeyPatch):
    columns = ["network", "mode", "batch", "demand_bytes", "base_bytes", "above_bytes"]
    rows = [
        ["vgg", "training", 8, 300 * MIB, 120 * MIB, 95 * MIB],
        ["lenet", "training", 16, 210.25 * MIB, 110 * MIB, 64 * MIB],
        ["lenet", "inference", 4, 150 * MIB, 100 * MIB, 31 * MIB],
    ]
    frame = pd.DataFrame(rows, columns=columns)
    frame["memray_bytes"] = [n * MIB for n in (81.5, 42, 23)]
    monkeypatch.setattr(training, "training_memory_frame", lambda _: frame)
    (table,) = training_memory_tables(Any)
    titles, cells = shown(table)
    figures = ["cgroup's demand", "base", "above base", "heap (memray)"]
    assert titles == ["network", "", "batch", *figures]
    assert cells == [
        ["lenet", "inference", "4", "150.0", "100.0", "31.0", "23.0"],
        ["lenet", "training", "16", "210.2", "110.0", "64.0", "42.0"],
        ["vgg", "training", "8", "300.0", "120.0", "95.0", "81.5"],
    ]
    frame = frame.assign(accelerator="cuda", accelerator_bytes=33.5 * MIB)
    (table,) = training_memory_tables(Any)
    titles, cells = shown(table)
    assert titles[-2:] == ["accelerator", "its peak"]
    assert cells[0][-2:] == ["cuda", "33.5"]


def test_a_convolution_s_cost_is_the_median_of_its_trials(monkeypatch: pytest.MonkeyPatch):
    about = {"work": "forward", "limit_label": "max", "channels": 32, "image": 64, "batch": 4}
    trials = [(2, 3, 0.0125, 6), (2, 3, 0.0155, 7), (1, 5, 0.017, 3), (1, 5, 0.018, 2)]
    columns = ("stack", "kernel", "image_s", "image_bytes")
    rows = ({**about, **dict(zip(columns, trial, strict=True))} for trial in trials)
    frame = pd.DataFrame(rows).assign(image_bytes=lambda made: made["image_bytes"] * MIB)
    monkeypatch.setattr(convolutions, "cost_frame", lambda _: frame)
    (table,) = convolutions.convolution_tables(Any)
    titles, cells = shown(table)
    figures = ["ms per image", "MiB per image"]
    assert titles == ["pass", "limit", "stacked", "kernel", "batch", *figures]
    assert cells == [
        ["forward", "max", "1", "5", "4", "17.500", "2.50"],
        ["forward", "max", "2", "3", "4", "14.000", "6.50"],
    ]


def test_copies_stand_beside_their_phase_s_time(tmp_path: Path):
    results = edgebench.load(write_sweep(tmp_path, accelerator_records(), {}))
    frame = accelerator_frame(results).set_index("phase")
    assert set(frame.index) == {"data", "forward"}
    assert frame.loc["data", "wall_s"] == pytest.approx(0.002)
    assert frame.loc["data", "copy_share"] == pytest.approx(0.5)
    assert frame.loc["data", "to_bytes"] == MIB
    assert frame.loc["forward", "copy_share"] == 0
    assert frame.loc["forward", "peak_allocated_bytes"] == 32 * MIB
    (table,) = accelerator_tables(results)
    _, cells = shown(table)
    assert cells[0] == [
        *("lenet", "16", "max", "", "data", "2.000", "1.00", "1.000", "0.00", "0.000", "50%", "0.0")
    ]


def test_a_sweep_on_the_processor_has_no_such_table(tmp_path: Path):
    made = [record(1, {"kind": "training", "network": "lenet", "batch": 1})]
    results = edgebench.load(write_sweep(tmp_path, made, {}))
    with pytest.raises(ResultsError, match='accelerator = "cuda"'):
        accelerator_frame(results)
