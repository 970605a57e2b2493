"""ONNX, TFLite and Keras files through the verbs, in real cgroups."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from engine_models import made_onnx
from shared_sweeps import SharedSweep

from edgebench.cli import cli
from edgebench.errors import EdgebenchError
from edgebench.results.results import load
from edgebench.run.search.minimum import search_of
from edgebench.scenario.new_scenario import layer_scenario

pytestmark = [pytest.mark.torch, pytest.mark.own_cgroup]


def verb(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "edgebench", *words],
        cwd=folder,
        env={**os.environ, "EDGEBENCH_CACHE": str(folder / "cache")},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def read(*words: str | Path) -> str:
    return CliRunner().invoke(cli, [*map(str, words)], catch_exceptions=False).stdout


@pytest.mark.parametrize(
    ("sweep", "file", "engine"),
    [("onnx", "small.onnx", "onnxruntime"), ("litert", "small.tflite", "litert")],
)
def test_a_sweep_of_a_file(sweep: str, file: str, engine: str, shared_sweep: SharedSweep):
    folder = shared_sweep(sweep)
    records = load(folder).sweeps[0].records
    assert [record.outcome for record in records] == ["ok", "ok"]
    for record in records:
        told = record.settings
        assert (told["networks"], told["engine"], told["schedule"]) == ([file], engine, "whole")
    assert file in read("show", folder, "--json")
    asked = ("predict", "--results", folder, "--memory", "200M")
    assert file in read(*asked, file)
    with pytest.raises(EdgebenchError, match=r"other\.onnx was not measured"):
        read(*asked, "other.onnx")


@pytest.mark.quick
def test_layers_of_an_onnx_file_are_its_nodes(shared_sweep: SharedSweep):
    """Each has times and weights; its memory is not known, and is never 0."""
    words = ("layers", "--from", shared_sweep("onnx"), "--no-figure")
    (table,) = json.loads(read(*words, "--json"))["tables"]
    loading, *nodes = table["layers"]
    assert (loading["name"], loading["unlimited"]["first"]) == ("loading", None)
    assert loading["unlimited"]["load"]["peak_bytes"] > 0
    (dense,) = (node for node in nodes if node["type"] == "Gemm")
    assert dense["parameter_bytes"] == 4 * (50 * 1024 + 50)
    for node in nodes:
        assert node["unlimited"]["load"] is None
        assert node["unlimited"]["first"]["seconds"]["median"] >= 0
        assert node["unlimited"]["first"]["peak_bytes"] is None
    text = read(*words)
    assert text.startswith("small.onnx")
    assert "dense           200 KiB" in text
    assert "peak" not in text


@pytest.mark.parametrize("file", ["small.tflite", "small.keras", "small.jit"])
def test_layers_of_a_file_that_times_none_are_refused(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    for name in (file, "small.onnx"):
        Path(name).touch()
    with pytest.raises(EdgebenchError, match="its layers can't be timed") as refused:
        layer_scenario(file)
    assert f"minimum {file} --within 200M" in str(refused.value.remedy)
    with pytest.raises(EdgebenchError, match="has no schedule 'linear'; it runs a file as a"):
        layer_scenario("small.onnx", schedule="linear")


def test_a_broken_file_is_one_message(tmp_path: Path):
    """Exit code 1; nothing of the process that read it."""
    file = made_onnx(tmp_path)
    file.write_bytes(file.read_bytes()[:300])
    broken = verb(tmp_path, "layers", "small.onnx")
    assert broken.returncode == 1
    assert "ONNX Runtime can't read it: " in broken.stderr
    assert broken.stderr.count("edgebench: ") == 1
    assert "Traceback" not in broken.stderr


def test_minimum_of_a_file_loads_it_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("small.tflite").touch()
    asked = search_of("small.tflite", {"slowdown": 3.0, "within": "300M"})
    (settings,) = asked.scenario.workload_settings()
    assert (settings["schedule"], settings["engine"]) == ("whole", "litert")
    # As ``model_path`` has it.
    assert settings["loader"] == "mmap"
