"""Training from a checkpoint: its tensors are taken, or it is refused before training begins."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from training_making import Told, settings

from edgebench.errors import WorkloadError
from edgebench.scenario.scenario import scenario_of
from edgebench.workloads.training.loop import Problem
from edgebench.workloads.training.pytorch import build

pytestmark = pytest.mark.torch


def tensors(classes: int = 10, seed: int = 5) -> dict[str, torch.Tensor]:
    made = settings(network="lenet", image=28, classes=classes) | {"seed": seed}
    return build(made, Problem((1, 28, 28), classes, 16), Told()).network.state_dict()


def started(file: Path) -> dict[str, torch.Tensor]:
    made = settings(network="lenet", image=28, start=str(file))
    return build(made, Problem((1, 28, 28), 10, 16), Told()).network.state_dict()


def differ(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> set[str]:
    return {name for name, tensor in one.items() if not torch.equal(tensor, other[name])}


def test_a_checkpoint_is_what_training_starts_with(tmp_path: Path):
    file, saved = tmp_path / "lenet.pt", tensors()
    torch.save(saved, file)
    assert not differ(started(file), saved)


def test_another_number_of_classes_keeps_its_last_layer_to_itself(tmp_path: Path):
    file, saved = tmp_path / "lenet.safetensors", tensors(classes=7)
    save_file(saved, file)
    made = started(file)
    last = {name for name, tensor in saved.items() if tensor.shape != made[name].shape}
    assert len(last) == 2
    assert not differ({name: made[name] for name in made if name not in last}, saved)


def test_a_checkpoint_of_another_network_is_refused(tmp_path: Path):
    file = tmp_path / "other.safetensors"
    save_file({"weight": torch.zeros(3)}, file)
    with pytest.raises(WorkloadError, match="the checkpoint lacks") as refused:
        started(file)
    assert refused.value.where == str(file)
    assert 'start = "scratch"' in str(refused.value.remedy)


@pytest.mark.parametrize(
    ("name", "says"), [("missing.safetensors", "no file"), ("lenet.onnx", "is not a checkpoint")]
)
def test_a_scenario_s_checkpoint_must_be_there(tmp_path: Path, name: str, says: str):
    """Before any trial: no such file, or one of another format."""
    (tmp_path / "lenet.onnx").touch()
    tables = {
        "schema": 1,
        "name": "made",
        "workload": {"kind": "training", "network": "lenet", "start": str(tmp_path / name)},
    }
    with pytest.raises(ValueError, match=says):
        scenario_of(tables)
