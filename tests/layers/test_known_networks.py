"""The networks known by name: built without memory, cut in full, and equal to torchvision's."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from layers_making import SpanLog, build_empty, known_input, prepare_known, sample, written_tensors
from torch import nn

from edgebench.layers.known_networks import ZOO, import_torchvision, input_shape
from edgebench.layers.names import NETWORKS
from edgebench.layers.network import cut
from edgebench.layers.pipeline import build_pipeline

pytestmark = pytest.mark.torch

ONE_OF_EACH = (
    *("alexnet", "convnext_tiny", "densenet121", "efficientnet_b0", "efficientnet_v2_s"),
    *("googlenet", "inception_v3", "lenet", "maxvit_t", "mnasnet0_5", "mobilenet_v1"),
    *("mobilenet_v2", "mobilenet_v3_small", "regnet_x_400mf", "regnet_y_400mf", "resnet18"),
    *("resnext50_32x4d", "shufflenet_v2_x0_5", "squeezenet1_1", "swin_t", "swin_v2_t"),
    *("vgg11", "vgg11_bn", "vit_b_32", "wide_resnet50_2"),
)
#: Blocks called twice, auxiliary heads, tables, tokens and scales of containers.
ODD = ("lenet", "googlenet", "maxvit_t", "swin_v2_t", "convnext_tiny", "vit_b_32", "mnasnet0_5")
#: Modules called twice, channel shuffles. Others are in small in outside_models.py.
LIGHT = ("lenet", "shufflenet_v2_x0_5")


def test_the_list_without_torch_is_the_list_with_it() -> None:
    """The static list is torchvision's classification networks and ours, sorted, nothing else."""
    models = import_torchvision()
    assert sorted([*models.list_models(module=models), *ZOO]) == list(NETWORKS)


def check_cut(name: str) -> None:
    model = build_empty(name)
    assert not model.training
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    assert all(tensor.is_meta for tensor in tensors.values())
    parts = cut(model, sample(input_shape(name, 1))).parts.values()
    found = [part.full_name(key) for part in parts for key in part.tensors()]
    assert len(found) == len(set(found))
    # Auxiliary heads don't run in evaluation mode.
    auxiliary = {key for key in tensors if key.lower().startswith("aux")}
    assert set(tensors) - set(found) == auxiliary


@pytest.mark.parametrize("name", ODD)
def test_each_family_is_built_without_memory_and_cut_in_full(name: str) -> None:
    check_cut(name)


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(set(NETWORKS) - set(ODD)))
def test_every_other_network_is_built_without_memory_and_cut_in_full(name: str) -> None:
    check_cut(name)


def test_parameters_of_mobilenet_v1_are_the_papers() -> None:
    parameters = sum(p.numel() for p in build_empty("mobilenet_v1").parameters())
    assert parameters == 4_231_976


def plain(name: str, folder: Path) -> nn.Module:
    if name in ZOO:
        model = ZOO[name]()
    else:
        options = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
        model = import_torchvision().get_model(name, weights=None, **options)
    made = written_tensors(folder)
    # Its own state, brought up to date: MNASNet takes none without the version in it.
    state = model.state_dict()
    assert not [key for key in set(state) ^ set(made) if not key.lower().startswith("aux")]
    state.update(made)
    model.load_state_dict(state)
    return model.eval()


def check_outputs(name: str, cache: Path) -> None:
    folder, _ = prepare_known(name, cache, 0)
    with torch.inference_mode():
        expected = plain(name, folder)(known_input(name, 5))
    assert torch.isfinite(expected).all()
    assert expected.std() > 0
    fixed = {"batch": 1, "image": None, "warm": 1, "workers": 2, "seed": 5}
    settings = {**fixed, "networks": [name], "weights": {name: str(folder)}}
    for schedule, loader in (("linear", "copy"), ("stream", "mmap")):
        pipeline = build_pipeline({**settings, "schedule": schedule, "loader": loader}, SpanLog())
        for number in range(2):
            (output,) = pipeline.schedule.run(pipeline.inputs, number)
            assert torch.equal(output, expected)


@pytest.mark.parametrize("name", LIGHT)
def test_light_networks_compute_what_they_always_compute(name: str, tmp_path: Path) -> None:
    check_outputs(name, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(set(ONE_OF_EACH) - set(LIGHT)))
def test_each_family_computes_what_it_always_computes(name: str, tmp_path: Path) -> None:
    check_outputs(name, tmp_path)


def test_the_input_is_the_seeds() -> None:
    assert torch.equal(known_input("lenet", 1), known_input("lenet", 1))
    assert not torch.equal(known_input("lenet", 1), known_input("lenet", 2))
    assert known_input("lenet", 1, batch=3).shape == (3, 1, 28, 28)
    assert known_input("resnet18", 1, image=64).shape == (1, 3, 64, 64)
