"""Weights of half the size: half the bytes, outputs that are nearly the same, files as before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from layers_making import Told

from edgebench.errors import ScenarioError
from edgebench.layers.names import HALF_PRECISIONS
from edgebench.layers.pipeline import Pipeline, build_pipeline
from edgebench.layers.preparation import manifest
from edgebench.layers.samples import some_values
from edgebench.layers.tensor_files import loaded_bytes
from edgebench.run.advice_outputs import relative_distance
from edgebench.scenario.scenario import load_scenario

pytestmark = pytest.mark.torch

SCENARIO = """
schema = 1
name = "half"
[workload]
kind = "inference"
network = "squeezenet1_1"
precision = "bfloat16"
{more}
"""


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The folder of the network's weights, which are in float32."""
    request = {"networks": ["squeezenet1_1"], "cache": str(tmp_path_factory.mktemp("cache"))}
    found = manifest({**request, "seed": 1})["networks"]
    return {name: one["folder"] for name, one in found.items()}


def pipeline(weights: dict[str, str], **more: Any) -> Pipeline:
    """Of one network, with all of it loaded before it is executed."""
    settings = {"networks": ["squeezenet1_1"], "weights": weights, "schedule": "bulk", "warm": 0}
    return build_pipeline(
        {**settings, "loader": "copy", "batch": 1, "image": 64, "seed": 1, "workers": 1, **more},
        Told(),
    )


@pytest.mark.parametrize("precision", HALF_PRECISIONS)
def test_half_the_bytes_and_nearly_the_same_outputs(weights: dict[str, str], precision: str):
    """Of all 1000 scores, and of the few that a trial keeps; the type is the one asked for."""
    whole, half = pipeline(weights), pipeline(weights, precision=precision)
    (plain,) = whole.schedule.run(whole.inputs, 0)
    (made,) = half.schedule.run(half.inputs, 0)
    assert made.dtype is getattr(torch, precision)
    assert half.schedule.networks[0].weight_bytes * 2 == whole.schedule.networks[0].weight_bytes
    assert 0 < relative_distance(some_values(made, 1000), some_values(plain, 1000)) < 0.1
    assert len(some_values(plain, 16)) == 16
    assert relative_distance(some_values(made, 16), some_values(plain, 16)) < 0.1


def test_what_is_loaded_is_counted_and_given_back(weights: dict[str, str]):
    """The memory of converted weights is there while they are loaded, and gone with them."""
    before, half = loaded_bytes(), pipeline(weights, precision="bfloat16")
    network = half.schedule.networks[0]
    calls = network.first_calls()
    for call in calls:
        network.load(call)
    assert loaded_bytes() - before >= network.weight_bytes
    for call in calls:
        network.unload(call)
    assert loaded_bytes() - before < network.weight_bytes / 10


@pytest.mark.parametrize("more", ['loader = "mmap"', 'loader = "mmap"\nschedule = "stream"'])
def test_what_is_mapped_has_the_type_of_its_file(more: str, tmp_path: Path):
    """Refused before anything runs, with what to write instead."""
    (tmp_path / "s.toml").write_text(SCENARIO.format(more=more))
    with pytest.raises(ScenarioError, match='write loader = "copy"'):
        load_scenario(tmp_path / "s.toml")


def test_settings_without_the_key_stay_as_they_were(tmp_path: Path):
    """So that sweeps of before are continued, and compared with later ones."""
    (tmp_path / "s.toml").write_text(SCENARIO.format(more=""))
    (with_it,) = load_scenario(tmp_path / "s.toml").workload_settings()
    text = SCENARIO.format(more="").replace('precision = "bfloat16"\n', "")
    (tmp_path / "s.toml").write_text(text)
    (without,) = load_scenario(tmp_path / "s.toml").workload_settings()
    assert with_it == {**without, "precision": "bfloat16"}


def test_numbers_that_are_infinite_are_none():
    """JSON has no word for them; two outputs with the same ones are equal, others are not."""
    values = some_values([torch.tensor([1.0, float("inf"), float("nan"), 2.0])], 8)
    assert values == [1.0, None, None, 2.0]
    assert relative_distance(values, values) == 0
    assert relative_distance([1.0, 1.0, None, 2.0], values) == float("inf")
    assert relative_distance([1.0], [1.0, 2.0]) == float("inf")
