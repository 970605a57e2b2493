"""Engines of files, in the worker's own process: units, outputs, phases and options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_models import made_onnx, made_tflite, run_settings
from engine_runs import LOADERS, SCHEDULES, prepared, run

from edgebench.errors import ResultsError, WorkloadError
from edgebench.layers.disk import weights_in
from edgebench.measures.strategies.operators import Operators
from edgebench.measures.strategy import TrialData
from edgebench.records import LimitSetting, TrialRecord
from edgebench.workloads.engines.registry import engine_of

onnxruntime = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.torch


@pytest.mark.parametrize("loader", LOADERS)
def test_layers_in_turn_give_the_whole_graphs_output(onnx_folder: Path, loader: str):
    """By layer or as a whole, weights copied or mapped: the same output, within rounding."""
    outputs = {}
    for schedule in SCHEDULES:
        settings = run_settings("small.onnx", "onnxruntime", onnx_folder, schedule=schedule)
        model = engine_of("onnxruntime").model(onnx_folder, {**settings, "loader": loader}, None)  # type: ignore[attr-defined]
        values = model.inputs()
        for unit in model.units:
            model.load(unit)
            values.update(model.run(unit, {name: values[name] for name in unit.inputs}))
            model.unload(unit)
        outputs[schedule] = values["y"] if schedule == "whole" else values["y"].numpy()
    assert len(model.units) == 3
    np.testing.assert_allclose(outputs["bulk"], outputs["whole"], atol=1e-5)
    np.testing.assert_array_equal(outputs["bulk"], outputs["linear"])


def test_phases_of_each_schedule(onnx_folder: Path):
    """As a whole there are no layers; bulk loads all first; linear loads each before its use."""

    def phases(schedule: str) -> list[tuple[str, int | None]]:
        notes = run("small.onnx", "onnxruntime", onnx_folder, schedule=schedule)
        return [one for one in notes.phases if one[0] not in ("import", "init", "round")]

    assert phases("whole") == [("load", None), ("first", None), ("execute", None)]
    assert phases("bulk") == [
        *(("load", n) for n in range(3)),
        *(("first", n) for n in (None, 0, 1, 2)),
        *(("execute", n) for n in (None, 0, 1, 2)),
    ]
    assert phases("linear") == [(phase, n) for n in range(3) for phase in ("load", "first")]


def test_the_same_seed_gives_the_same_digest(onnx_folder: Path):
    """Rounds and trials agree; another seed's input gives another output."""
    first, again, other = (
        run("small.onnx", "onnxruntime", onnx_folder, rounds=2, seed=seed).notes["output_sha256"]
        for seed in (1, 1, 2)
    )
    assert first == again != other


def test_options_reach_onnx_runtime(onnx_folder: Path):
    """Each option of a scenario is the session's."""
    settings = run_settings("small.onnx", "onnxruntime", onnx_folder, arena=False)
    settings |= {"memory_pattern": False, "optimization": "none", "prepacking": False, "threads": 2}
    model: Any = engine_of("onnxruntime").model(onnx_folder, settings, None)  # type: ignore[attr-defined]
    options = model._options(model.units[0])
    assert not options.enable_cpu_mem_arena
    assert not options.enable_mem_pattern
    level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    assert options.graph_optimization_level == level
    assert options.get_session_config_entry("session.disable_prepacking") == "1"
    assert options.intra_op_num_threads == 2


def test_times_of_operators_come_from_its_profile(onnx_folder: Path, tmp_path: Path):
    """Calls and times by phase, where a strategy asks for them."""
    notes = run("small.onnx", "onnxruntime", onnx_folder, warm=2, profile=tmp_path)
    calls = {(phase, operator): n for phase, operator, n, _ in notes.times}
    assert calls["first", "Gemm"] == 1
    assert calls["execute", "Gemm"] == 2
    assert all(own_ns >= 0 for *_, own_ns in notes.times)


def test_an_engine_without_a_profiler_says_so(tmp_path: Path):
    """The strategy ``operators`` gives LiteRT's reason, and no word of torch."""
    folder = Path(prepared(made_tflite(tmp_path), tmp_path / "cache")["folder"])
    notes = run("small.tflite", "litert", folder, profile=tmp_path).notes
    about = ("0001", "p1", 0, 0, {}, LimitSetting())
    record = TrialRecord(*about, outcome="ok", started_utc="", notes=notes)
    with pytest.raises(ResultsError, match=r"^LiteRT's Python package has no profiler$"):
        Operators().read(TrialData([], record, tmp_path))
    assert "no_operator_times" not in run("small.tflite", "litert", folder).notes


def test_files_of_all_forms_are_evicted(onnx_folder: Path):
    """A cold trial finds none of them in the page cache: another cgroup would pay for them."""
    names = {file.suffix for file in weights_in([onnx_folder])}
    assert names == {".onnx", ".data"}
    assert len(list(onnx_folder.glob("*-*"))) == 4


@pytest.mark.parametrize("loader", ["ort", "packed"])
def test_what_onnx_runtime_saved_gives_the_same_output(tmp_path: Path, loader: str):
    """In its own format, and with packed weights; what another version wrote is written again."""
    made = prepared(made_onnx(tmp_path), tmp_path, schedules=["whole"], loaders=["copy", loader])
    folder = Path(made["folder"])
    outputs = []
    for one in ("copy", loader):
        settings = run_settings("small.onnx", "onnxruntime", folder, loader=one)
        model: Any = engine_of("onnxruntime").model(folder, settings, None)  # type: ignore[attr-defined]
        (unit,) = model.units
        model.load(unit)
        outputs.append(model.run(unit, model.inputs())["y"])
    np.testing.assert_allclose(outputs[1], outputs[0], atol=1e-5)
    index = folder / f"whole-{loader}" / "index.json"
    index.write_text(index.read_text().replace(onnxruntime.__version__, "1.0.0"))
    prepared(made_onnx(tmp_path), tmp_path, schedules=["whole"], loaders=[loader])
    assert onnxruntime.__version__ in index.read_text()


def test_both_engines_compute_the_same(tmp_path: Path):
    """The same weights and picture in ONNX Runtime and LiteRT: within a thousandth."""
    file = made_tflite(tmp_path)
    from ai_edge_litert.interpreter import Interpreter

    picture = np.random.default_rng(0).random((1, 3, 16, 16), dtype=np.float32)
    session = onnxruntime.InferenceSession(str(made_onnx(tmp_path)))
    (expected,) = session.run(None, {"x": picture})
    engine = Interpreter(str(file))
    engine.allocate_tensors()
    moved = np.ascontiguousarray(picture.transpose(0, 2, 3, 1))
    engine.set_tensor(engine.get_input_details()[0]["index"], moved)
    engine.invoke()
    found = engine.get_tensor(engine.get_output_details()[0]["index"])
    np.testing.assert_allclose(found, expected, atol=1e-3)


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize("xnnpack", [True, False])
def test_litert_runs_a_file_as_a_whole(tmp_path: Path, loader: str, xnnpack: bool):
    """Its phases are load, first and execute, with each loader, with XNNPACK and without."""
    folder = Path(prepared(made_tflite(tmp_path), tmp_path / "cache")["folder"])
    notes = run("small.tflite", "litert", folder, loader=loader, xnnpack=xnnpack, rounds=2)
    phases = [one for one in notes.phases if one[0] not in ("import", "init", "round")]
    assert phases == [("load", None), ("first", None), ("execute", None)] * 2
    assert len(notes.notes["output_sha256"]["small.tflite"]) == 64


def test_a_dynamic_batch_is_filled(tmp_path: Path):
    """The batch fills a dynamic first dimension; a fixed one refuses another batch."""
    cache = tmp_path / "cache"
    folder = Path(prepared(made_onnx(tmp_path, "free.onnx", "n"), cache, batch=4)["folder"])
    assert run("free.onnx", "onnxruntime", folder, batch=4).notes["output_sha256"]
    with pytest.raises(WorkloadError, match="batch of 4 does not match the file"):
        prepared(made_onnx(tmp_path), cache, batch=4)
