"""The study of frameworks: a column a framework, what was killed is named, and a figure."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs
from study_results import MIB, record, write_sweep

import edgebench
from edgebench.analysis.studies.training import framework_frame, framework_tables
from edgebench.errors import ResultsError
from edgebench.records import LimitSetting, PhaseSum
from edgebench.report.figures.training import framework_figures
from edgebench.slowdown.curves import curves

#: Framework, compiled → each phase's milliseconds in a step of 8 images.
STEPS: dict[tuple[str, bool | None], dict[str, float]] = {
    ("pytorch", None): {"data": 8, "forward": 16, "backward": 32, "step": 8},
    ("tensorflow", False): {"data": 8, "forward": 8, "backward": 12, "step": 4},
    ("tensorflow", True): {"data": 8, "graph": 8},
}


def trial(number: int, framework: str, compiled: bool | None, batch: int, limit: str) -> Any:
    """One trial; its first step takes ten times as long, and PyTorch is killed at 2G."""
    settings = {
        "kind": "training", "network": "basic_cnn", "framework": framework, "compiled": compiled,
        "data": "synthetic", "shape": "3x64x64", "optimizer": "sgd", "batch": batch,
    }  # fmt: skip
    killed = limit != "max" and framework == "pytorch"
    phases = [
        PhaseSum(step, "basic_cnn", phase, ms / 1000 * batch / 8 * (10 if step == 0 else 1))
        for step in range(3)
        for phase, ms in STEPS[framework, compiled].items()
    ]
    return record(
        number,
        settings,
        limits=LimitSetting(limit, None if limit == "max" else 2 << 30),
        limit_bytes=None if limit == "max" else 2 << 30,
        outcome="oom-killed" if killed else "ok",
        peak_bytes=(100 if framework == "pytorch" else 150) * MIB + batch * MIB,
        phases=[] if killed else phases,
    )


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep of both frameworks, two batches, unlimited and at 2G."""
    points = [(*way, batch, limit) for way in STEPS for batch in (8, 16) for limit in ("max", "2G")]
    records = [trial(number, *point) for number, point in enumerate(points, start=1)]
    return write_sweep(tmp_path_factory.mktemp("frameworks"), records, {})


def test_frameworks_stand_side_by_side(swept: Path):
    tables = {table.name: table for table in framework_tables(edgebench.load(swept))}
    assert set(tables) == {"framework memory", "framework time"}
    rows = {
        (row["phase"], row["batch"], row["limit_label"]): row
        for row in tables["framework time"].rows
    }
    whole = rows["whole step", 8, "max"]
    titles = ("PyTorch", "TensorFlow", "TensorFlow compiled")
    assert [round(whole[title] * 1000, 6) for title in titles] == [8, 4, 2]
    graph = rows["as one graph", 16, "max"]
    assert graph["TensorFlow compiled"] == pytest.approx(1e-3)
    assert graph["PyTorch"] != graph["PyTorch"]


def test_what_was_killed_is_named(swept: Path):
    memory = framework_tables(edgebench.load(swept))[0]
    (row,) = [r for r in memory.rows if (r["batch"], r["limit_label"]) == (8, "2G")]
    assert row["PyTorch"] != row["PyTorch"]
    assert row["TensorFlow"] == 158 * MIB
    assert "oom-killed: basic_cnn in PyTorch, batch 8, images of 3x64x64, limit 2G" in memory.says


def test_a_figure_for_each_limit(swept: Path):
    drawn = list(framework_figures(edgebench.load(swept)))
    assert {figure.stem for figure in drawn} == {
        "frameworks-basic_cnn-3x64x64-unlimited",
        "frameworks-basic_cnn-3x64x64-2G",
    }


def test_curves_are_of_one_framework(swept: Path):
    made = [curve for curve in curves(edgebench.load(swept)) if curve.settings["batch"] == 8]
    assert {curve.label for curve in made if curve.phase in ("forward", "graph")} == {
        "basic_cnn · sgd · tensorflow · forward",
        "basic_cnn · sgd · tensorflow · compiled · graph",
    }


def test_a_row_has_the_kernel_s_peak_and_the_allocator_s_own() -> None:
    made = [trial(1, "pytorch", None, 8, "2G"), trial(2, "tensorflow", True, 16, "max")]
    (torch, own), change = made, structs.replace
    strategies = [change(torch, strategy="torch", outcome="ok"), change(own, strategy="tensorflow")]
    strategies += [change(own, trial="0008", strategy="tensorflow", outcome="failed")]
    missing = {"reading": "none"}
    strategies += [change(torch, trial="0009", strategy="torch", outcome="ok", missing=missing)]
    strategies += [change(torch, strategy="rss", outcome="ok")]
    peaks = {"0001": 64 * MIB, "0002": 71 * MIB}
    sweep: Any = SimpleNamespace(
        name="s",
        records=[*made, record(3, {"kind": "inference"})],
        strategy_records=strategies,
        reading=lambda number: SimpleNamespace(peak_bytes=peaks[number]),
    )
    results: Any = SimpleNamespace(sweeps=[sweep])
    killed, graph = framework_frame(results).replace({float("nan"): None}).to_dict("records")
    assert (killed["outcome"], killed["peak_bytes"]) == ("oom-killed", None)
    assert killed["whole_s"] is None
    assert (killed["limit_label"], killed["own_bytes"]) == ("2G", 64 * MIB)
    assert (graph["framework"], graph["batch"]) == ("TensorFlow compiled", 16)
    assert (graph["peak_bytes"], graph["own_bytes"]) == (166 * MIB, 71 * MIB)
    assert (graph["data_s"], graph["graph_s"], graph["whole_s"]) == (0.001, 0.001, 0.002)
    sweep.records = made[:1]
    with pytest.raises(ResultsError, match="no two frameworks trained"):
        framework_frame(results)
