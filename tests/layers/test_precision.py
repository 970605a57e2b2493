"""Weights of fewer bits: fewer bytes, outputs that are nearly the same, files as before."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from layers_making import SpanLog
from torch import nn

from edgebench.layers.names import INT8, WEIGHT_PRECISIONS
from edgebench.layers.network import some_values
from edgebench.layers.pipeline import Pipeline, build_pipeline, manifest
from edgebench.layers.tensor_files import Int8Linear, loaded_bytes, with_int8
from edgebench.run.advise.planner import relative_distance

pytestmark = pytest.mark.torch

NETWORK = "mobilenet_v3_small"


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    request = {"networks": [NETWORK], "cache": str(tmp_path_factory.mktemp("cache"))}
    found = manifest({**request, "seed": 1})["networks"]
    return {name: one["folder"] for name, one in found.items()}


def pipeline(weights: dict[str, str], **more: Any) -> Pipeline:
    settings = {"networks": [NETWORK], "weights": weights, "schedule": "bulk", "warm": 0}
    fixed = {"loader": "copy", "batch": 1, "image": 64, "seed": 1, "workers": 1}
    return build_pipeline({**settings, **fixed, **more}, SpanLog())


@pytest.mark.parametrize("precision", WEIGHT_PRECISIONS)
def test_outputs_are_nearly_the_same(weights: dict[str, str], precision: str):
    whole, small = pipeline(weights), pipeline(weights, precision=precision)
    (plain,) = whole.schedule.run(whole.inputs, 0)
    (made,) = small.schedule.run(small.inputs, 0)
    assert made.dtype is (torch.float32 if precision == INT8 else getattr(torch, precision))
    for count in (1000, 16):
        kept = some_values(made, count)
        assert len(kept) == count
        assert 0 < relative_distance(kept, some_values(plain, count)) < 0.1


@pytest.mark.parametrize("precision", WEIGHT_PRECISIONS)
def test_fewer_bytes_are_loaded_and_given_back(weights: dict[str, str], precision: str):
    """Half of all, or a quarter of linear layers' weights; counted as loaded while they are."""
    full_bytes = pipeline(weights).schedule.networks[0].weight_bytes
    network = pipeline(weights, precision=precision).schedule.networks[0]
    layers = [one for one in network.model.modules() if isinstance(one, Int8Linear)]
    before = loaded_bytes()
    for call in network.first_calls():
        network.load(call)
    if precision == INT8:
        assert all(layer.weight.dtype is torch.int8 for layer in layers)
        saved_bytes = 3 * sum(layer.weight.numel() for layer in layers)
        assert len(layers) == 2
    else:
        saved_bytes = full_bytes // 2
    assert full_bytes - (loaded_bytes() - before) == pytest.approx(saved_bytes, rel=0.05)
    for call in network.first_calls():
        network.unload(call)
    assert loaded_bytes() - before < full_bytes / 20


def test_what_is_no_plain_linear_layer_stays():
    shared = nn.Linear(8, 8)
    made = with_int8(nn.Sequential(shared, nn.MultiheadAttention(8, 2), shared))
    assert made[0] is made[2]
    assert isinstance(made[0], Int8Linear)
    assert not any(isinstance(one, Int8Linear) for one in made[1].modules())


def test_a_tied_weight_stays_as_it_is():
    layer, x = nn.Linear(8, 4), torch.rand(3, 8)
    assert torch.equal(Int8Linear(layer)(x), layer(x))


def test_numbers_that_are_infinite_are_none():
    values = some_values([torch.tensor([1.0, float("inf"), float("nan"), 2.0])], 8)
    assert values == [1.0, None, None, 2.0]
    assert relative_distance(values, values) == 0
    assert relative_distance([1.0, 1.0, None, 2.0], values) == float("inf")
    assert relative_distance([1.0], [1.0, 2.0]) == float("inf")
