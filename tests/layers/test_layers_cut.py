"""A network is cut by what a forward pass calls, whatever it is made of."""

from __future__ import annotations

import functools

import pytest
import torch
from layers_making import Attention, Branches, Convolutions, build_empty, on_meta, plain, sample
from torch import nn

from edgebench.layers.known_networks import input_shape
from edgebench.layers.network import Cut, cut

pytestmark = pytest.mark.torch


def cut_of(kind: type[nn.Module]) -> Cut:
    return cut(on_meta(plain(kind)), sample())


@functools.cache
def network_cut(name: str) -> Cut:
    return cut(build_empty(name), sample(input_shape(name, 1)))


def test_a_module_called_twice_is_two_layers_of_one_part() -> None:
    """Two calls, also through two names of the same module, share one part and so one file."""
    found = cut_of(Branches)
    names = [call.part.name for call in found.calls]
    assert names == ["", "stem", "twice", "norm", "twice", "head.0", "head.1", "head.2"]
    assert [call.order for call in found.calls] == list(range(8))
    assert "again" not in found.parts
    # What the pass leaves out is neither loaded nor on disk.
    assert "never" not in found.parts
    assert set(found.parts[""].tensors()) == {"scale"}


@pytest.mark.parametrize(
    ("name", "part", "own"),
    [
        ("vit_b_32", "", "class_token"),
        ("vit_b_32", "encoder.layers.encoder_layer_0.self_attention", None),
        ("swin_v2_t", "features.1.0.attn", None),
        ("convnext_tiny", "features.1.0", "layer_scale"),
    ],
)
def test_parts_of_known_networks(name: str, part: str, own: str | None) -> None:
    found = network_cut(name).parts[part]
    assert found.own_only == bool(own)
    assert own in found.tensors() if own else "Attention" in type(found.module).__name__


def test_weights_used_without_a_call_stay_with_the_module_that_uses_them() -> None:
    """Attention's output projection is never called: attention as a whole is the layer."""
    assert "out_proj.weight" in cut_of(Attention).parts["attention"].tensors()


def test_cutting_leaves_no_hooks_and_takes_no_memory() -> None:
    """The model is as before: no hooks, all on meta."""
    model = on_meta(plain(Convolutions))
    cut(model, sample())
    for module in model.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks
    assert all(tensor.device == torch.device("meta") for tensor in model.state_dict().values())
