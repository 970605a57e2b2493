"""ONNX, TFLite and Keras files through the verbs, in real cgroups."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from engine_models import TensorProto, helper, made_onnx, onnx
from shared_sweeps import SharedSweep

from edgebench.cli import cli
from edgebench.errors import EdgebenchError
from edgebench.results.results import load
from edgebench.run.minimum_requests import MinimumRequest, minimum_scenario

pytestmark = [pytest.mark.torch, pytest.mark.own_cgroup]


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


def read(*words: str | Path) -> str:
    """What a verb that only reads prints."""
    return CliRunner().invoke(cli, [*map(str, words)], catch_exceptions=False).stdout


@pytest.mark.parametrize(
    ("sweep", "file", "engine", "schedule"),
    [
        ("onnx", "small.onnx", "onnxruntime", "linear"),
        ("litert", "small.tflite", "litert", "whole"),
    ],
)
def test_a_sweep_of_a_file(
    sweep: str, file: str, engine: str, schedule: str, shared_sweep: SharedSweep
):
    """Every trial finishes in the file's engine; verbs read its results by the file's name."""
    folder = shared_sweep(sweep)
    records = load(folder).sweeps[0].records
    assert [record.outcome for record in records] == ["ok", "ok"]
    for record in records:
        told = record.settings
        assert (told["networks"], told["engine"], told["schedule"]) == ([file], engine, schedule)
    assert file in read("show", folder, "--json")
    asked = ("predict", "--results", folder, "--memory", "200M")
    assert file in read(*asked, file)
    with pytest.raises(EdgebenchError, match=r"other\.onnx was not measured"):
        read(*asked, "other.onnx")


@pytest.mark.quick
def test_layers_of_a_file_that_has_them(shared_sweep: SharedSweep):
    """Each layer of an ONNX file has its own times."""
    told = json.loads(read("layers", "--from", shared_sweep("onnx"), "--no-figure", "--json"))
    names = [[layer["name"] for layer in table["layers"]] for table in told["tables"]]
    assert names == [["conv1", "conv2", "dense"]] * len(names)
    assert names


@pytest.mark.parametrize(
    ("sweep", "largest"),
    [
        ("litert", "FULLY_CONNECTED"),
        pytest.param("tensorflow", "Dense", marks=pytest.mark.long),
    ],
)
def test_layers_of_a_file_that_runs_as_a_whole(sweep: str, largest: str, shared_sweep: SharedSweep):
    """It has phases, and the operators with most weights."""
    told = json.loads(read("layers", "--from", shared_sweep(sweep), "--no-figure", "--json"))
    assert told["whole"]["operators"][0]["type"] == largest
    assert {"load", "first", "execute"} <= set(told["whole"]["phases"][0])


def test_layers_say_what_the_whole_file_needs(tmp_path: Path):
    """The cut graph has a session for each layer, so only the layers' shares are told of it."""
    made_onnx(tmp_path)
    words = ("layers", "small.onnx", "--repeats", "1", "--rounds", "1", "--no-figure")
    text = verb(tmp_path, *words).stdout
    told = json.loads(read("layers", "--from", tmp_path / "results", "--no-figure", "--json"))
    (whole,) = told["whole"]
    (table,) = told["tables"]
    assert [layer["name"] for layer in table["layers"]] == ["conv1", "conv2", "dense"]
    assert whole["demand_bytes"] != table["demand_bytes"]
    assert text.startswith("small.onnx needs ")
    assert " ".join(text.split("\n\n")[0].split()).startswith(whole["says"])
    assert text.count(" needs ") == 1
    assert "Layer by layer, without a limit, most time is in " in text


def test_a_broken_file_is_one_message(tmp_path: Path):
    """Exit code 1; nothing of the process that read it."""
    file = made_onnx(tmp_path)
    file.write_bytes(file.read_bytes()[:300])
    broken = verb(tmp_path, "layers", "small.onnx")
    assert broken.returncode == 1
    assert "it is no ONNX file, or not a whole one" in broken.stderr
    assert broken.stderr.count("edgebench: ") == 1
    assert "Traceback" not in broken.stderr


def test_an_unexpected_failure_of_a_whole_network_is_exit_code_3(tmp_path: Path):
    """As of networks with layers: an index out of range is found when the trial executes it."""
    where = helper.make_tensor_value_info("in", TensorProto.INT64, [1])
    out = helper.make_tensor_value_info("out", TensorProto.FLOAT, [1])
    table = helper.make_tensor("t", TensorProto.FLOAT, [1], [0.0])
    more = helper.make_tensor("more", TensorProto.INT64, [1], [5])
    nodes = [
        helper.make_node("Add", ["in", "more"], ["far"]),
        helper.make_node("Gather", ["t", "far"], ["out"]),
    ]
    graph = helper.make_graph(nodes, "g", [where], [out], initializer=[table, more])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, str(tmp_path / "text.onnx"))
    done = verb(tmp_path, "layers", "text.onnx", "--schedule", "whole", "--repeats", "1")
    assert done.returncode == 3, done.stderr
    assert "some trials ended unexpectedly" in done.stderr


def test_minimum_of_a_file_loads_it_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """As a program does that uses the engine; its warm executions may be what counts."""
    monkeypatch.chdir(tmp_path)
    Path("small.tflite").touch()
    asked = MinimumRequest("small.tflite", 3.0, "execute", within="300M")
    (settings,) = minimum_scenario(asked).workload_settings()
    assert (settings["schedule"], settings["engine"]) == ("whole", "litert")
    # As ``model_path`` has it.
    assert settings["loader"] == asked.used_loader == "mmap"


@pytest.mark.parametrize("network", ["small.onnx", "small.keras", "small.tflite"])
def test_training_of_a_file_made_for_execution_is_refused(
    tmp_path: Path, network: str, monkeypatch: pytest.MonkeyPatch
):
    """``batch`` says why, and what to name instead."""
    (tmp_path / network).touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(EdgebenchError) as refused:
        CliRunner().invoke(cli, ["batch", network, "--memory", "1G"], catch_exceptions=False)
    assert f"{network} is made for execution and can't be trained" in str(refused.value)
    assert 'network = "mymodel.py:Net"' in str(refused.value)
    assert refused.value.exit_code == 2
