"""ONNX, TFLite and Keras files through the verbs, in real cgroups."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from engine_models import TensorProto, helper, made_keras, made_onnx, made_tflite, onnx

from edgebench.cli import cli
from edgebench.errors import UsageError, WorkloadError

_SCENARIO = """schema = 1
name = "engines"
repeats = 1

[workload]
kind = "inference"
network = ["small.onnx", "small.tflite"]

[limits]
memory = ["max", "300M"]
"""


def verb(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Call edgebench in a folder, as a person does."""
    return subprocess.run(
        [sys.executable, "-m", "edgebench", *words],
        cwd=folder,
        env={**os.environ, "EDGEBENCH_CACHE": str(folder / "cache")},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


@pytest.mark.torch
@pytest.mark.own_cgroup
def test_a_sweep_of_both_formats(tmp_path: Path):
    """Every trial finishes in its engine, loads as a whole, and verbs read both files' results."""
    made_onnx(tmp_path)
    made_tflite(tmp_path)
    (tmp_path / "engines.toml").write_text(_SCENARIO)
    done = verb(tmp_path, "run", "engines.toml")
    assert done.returncode == 0, done.stderr
    (lines,) = tmp_path.glob("results/*/*/trials.jsonl")
    trials = [json.loads(line) for line in lines.read_text().splitlines()]
    assert [trial["outcome"] for trial in trials] == ["ok"] * 4
    engines = {(one["settings"]["networks"][0], one["settings"]["engine"]) for one in trials}
    assert engines == {("small.onnx", "onnxruntime"), ("small.tflite", "litert")}
    assert {trial["settings"]["schedule"] for trial in trials} == {"whole"}
    results = str(tmp_path / "results")
    shown = CliRunner().invoke(cli, ["show", results, "--json"], catch_exceptions=False)
    assert "small.onnx" in shown.stdout
    assert "small.tflite" in shown.stdout
    asked = ["predict", results, "--memory", "200M", "--network"]
    read = CliRunner().invoke(cli, [*asked, "small.onnx"], catch_exceptions=False)
    assert read.exit_code == 0
    with pytest.raises(Exception, match=r"other.onnx was not measured below a limit here"):
        CliRunner().invoke(cli, [*asked, "other.onnx"], catch_exceptions=False)


@pytest.mark.torch
@pytest.mark.own_cgroup
def test_layers_of_an_onnx_file(tmp_path: Path):
    """Each layer has its own times; a broken file is exit code 1 and one message."""
    file = made_onnx(tmp_path)
    done = verb(tmp_path, "layers", "small.onnx", "--repeats", "1", "--no-figure", "--json")
    assert done.returncode == 0, done.stderr
    (table,) = json.loads(done.stdout)["tables"]
    assert [layer["name"] for layer in table["layers"]] == ["conv1", "conv2", "dense"]
    file.write_bytes(file.read_bytes()[:300])
    broken = verb(tmp_path, "layers", "small.onnx")
    assert broken.returncode == 1
    assert "it is no ONNX file, or not a whole one" in broken.stderr
    assert broken.stderr.count("edgebench: ") == 1
    assert "Traceback" not in broken.stderr


@pytest.mark.long
@pytest.mark.torch
@pytest.mark.own_cgroup
def test_layers_of_a_keras_file(tmp_path: Path):
    """It runs as a whole in TensorFlow, which prints nothing."""
    pytest.importorskip("keras")
    made_keras(tmp_path)
    done = verb(tmp_path, "layers", "small.keras", "--repeats", "1", "--no-figure", "--json")
    assert done.returncode == 0, done.stderr
    whole = json.loads(done.stdout)["whole"]
    assert whole["operators"][0]["type"] == "Dense"
    assert {"load", "first", "execute"} <= set(whole["phases"][0])
    assert "oneDNN" not in done.stderr


@pytest.mark.torch
@pytest.mark.own_cgroup
def test_an_unexpected_failure_of_a_whole_network_is_exit_code_3(tmp_path: Path):
    """As of networks with layers: an input of text can't be made up, so the trial fails."""
    words, out = (helper.make_tensor_value_info(n, TensorProto.STRING, [1]) for n in ("in", "out"))
    graph = helper.make_graph([helper.make_node("Identity", ["in"], ["out"])], "g", [words], [out])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, str(tmp_path / "text.onnx"))
    done = verb(tmp_path, "layers", "text.onnx", "--schedule", "whole", "--repeats", "1")
    assert done.returncode == 3, done.stderr
    assert "some trials ended unexpectedly" in done.stderr


@pytest.mark.torch
@pytest.mark.own_cgroup
def test_minimum_of_a_file_loads_it_as_a_whole(tmp_path: Path):
    """As a program does that uses the engine; its warm executions may be what counts."""
    file = made_tflite(tmp_path)
    words = ("minimum", file.name, "--within", "300M", "--confirm", "0", "--phase", "execute")
    done = verb(tmp_path, *words, "--slowdown", "3")
    assert done.returncode == 0, done.stderr
    (lines,) = tmp_path.glob("results/*/*/trials.jsonl")
    settings = [json.loads(line)["settings"] for line in lines.read_text().splitlines()]
    assert {one["schedule"] for one in settings} == {"whole"}


@pytest.mark.parametrize("network", ["small.onnx", "small.keras", "small.tflite"])
def test_training_of_a_file_made_for_execution_is_refused(
    tmp_path: Path, network: str, monkeypatch: pytest.MonkeyPatch
):
    """``batch`` says why, and what to name instead."""
    (tmp_path / network).touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises((UsageError, WorkloadError)) as refused:
        CliRunner().invoke(cli, ["batch", network, "--memory", "1G"], catch_exceptions=False)
    assert f"{network} is made for execution and can't be trained" in str(refused.value)
    assert 'network = "mymodel.py:Net"' in str(refused.value)
    assert refused.value.exit_code == 2
