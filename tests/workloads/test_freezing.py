"""Partial training: what is frozen costs no gradient, what is trained gets the right one."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from edgebench.errors import WorkloadError
from edgebench.workloads.training.names import TrainedPart, parse_part
from edgebench.workloads.training.pytorch_networks import PartialTraining

pytestmark = pytest.mark.torch


def network() -> nn.Sequential:
    torch.manual_seed(4)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, padding=1, groups=8, bias=False),
        nn.Conv2d(8, 12, 1),
        nn.Flatten(),
        nn.Linear(12 * 36, 20),
        nn.ReLU(),
        nn.Linear(20, 5),
    )


def step(model: nn.Module) -> float:
    torch.manual_seed(9)
    images, labels = torch.randn(6, 3, 12, 12), torch.arange(6) % 5
    loss = nn.functional.cross_entropy(model(images), labels)
    if loss.requires_grad:
        loss.backward()
    return float(loss.detach())


def gradient_bytes(model: nn.Module, freezing: PartialTraining) -> int:
    held = {id(p): p for p in (*model.parameters(), *freezing.parameters)}
    return sum(p.grad.nbytes for p in held.values() if p.grad is not None)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("all", TrainedPart("all")),
        ("none", TrainedPart("none")),
        ("last", TrainedPart("last")),
        ("layers 40%", TrainedPart("layers", 0.4)),
        ("filters 100%", TrainedPart("filters", 1.0)),
    ],
)
def test_parts_are_written_as_words(text: str, part: TrainedPart):
    assert parse_part(text) == part


@pytest.mark.parametrize("text", ["", "some", "layers", "layers 0%", "filters 101%", "last 20%"])
def test_no_part_is_refused_with_what_to_write(text: str):
    with pytest.raises(ValueError, match=r"layers|more than 0"):
        parse_part(text)


def test_all_filters_train_as_the_whole_network():
    plain, ours = network(), network()
    freezing = PartialTraining(ours, TrainedPart("filters", 1.0), seed=1)
    optimizers = [torch.optim.SGD(p, lr=0.1) for p in (plain.parameters(), freezing.parameters)]
    for _ in range(3):
        freezing.draw()
        losses = [step(plain), step(ours)]
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        freezing.put_back()
        assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    for one, other in zip(plain.parameters(), ours.parameters(), strict=True):
        assert torch.allclose(one, other, atol=1e-6)


@pytest.mark.parametrize("share", [0.2, 0.4, 0.6, 1.0])
def test_drawn_filters_alone_have_a_gradient_and_it_is_that_of_the_whole(share: float):
    plain, ours = network(), network()
    freezing = PartialTraining(ours, TrainedPart("filters", share), seed=1)
    freezing.draw()
    step(plain), step(ours)
    layers = [m for m in plain if isinstance(m, (nn.Conv2d, nn.Linear))]
    for layer, some in zip(layers, freezing._filters, strict=True):
        rows = some._rows
        assert len(rows) == max(1, round(share * len(layer.weight)))
        assert torch.allclose(some.weight.grad, layer.weight.grad[rows], atol=1e-6)
        if layer.bias is not None:
            assert torch.allclose(some.bias.grad, layer.bias.grad[rows], atol=1e-6)
    assert gradient_bytes(ours, freezing) == sum(p.nbytes for p in freezing.parameters)
    assert all(m.weight.grad is None for m in ours if isinstance(m, (nn.Conv2d, nn.Linear)))


def test_undrawn_filters_stay_as_they_were():
    model = network()
    freezing = PartialTraining(model, TrainedPart("filters", 0.4), seed=1)
    freezing.draw()
    before = copy.deepcopy(model[0].weight)
    step(model)
    torch.optim.SGD(freezing.parameters, lr=1.0).step()
    freezing.put_back()
    changed = (model[0].weight != before).flatten(1).any(1)
    assert changed.nonzero().flatten().tolist() == freezing._filters[0]._rows.tolist()


def test_each_step_draws_anew_and_the_same_from_the_same_seed():
    drawn = []
    for _ in range(2):
        freezing = PartialTraining(network(), TrainedPart("filters", 0.4), seed=3)
        rows = []
        for _ in range(4):
            freezing.draw()
            rows.append(tuple(freezing._filters[0]._rows.tolist()))
        drawn.append(rows)
    assert drawn[0] == drawn[1]
    assert len(set(drawn[0])) > 1


def test_frozen_layers_have_no_gradient_even_after_they_had_one():
    model = network()
    freezing = PartialTraining(model, TrainedPart("layers", 0.4), seed=2)
    chosen = set()
    for _ in range(6):
        freezing.draw()
        step(model)
        graded = [n for n, p in model.named_parameters() if p.grad is not None]
        assert graded == [n for n, p in model.named_parameters() if p.requires_grad]
        assert len({n.split(".")[0] for n in graded}) == 2
        chosen.add(tuple(graded))
    assert len(chosen) > 1


def test_the_last_layer_alone_is_trained():
    model = network()
    freezing = PartialTraining(model, TrainedPart("last"), seed=2)
    step(model)
    assert [n for n, p in model.named_parameters() if p.grad is not None] == ["8.weight", "8.bias"]
    assert gradient_bytes(model, freezing) == model[8].weight.nbytes + model[8].bias.nbytes


def test_nothing_trained_leaves_nothing():
    model = network()
    assert PartialTraining(model, TrainedPart("none"), seed=2).parameters == []
    assert not model(torch.randn(2, 3, 12, 12)).requires_grad


def test_grouped_filters_are_refused():
    model = nn.Sequential(nn.Conv2d(8, 8, 3, groups=4))
    with pytest.raises(WorkloadError, match="4 groups"):
        PartialTraining(model, TrainedPart("filters", 0.5), seed=1)
