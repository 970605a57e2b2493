"""Remedies: what each says of itself, what it fits, and that its settings are possible ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edgebench.errors import UsageError
from edgebench.remedies import Remedy, RemedyTarget
from edgebench.remedies.known import all_remedies
from edgebench.run.advise.advice import advised_scenario, both_points
from edgebench.scenario.scenario import Scenario, scenario_of

TRAINING = {
    "kind": "training",
    "network": "resnet18",
    "data": "synthetic",
    "shape": "3x96x96",
    "optimizer": "adam",
    "batch": 16,
    "steps": 3,
}
INFERENCE = {"kind": "inference", "network": "resnet18", "schedule": "bulk", "warm": 0}
COMMAND = {"kind": "command", "command": ["true"]}


def scenario(workload: dict[str, Any]) -> Scenario:
    tables = {"schema": 1, "name": "made", "repeats": 1, "workload": workload}
    return scenario_of({**tables, "limits": {"memory": ["max", "250M"]}})


def target(workload: dict[str, Any], **more: Any) -> RemedyTarget:
    (settings,) = scenario(workload).workload_settings()
    return RemedyTarget(settings, **{"cores": 2, **more})


def fitting(workload: dict[str, Any], **more: Any) -> dict[str, Remedy]:
    about = target(workload, **more)
    return {one.name: one for one in all_remedies() if one.reason_against(about) is None}


@pytest.mark.process
@pytest.mark.parametrize("workload", [TRAINING, INFERENCE, COMMAND], ids=lambda one: one["kind"])
def test_what_fits_can_be_set(workload: dict[str, Any]):
    about = target(workload)
    for one in fitting(workload).values():
        setting = one.setting(about)
        assert setting.env or setting.settings
        (got,) = scenario({**workload, **setting.settings}).workload_settings()
        assert {key: got[key] for key in setting.settings} == setting.settings
        assert all(about.settings.get(key) != value for key, value in setting.settings.items())


@pytest.mark.process
def test_what_fits_whom():
    training, inference, command = (fitting(one) for one in (TRAINING, INFERENCE, COMMAND))
    assert {"checkpointing", "accumulation", "half-batch", "bfloat16"} <= set(training)
    assert {"mapped-weights", "layer-by-layer"} <= set(inference)
    allocator = {"mmap-threshold", "arena-max"}
    assert allocator <= set(training) & set(inference) & set(command)
    assert not {"checkpointing", "mapped-weights"} & set(command)


@pytest.mark.process
def test_what_fits_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a.onnx", "a.tflite"):
        (tmp_path / name).touch()
    onnx, tflite = (
        fitting({**INFERENCE, "network": name, "schedule": "whole"})
        for name in ("a.onnx", "a.tflite")
    )
    assert {"mapped-weights", "no-onnx-prepacking"} <= set(onnx)
    assert "no-xnnpack" in tflite
    assert not {"mapped-weights", "no-onnx-arena"} & set(tflite)


@pytest.mark.process
def test_what_is_set_already_is_left_alone():
    chosen = {"MALLOC_ARENA_MAX": "2"}
    assert "arena-max" not in fitting(COMMAND, environment=chosen)
    assert "mmap-threshold" in fitting(COMMAND, environment=chosen)
    assert "mmap-threshold" not in fitting(COMMAND, environment={"LD_PRELOAD": "libx.so"})
    assert "one-thread" not in fitting(COMMAND, cores=1)
    assert "checkpointing" not in fitting({**TRAINING, "checkpointing": True})
    assert "frozen-collector" in fitting({**TRAINING, "gc": "default"})


@pytest.mark.process
def test_a_batch_is_cut_into_equal_parts():
    found = fitting(TRAINING)["accumulation"]
    for batch, parts in ((16, 4), (6, 3), (10, 2)):
        workload = {**TRAINING, "batch": batch}
        assert found.setting(target(workload)).settings == {"accumulation": parts}
    again = {**TRAINING, "accumulation": 4}
    assert found.setting(target(again)).settings == {"accumulation": 16}
    assert "accumulation" not in fitting({**TRAINING, "batch": 7})
    assert "half-batch" not in fitting({**TRAINING, "batch": 7})


@pytest.mark.parametrize("memory", ["75%", "max", "nonsense"])
def test_a_limit_is_a_size(memory: str):
    with pytest.raises(UsageError):
        both_points(advised_scenario(("true",), memory, {}))


@pytest.mark.process
def test_weights_that_are_used_again_can_be_kept():
    again = {**INFERENCE, "warm": 3}
    assert "stream" not in fitting(INFERENCE)
    assert "stream" not in fitting({**again, "schedule": "linear"})
    found = fitting(again)
    assert found["stream"].setting(target(again)).settings == {
        "schedule": "stream",
        "loader": "mmap",
    }
    linear = found["layer-by-layer"].setting(target(again))
    assert linear.settings == {"schedule": "linear", "warm": 0}
    assert linear.work == 0.25
    assert found["layer-by-layer"].setting(target(INFERENCE)).work == 1


@pytest.mark.process
def test_the_same_state_is_not_taken_away_twice():
    assert "sgd" in fitting(TRAINING)
    assert not {"sgd"} & set(fitting({**TRAINING, "optimizer": "sgd"}))
    assert not {"malloc-trim"} & set(fitting({**TRAINING, "malloc_trim": True}))
    assert not {"last-layer"} & set(fitting({**TRAINING, "trained": "last"}))
    assert "malloc-trim" not in fitting(COMMAND)
    assert {"sgd", "last-layer"} <= {one.name for one in all_remedies() if one.lossy}
