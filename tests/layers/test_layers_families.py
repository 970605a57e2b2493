"""Families of real networks: outputs equal plain ``model(x)`` bit for bit."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
import torch
from layers_making import Told, known_input, prepare_known
from test_layers_networks import ONE_OF_EACH
from torch import nn

from edgebench.layers.known_networks import ZOO, import_torchvision
from edgebench.layers.pipeline import build_pipeline
from edgebench.layers.tensor_files import LOADERS
from edgebench.layers.weights import weight_files

pytestmark = pytest.mark.torch

#: Modules called twice, channel shuffles. Others are in small in
#: outside_models.py, under every schedule and loader.
LIGHT = ("lenet", "shufflenet_v2_x0_5")
#: Copied weights in one thread, mapped weights beside a thread that reads.
COMBINATIONS = (("linear", "copy"), ("stream", "mmap"))


def plain(name: str, folder: Path) -> nn.Module:
    """The network as torchvision builds it, with the prepared weights: no edgebench in it."""
    if name in ZOO:
        model = ZOO[name]()
    else:
        options = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
        model = import_torchvision().get_model(name, weights=None, **options)
    made = {
        f"{part}.{key}".lstrip("."): tensor
        for part, file in weight_files(folder).items()
        for key, tensor in LOADERS["copy"](file).items()
    }
    # Its own state, brought up to date: MNASNet takes none without the version in it.
    state = model.state_dict()
    assert not [key for key in set(state) ^ set(made) if not key.lower().startswith("aux")]
    state.update(made)
    model.load_state_dict(state)
    return model.eval()


@functools.lru_cache(maxsize=1)
def prepared(name: str, cache: Path) -> tuple[Path, torch.Tensor]:
    """The network's weights, and what it plainly computes."""
    folder, _ = prepare_known(name, cache, 0)
    with torch.inference_mode():
        return folder, plain(name, folder)(known_input(name, 5))


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where this module's weights are."""
    return tmp_path_factory.mktemp("cache")


def check_outputs(name: str, schedule: str, loader: str, cache: Path) -> None:
    """Two rounds of one network give what it plainly computes, bit for bit, and finite."""
    folder, expected = prepared(name, cache)
    assert torch.isfinite(expected).all()
    assert expected.std() > 0
    fixed = {"batch": 1, "image": None, "warm": 1, "workers": 2, "seed": 5}
    settings = {**fixed, "networks": [name], "weights": {name: str(folder)}}
    pipeline = build_pipeline({**settings, "schedule": schedule, "loader": loader}, Told())
    for number in range(2):
        (output,) = pipeline.schedule.run(pipeline.inputs, number)
        assert torch.equal(output, expected)


@pytest.mark.parametrize(("schedule", "loader"), COMBINATIONS)
@pytest.mark.parametrize("name", LIGHT)
def test_light_networks_compute_what_they_always_compute(
    name: str, schedule: str, loader: str, cache: Path
) -> None:
    """Modules called twice, channel shuffles."""
    check_outputs(name, schedule, loader, cache)


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(set(ONE_OF_EACH) - set(LIGHT)))
def test_each_family_computes_what_it_always_computes(name: str, cache: Path) -> None:
    """Residuals, attention, auxiliary heads that don't run, layer scales, class tokens."""
    for schedule, loader in COMBINATIONS:
        check_outputs(name, schedule, loader, cache)


def test_the_input_is_the_seeds() -> None:
    """The same for the same seed, and of the network's shape."""
    assert torch.equal(known_input("lenet", 1), known_input("lenet", 1))
    assert not torch.equal(known_input("lenet", 1), known_input("lenet", 2))
    assert known_input("lenet", 1, batch=3).shape == (3, 1, 28, 28)
    assert known_input("resnet18", 1, image=64).shape == (1, 3, 64, 64)
