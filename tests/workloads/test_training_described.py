"""What a step of training holds, told from ``meta``, against what autograd really keeps."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import nn

from edgebench.workloads.training.backend import Problem
from edgebench.workloads.training.description import training_rows
from edgebench.workloads.training.pytorch.networks import build_network

SETTINGS: dict[str, Any] = {
    "kind": "training",
    "framework": "pytorch",
    "data": "synthetic",
    "shape": "3x64x64",
    "image": None,
    "classes": 10,
    "depth": 2,
    "width": 64,
    "activation": "relu",
    "optimizer": "sgd",
    "batch": 4,
    "accumulation": 1,
    "precision": "float32",
    "checkpointing": False,
    "trained": "all",
}


def settings(network: str, **changed: Any) -> dict[str, Any]:
    """A training's settings."""
    return {**SETTINGS, "network": network, **changed}


def really_kept(network: nn.Module, images: torch.Tensor) -> int:
    """Bytes that autograd keeps of a real forward pass, weights and images not."""
    given = [*network.parameters(), *network.buffers(), images]
    known = {tensor.untyped_storage().data_ptr() for tensor in given}
    held: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            held[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        network(images)
    return sum(storage.nbytes() for storage in held.values())


@pytest.mark.parametrize("name", ["mlp", "basic_cnn", "resnet18", "squeezenet1_1"])
def test_kept_bytes_are_what_autograd_keeps(name: str):
    """Certified: outputs kept, and what is saved beside them, come to what a real pass keeps."""
    rows = training_rows(settings(name))
    torch.manual_seed(0)
    network = build_network(settings(name), Problem((3, 64, 64), 10, 255)).train()
    kept = really_kept(network, torch.rand(4, 3, 64, 64))
    assert sum(row.kept_bytes + row.saved_bytes for row in rows) == pytest.approx(kept, rel=0.02)
    weights = sum(p.nbytes for p in network.parameters())
    assert sum(row.trained_bytes for row in rows) == weights


def test_a_layer_that_writes_in_place_makes_nothing():
    """resnet18's ReLUs write over their input, so that they have no output of their own."""
    rows = training_rows(settings("resnet18"))
    assert {row.output_bytes for row in rows if row.type == "ReLU"} == {0}
    assert all(row.kept_bytes <= row.output_bytes for row in rows)


def test_parts_of_a_batch_hold_less():
    """Activations are of a part; weights are what they are."""
    whole, half = (training_rows(settings("resnet18", accumulation=n)) for n in (1, 2))
    assert sum(r.output_bytes for r in half) * 2 == sum(r.output_bytes for r in whole)
    assert [r.file_bytes for r in half] == [r.file_bytes for r in whole]


def test_what_is_not_modelled_is_said():
    """One line of JSON: tables of what can be told, reasons for the rest."""
    asked = {
        "a": settings("lenet", shape="1x28x28"),
        "b": settings("lenet", shape="1x28x28", checkpointing=True),
        "c": settings("lenet", shape="1x4x4"),
    }
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "edgebench.workloads.preparation",
            json.dumps({"task": "describe-trainings", "workloads": asked}),
        ],
        capture_output=True,
        check=True,
        text=True,
    )
    answer = json.loads(done.stdout)
    assert list(answer["tables"]) == ["a"]
    assert "checkpointing" in answer["untold"]["b"]
    assert "12 x 12" in answer["untold"]["c"]
