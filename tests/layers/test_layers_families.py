"""Every family of real networks: outputs equal plain ``model(x)`` bit for bit."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
import torch
from layers_making import Told, build_empty, known_input, prepare_known
from test_layers_networks import ONE_OF_EACH
from torch import nn

from edgebench.layers.loaders import LOADERS
from edgebench.layers.names import STREAM
from edgebench.layers.networks import import_torchvision
from edgebench.layers.pipeline import Pipeline, build_pipeline
from edgebench.layers.samples import Sample
from edgebench.layers.schedules import SCHEDULES, Schedule
from edgebench.layers.weights import weight_files
from edgebench.layers.zoo import ZOO

#: Cheap to make and run: in the quick tests.
LIGHT = ("lenet", "squeezenet1_1", "shufflenet_v2_x0_5", "mobilenet_v3_small", "googlenet")
WARM, WORKERS = 1, 2
#: ``stream`` with copies is refused by scenarios; light networks compute it all the same.
ALLOWED = [(s, kind) for s in SCHEDULES for kind in LOADERS if (s, kind) != (STREAM, "copy")]


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


@functools.cache
def prepared(name: str, cache: Path) -> tuple[Path, torch.Tensor]:
    """The network's weights, and what it plainly computes."""
    folder, _ = prepare_known(name, cache, 0)
    with torch.inference_mode():
        return folder, plain(name, folder)(known_input(name, 5))


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where this module's weights are."""
    return tmp_path_factory.mktemp("cache")


def pipeline_of(name: str, schedule: str, loader: str, cache: Path) -> Pipeline:
    """The network as a workload builds it."""
    folder, _ = prepared(name, cache)
    settings = {
        "networks": [name],
        "weights": {name: str(folder)},
        "schedule": schedule,
        "loader": loader,
        "batch": 1,
        "image": None,
        "warm": WARM,
        "workers": WORKERS,
        "seed": 5,
    }
    return build_pipeline(settings, Told())


@functools.lru_cache(maxsize=4)
def built_once(name: str, streams: bool, loader: str, cache: Path) -> Pipeline:
    """The same, for all schedules that load in the same way."""
    return pipeline_of(name, STREAM if streams else "bulk", loader, cache)


def outputs_equal(name: str, schedule: Schedule, inputs: tuple[Sample, ...], cache: Path) -> None:
    """Two rounds of one network give what it plainly computes, bit for bit, and finite."""
    _, expected = prepared(name, cache)
    assert torch.isfinite(expected).all()
    assert expected.std() > 0
    for number in range(2):
        (output,) = schedule.run(inputs, number)
        assert torch.equal(output, expected)


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", LIGHT)
def test_light_networks_compute_what_they_always_compute(
    name: str, schedule: str, loader: str, cache: Path
) -> None:
    """Modules called twice, channel shuffles, auxiliary heads that don't run."""
    pipeline = pipeline_of(name, schedule, loader, cache)
    outputs_equal(name, pipeline.schedule, pipeline.inputs, cache)


@pytest.mark.slow
@pytest.mark.parametrize(("schedule", "loader"), ALLOWED)
@pytest.mark.parametrize("name", sorted(set(ONE_OF_EACH) - set(LIGHT)))
def test_each_family_computes_what_it_always_computes(
    name: str, schedule: str, loader: str, cache: Path
) -> None:
    """Residuals, attention whole or with tables of its own, layer scales, class tokens."""
    built = built_once(name, schedule == STREAM, loader, cache)
    made = SCHEDULES[schedule](built.schedule.networks, Told(), WARM, WORKERS)
    outputs_equal(name, made, built.inputs, cache)


def test_the_input_is_the_seeds() -> None:
    """The same for the same seed, and of the network's shape."""
    assert torch.equal(known_input("lenet", 1), known_input("lenet", 1))
    assert not torch.equal(known_input("lenet", 1), known_input("lenet", 2))
    assert known_input("lenet", 1, batch=3).shape == (3, 1, 28, 28)
    assert known_input("resnet18", 1, image=64).shape == (1, 3, 64, 64)


def test_building_touches_no_weights(cache: Path) -> None:
    """A network on meta has no memory for its weights, whatever its size."""
    assert sum(p.nbytes for p in build_empty("vgg11").parameters()) > 500 << 20
    assert all(p.is_meta for p in build_empty("vgg11").parameters())
