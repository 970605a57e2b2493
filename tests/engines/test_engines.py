"""Engines of files, in the worker's own process: outputs, phases, options and times of nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_models import made_onnx, made_tflite, run_settings
from engine_runs import prepared, run

from edgebench.errors import ResultsError, WorkloadError
from edgebench.layers.disk import weights_in
from edgebench.measures.strategies import TrialData
from edgebench.measures.strategies.engines import Operators
from edgebench.records import LimitSetting, TrialRecord
from edgebench.workloads.engines.engine import engine_of

onnxruntime = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.torch


def test_a_file_is_run_as_a_plain_program_runs_it(onnx_folder: Path, tmp_path: Path):
    """Weights copied or mapped: the output of a session of the person's own file."""
    (file,) = onnx_folder.glob("file/*.onnx")
    settings = run_settings(file.name, "onnxruntime", onnx_folder)
    picture = {"x": np.random.default_rng(0).random((1, 3, 16, 16), dtype=np.float32)}
    plain = onnxruntime.InferenceSession(str(made_onnx(tmp_path))).run(None, picture)
    for loader in ("copy", "mmap"):
        model: Any = engine_of("onnxruntime").model(file, {**settings, "loader": loader})  # type: ignore[attr-defined]
        model.load()
        np.testing.assert_array_equal(model.run(picture), plain)
    assert model.file.parent.name == "mapped"


def phases(notes: Any) -> list[tuple[str, int | None]]:
    return [one for one in notes.phases if one[0] not in ("import", "init", "round")]


@pytest.mark.parametrize("loader", ["copy", "mmap"])
@pytest.mark.parametrize("xnnpack", [True, False])
def test_a_round_has_three_phases(tmp_path: Path, loader: str, xnnpack: bool):
    folder = Path(prepared(made_tflite(tmp_path), tmp_path / "cache")["folder"])
    notes = run("small.tflite", "litert", folder, loader=loader, xnnpack=xnnpack, rounds=2)
    assert phases(notes) == [("load", None), ("first", None), ("execute", None)] * 2
    assert len(notes.notes["output_sha256"]["small.tflite"]) == 64


def test_the_same_seed_gives_the_same_digest(onnx_folder: Path):
    first, again, other = (
        run("small.onnx", "onnxruntime", onnx_folder, rounds=2, seed=seed).notes["output_sha256"]
        for seed in (1, 1, 2)
    )
    assert first == again != other


def test_options_reach_onnx_runtime(onnx_folder: Path):
    settings = run_settings("small.onnx", "onnxruntime", onnx_folder, arena=False)
    settings |= {"memory_pattern": False, "optimization": "none", "prepacking": False, "threads": 2}
    model: Any = engine_of("onnxruntime").model(onnx_folder, settings)  # type: ignore[attr-defined]
    options = model.options()
    assert not options.enable_cpu_mem_arena
    assert not options.enable_mem_pattern
    level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    assert options.graph_optimization_level == level
    assert options.get_session_config_entry("session.disable_prepacking") == "1"
    assert options.intra_op_num_threads == 2


def test_each_node_is_a_layer(tmp_path: Path):
    made = prepared(made_onnx(tmp_path), tmp_path / "cache", node_times=True)
    loading, *rows = made["table"]
    assert (loading["order"], loading["name"], loading.get("parameter_bytes")) == (
        0,
        "loading",
        None,
    )
    (dense,) = (row for row in rows if row["type"] == "Gemm")
    assert dense["name"] == "dense"
    assert dense["parameter_bytes"] == 4 * (50 * 1024 + 50)
    own = {"node_times": True, "profile_folder": str(tmp_path), "rounds": 2, "warm": 1}
    notes = run("small.onnx", "onnxruntime", Path(made["folder"]), **own)
    assert phases(notes) == [("load", 0), ("first", None), ("execute", None)] * 2
    assert [(place.round, place.phase, place.layer, place.name) for place, _ in notes.nodes] == [
        (number, phase, row["order"], row["name"])
        for number in (0, 1)
        for phase in ("first", "execute")
        for row in rows
    ]
    assert all(took_ns >= 0 for _, took_ns in notes.nodes)
    assert not list(tmp_path.glob("onnxruntime*"))


def test_times_of_operators_come_from_its_profile(onnx_folder: Path, tmp_path: Path):
    notes = run("small.onnx", "onnxruntime", onnx_folder, warm=2, profile=tmp_path)
    calls = {(phase, operator): n for phase, operator, n, _ in notes.times}
    assert calls["first", "Gemm"] == 1
    assert calls["execute", "Gemm"] == 2
    assert all(own_ns >= 0 for *_, own_ns in notes.times)
    assert not notes.nodes


def test_an_engine_without_a_profiler_says_so(tmp_path: Path):
    folder = Path(prepared(made_tflite(tmp_path), tmp_path / "cache")["folder"])
    notes = run("small.tflite", "litert", folder, profile=tmp_path).notes
    about = ("0001", "p1", 0, 0, {}, LimitSetting())
    record = TrialRecord(*about, outcome="ok", started_utc="", notes=notes)
    with pytest.raises(ResultsError, match=r"^LiteRT's Python package has no profiler$"):
        Operators().read(TrialData([], record, tmp_path))
    assert "no_operator_times" not in run("small.tflite", "litert", folder).notes


def test_files_of_all_forms_are_evicted(onnx_folder: Path):
    """A cold trial finds none of them in the page cache: another cgroup would pay for them."""
    names = [str(file.relative_to(onnx_folder)) for file in weights_in([onnx_folder])]
    assert names == ["file/small.onnx", "mapped/small.onnx", "mapped/weights.data"]


@pytest.mark.parametrize("make", [made_onnx, made_tflite])
def test_a_dynamic_batch_is_filled(tmp_path: Path, make: Any):
    cache = tmp_path / "cache"
    file = make(tmp_path, "free.onnx", "n") if make is made_onnx else make(tmp_path)
    made = prepared(file, cache, batch=4)
    assert run(file.name, made["engine"], Path(made["folder"]), batch=4).notes["output_sha256"]
    with pytest.raises(WorkloadError, match="batch of 4 does not match the file"):
        prepared(made_onnx(tmp_path), cache, batch=4)
