"""Linear layers in bytes: a quarter of the memory while they are loaded, and nearly the same."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from layers_making import Told
from torch import nn

from edgebench.layers.pipeline import Pipeline, build_pipeline
from edgebench.layers.precision import Int8Linear, with_int8
from edgebench.layers.preparation import manifest
from edgebench.layers.samples import some_values
from edgebench.layers.tensor_files import loaded_bytes
from edgebench.run.advice_outputs import relative_distance

pytestmark = pytest.mark.torch

NETWORK = "mobilenet_v3_small"


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The folder of the network's weights, which are in float32."""
    request = {"networks": [NETWORK], "cache": str(tmp_path_factory.mktemp("cache"))}
    found = manifest({**request, "seed": 1})["networks"]
    return {name: one["folder"] for name, one in found.items()}


def pipeline(weights: dict[str, str], **more: Any) -> Pipeline:
    """Of one network, with all of it loaded before it is executed."""
    settings = {"networks": [NETWORK], "weights": weights, "schedule": "bulk", "warm": 1}
    return build_pipeline(
        {**settings, "loader": "copy", "batch": 1, "image": 64, "seed": 1, "workers": 1, **more},
        Told(),
    )


def linear_layers(made: Pipeline) -> list[Int8Linear]:
    """Those that were replaced."""
    modules = made.schedule.networks[0].model.modules()
    return [one for one in modules if isinstance(one, Int8Linear)]


def test_outputs_are_nearly_the_same(weights: dict[str, str]):
    """Of all 1000 scores, in each execution; they are not the same to the last bit."""
    whole, small = pipeline(weights), pipeline(weights, precision="int8")
    (plain,) = whole.schedule.run(whole.inputs, 0)
    (made,) = small.schedule.run(small.inputs, 0)
    assert made.dtype is torch.float32
    assert 0 < relative_distance(some_values(made, 1000), some_values(plain, 1000)) < 0.1


def test_weights_in_bytes_are_there_while_they_are_loaded(weights: dict[str, str]):
    """A quarter of what the layers take else, counted as loaded, and given back."""
    made, before = pipeline(weights, precision="int8"), loaded_bytes()
    network = made.schedule.networks[0]
    layers, calls = linear_layers(made), network.first_calls()
    floats = sum(layer.weight.numel() for layer in layers)
    assert len(layers) == 2
    for call in calls:
        network.load(call)
    assert all(layer.weight.dtype is torch.int8 for layer in layers)
    saved = network.weight_bytes - (loaded_bytes() - before)
    assert saved == pytest.approx(3 * floats, rel=0.02)
    for call in calls:
        network.unload(call)
    assert all(layer.weight.is_meta for layer in layers)


def test_what_is_no_plain_linear_layer_stays():
    """A layer of two names is replaced by one; attention uses the weights of its own directly."""
    shared = nn.Linear(8, 8)
    model = nn.Sequential(shared, nn.MultiheadAttention(8, 2), shared)
    made = with_int8(model)
    assert made[0] is made[2]
    assert isinstance(made[0], Int8Linear)
    assert not any(isinstance(one, Int8Linear) for one in made[1].modules())


def test_a_tied_weight_stays_as_it_is():
    """It is another layer's, too, and no bytes."""
    layer, x = nn.Linear(8, 4), torch.rand(3, 8)
    assert torch.equal(Int8Linear(layer)(x), layer(x))
