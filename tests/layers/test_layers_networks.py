"""The networks known by name."""

from __future__ import annotations

import pytest
import torch
from layers_making import build_empty, sample

from edgebench.errors import WorkloadError
from edgebench.layers.cut import cut
from edgebench.layers.empty_network import empty_network
from edgebench.layers.examination import reference_of
from edgebench.layers.known_networks import ZOO, import_torchvision, input_shape
from edgebench.layers.names import NETWORKS
from edgebench.layers.sources import network_source

pytestmark = pytest.mark.torch

ONE_OF_EACH = (
    *("alexnet", "convnext_tiny", "densenet121", "efficientnet_b0", "efficientnet_v2_s"),
    *("googlenet", "inception_v3", "lenet", "maxvit_t", "mnasnet0_5", "mobilenet_v1"),
    *("mobilenet_v2", "mobilenet_v3_small", "regnet_x_400mf", "regnet_y_400mf", "resnet18"),
    *("resnext50_32x4d", "shufflenet_v2_x0_5", "squeezenet1_1", "swin_t", "swin_v2_t"),
    *("vgg11", "vgg11_bn", "vit_b_32", "wide_resnet50_2"),
)
#: Blocks called twice, auxiliary heads, tables, tokens and scales of containers.
ODD = ("lenet", "googlenet", "swin_v2_t", "convnext_tiny", "vit_b_32", "mnasnet0_5")


def test_the_list_without_torch_is_the_list_with_it() -> None:
    """The static list is torchvision's classification networks and ours, sorted, nothing else."""
    models = import_torchvision()
    assert sorted([*models.list_models(module=models), *ZOO]) == list(NETWORKS)


def test_an_unknown_network_is_answered_with_the_nearest() -> None:
    """The remedy is the name that was meant."""
    with pytest.raises(WorkloadError, match="resnet81") as caught:
        build_empty("resnet81")
    assert "resnet18" in str(caught.value.remedy)


@pytest.mark.parametrize("name", ODD)
def test_each_family_is_built_without_memory_and_cut_in_full(name: str) -> None:
    """All on meta, in evaluation mode, and each tensor the network uses belongs to one part."""
    model = build_empty(name)
    assert not model.training
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    assert all(tensor.is_meta for tensor in tensors.values())
    parts = cut(model, sample(input_shape(name, 1))).parts.values()
    found = [f"{part.name}.{key}".lstrip(".") for part in parts for key in part.tensors()]
    assert len(found) == len(set(found))
    left_out = set(tensors) - set(found)
    assert not [key for key in left_out if not key.lower().startswith("aux")]


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(set(NETWORKS) - set(ODD)))
def test_every_other_network_is_built_without_memory_and_cut_in_full(name: str) -> None:
    """The same for all that there are."""
    test_each_family_is_built_without_memory_and_cut_in_full(name)


def test_computed_buffers_are_real() -> None:
    """Index tables, which no random weights may replace, come as the constructor computes them."""
    tables = empty_network(network_source(reference_of("swin_v2_t", {}))).computed
    table = tables["features.1.0.attn.relative_coords_table"]
    assert not table.is_meta
    assert torch.isfinite(table).all()
    assert table.abs().max() <= 1.5


def test_parameters_of_mobilenet_v1_are_the_papers() -> None:
    """4.2 million parameters (Howard et al., 2017, table 8), with batch normalisation's."""
    parameters = sum(p.numel() for p in build_empty("mobilenet_v1").parameters())
    assert parameters == 4_231_976
