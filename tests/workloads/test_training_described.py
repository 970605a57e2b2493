"""What a step of training does, told from ``meta``, against what real steps do."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from edgebench.workloads.preparation import main
from edgebench.workloads.training.backend import Problem
from edgebench.workloads.training.description import described_training
from edgebench.workloads.training.pytorch.losses import cross_entropy
from edgebench.workloads.training.pytorch.network import make_optimizer
from edgebench.workloads.training.pytorch.networks import build_network
from edgebench.workloads.training.step_operations import (
    BACKWARD,
    DATA,
    INIT,
    StepOperation,
    operations_key,
)

pytestmark = pytest.mark.torch
long = pytest.mark.long
#: Networks whose steps are told: these in the usual sets, the others in the long one.
LIGHT, OTHERS = ("mlp", "basic_cnn", "resnet18"), ("squeezenet1_1",)

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


def alive(operations: list[StepOperation]) -> dict[int, tuple[str, int]]:
    """Memory that is there after these operations: its number → the phase that made it, bytes."""
    found: dict[int, tuple[str, int]] = {}
    for one in operations:
        for number in one.freed:
            del found[number]
        for number, size in one.made:
            assert number not in found
            found[number] = one.phase, size
    return found


def most(operations: list[StepOperation], step: int) -> int:
    """The most bytes of a step, workspaces among them, beside what was there before training."""
    held = highest = 0
    made: dict[int, int] = {}
    for one in operations:
        held -= sum(made.get(number, 0) for number in one.freed)
        if one.phase != INIT:
            made |= dict(one.made)
            held += sum(size for _, size in one.made)
        if one.step == step:
            highest = max(highest, held + max(map(sum, one.workspace), default=0))
    return highest


def really_most(name: str, chosen: dict[str, Any]) -> int:
    """The most bytes that torch allocates in a second step, beside the network."""
    torch.manual_seed(0)
    network = build_network(chosen, Problem((3, 64, 64), 10, 255)).train()
    optimizer = make_optimizer(chosen["optimizer"], 0.01, list(network.parameters()))
    raw = torch.randint(0, 255, (chosen["batch"], 3, 64, 64), dtype=torch.uint8)
    labels = torch.zeros(chosen["batch"], dtype=torch.int64)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        for _ in range(2):
            images = raw.clone().to(torch.float32).div_(255)
            loss = cross_entropy(network(images), labels)
            loss.backward()
            del images, loss
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
    events = profiled.profiler.kineto_results.events()
    changes = [event.nbytes() for event in events if event.name() == "[memory]"]
    total = highest = 0
    for change in changes:
        total += change
        highest = max(highest, total)
    return highest


@pytest.mark.parametrize("name", [*LIGHT, *(pytest.param(n, marks=long) for n in OTHERS)])
def test_what_lives_between_forward_and_backward_is_what_autograd_keeps(name: str):
    """Certified: after forward passes on meta as much is left as a real pass keeps."""
    described = described_training(settings(name))
    first = next(n for n, one in enumerate(described.operations) if one.phase == BACKWARD)
    left = alive([*described.operations[:first]])
    for number in described.operations[first].freed:
        left.pop(number, None)
    kept = sum(size for phase, size in left.values() if phase not in (INIT, DATA))
    torch.manual_seed(0)
    network = build_network(settings(name), Problem((3, 64, 64), 10, 255)).train()
    really = really_kept(network, torch.rand(4, 3, 64, 64))
    assert kept == pytest.approx(really, rel=0.02, abs=4096)
    weights = sum(p.nbytes for p in network.parameters())
    assert sum(row.trained_bytes for row in described.rows) == weights


@pytest.mark.parametrize(
    ("name", "optimizer"),
    [
        *(("basic_cnn", "sgd"), ("basic_cnn", "adam")),
        *(pytest.param(n, o, marks=long) for n in ("mlp", *OTHERS) for o in ("sgd", "adam")),
        *(pytest.param("resnet18", o, marks=long) for o in ("sgd", "adam")),
    ],
)
def test_the_most_bytes_of_a_step_are_what_torch_allocates(name: str, optimizer: str):
    """Certified: activations, gradients, state and workspaces, against torch's own profiler."""
    chosen = settings(name, optimizer=optimizer, batch=16)
    told = max(most(described_training(chosen).operations, step) for step in (0, 1))
    assert told == pytest.approx(really_most(name, chosen), rel=0.05)


def test_a_second_step_leaves_what_it_found():
    """State is made once; whatever else a step makes is gone after it."""
    operations = described_training(settings("basic_cnn", optimizer="adam")).operations
    first = [one for one in operations if one.step == 0]
    ends = alive(first), alive(operations)
    assert ends[0] == ends[1]
    state = sum(size for phase, size in ends[1].values() if phase == "step")
    network = build_network(settings("basic_cnn"), Problem((3, 64, 64), 10, 255))
    assert state == pytest.approx(2 * sum(p.nbytes for p in network.parameters()), rel=0.001)


def test_every_layer_goes_forward_backward_and_is_updated():
    """Operations are of the layers that a trial's tasks are of, in the order of a step."""
    described = described_training(settings("basic_cnn"))
    places = {(one.phase, one.layer) for one in described.operations if one.step == 1}
    trained = {row.order for row in described.rows if row.trained_bytes}
    assert {layer for phase, layer in places if phase == "step"} == trained
    for phase in ("forward", "backward"):
        assert trained <= {layer for name, layer in places if name == phase}
    backward = [o.layer for o in described.operations if o.step == 1 and o.phase == BACKWARD]
    assert backward == sorted(backward, reverse=True)


def test_a_layer_that_writes_in_place_makes_nothing():
    """resnet18's ReLUs write over their input, so that they have no output of their own."""
    rows = described_training(settings("resnet18")).rows
    assert {row.output_bytes for row in rows if row.type == "ReLU"} == {0}


def test_parts_of_a_batch_hold_less():
    """Activations are of a part; weights are what they are."""
    whole, half = (described_training(settings("basic_cnn", accumulation=n)) for n in (1, 2))
    assert sum(r.output_bytes for r in half.rows) * 2 == sum(r.output_bytes for r in whole.rows)
    assert [r.file_bytes for r in half.rows] == [r.file_bytes for r in whole.rows]
    assert {one.number for one in half.operations if one.phase == BACKWARD} == {0, 1}


def test_checkpointing_and_partial_training_hold_less():
    """Recomputed blocks keep less between forward and backward; frozen layers have no gradients."""
    large = {"batch": 64, "shape": "3x224x224"}
    whole, again, last = (
        most(described_training(settings("resnet18", **large, **changed)).operations, 1)
        for changed in ({}, {"checkpointing": True}, {"trained": "last"})
    )
    assert again < 0.8 * whole
    assert last < 0.5 * whole


def test_numbers_of_two_bytes_take_half():
    """bfloat16's activations are half as large; its scores become float32 for the loss."""
    full, half = (
        most(described_training(settings("basic_cnn", batch=64, precision=name)).operations, 1)
        for name in ("float32", "bfloat16")
    )
    assert half == pytest.approx(full / 2, rel=0.2)


def test_what_is_not_modelled_is_said(capsys: pytest.CaptureFixture[str]):
    """One line of JSON: tables of what can be told, reasons for the rest."""
    asked = {
        "a": settings("lenet", shape="1x28x28"),
        "b": settings("lenet", shape="1x28x28", trained="filters 40%"),
        "c": settings("lenet", shape="1x4x4"),
    }
    assert main([json.dumps({"task": "describe-trainings", "workloads": asked})]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert list(answer["tables"]) == ["a", operations_key("a")]
    assert "filters" in answer["untold"]["b"]
    assert "12 x 12" in answer["untold"]["c"]
