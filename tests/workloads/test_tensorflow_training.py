"""TensorFlow beside PyTorch: the same networks, the same losses, its own figures of memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from training_making import Told, settings, trained

from edgebench.errors import WorkloadError
from edgebench.results.results import load
from edgebench.run.sweep.sweep import SweepOptions, run_sweep
from edgebench.scenario.scenario import scenario_of
from edgebench.workloads.training.loop import Problem
from edgebench.workloads.training.pytorch import TorchNetwork
from edgebench.workloads.training.pytorch import build as build_torch
from edgebench.workloads.training.pytorch_networks import build_network as torch_network
from edgebench.workloads.training.tensorflow_network import (
    TensorflowNetwork,
    _means,
    build,
    keras_network,
)
from tests.quiet import Quiet

keras = pytest.importorskip("keras")
pytest.importorskip("tensorflow")
pytestmark = pytest.mark.torch
PROBLEM = Problem((3, 12, 12), 10, 255)


def twins(**workload: Any) -> tuple[TensorflowNetwork, TorchNetwork]:
    made = settings(framework="tensorflow", network="basic_cnn", **workload)
    ours, theirs = build(made, PROBLEM, Told()), build_torch(made, PROBLEM, Told())
    given = [parameter.detach().numpy() for parameter in theirs._parameters]
    for variable, value in zip(ours.network.trainable_variables, given, strict=True):
        variable.assign(in_keras_order(value, tuple(variable.shape)))
    return ours, theirs


def in_keras_order(value: Any, shape: tuple[int, ...]) -> Any:
    if value.ndim == 4:
        return value.transpose(2, 3, 1, 0)
    if value.ndim == 2 and shape[0] == 64 * 3 * 3:
        # The first linear layer reads rows x columns x channels there.
        return value.reshape(-1, 64, 3, 3).transpose(0, 2, 3, 1).reshape(len(value), -1).T
    return value.T


def passed(network: Any, share: float) -> tuple[float, int]:
    random = np.random.default_rng(3)
    images = random.integers(0, 256, (12, 3, 12, 12), dtype=np.uint8)
    result = network.forward(network.batch(images, random.integers(0, 10, 12)), share)
    network.backward(result)
    loss, count = network.loss_and_count(result)
    return loss, count()


@pytest.mark.parametrize(
    "optimizer",
    [
        *("momentum", "adam"),
        *(pytest.param(name, marks=pytest.mark.long) for name in ("sgd", "adagrad")),
    ],
)
def test_its_steps_are_torch_s(optimizer: str):
    ours, theirs = twins(optimizer=optimizer, learning_rate=0.001)
    for _ in range(3):
        for _ in range(2):
            assert passed(ours, 0.5) == pytest.approx(passed(theirs, 0.5), rel=1e-4)
        ours.step()
        theirs.step()
    for variable, parameter in zip(
        ours.network.trainable_variables, theirs._parameters, strict=True
    ):
        wanted = in_keras_order(parameter.detach().numpy(), tuple(variable.shape))
        # Adam divides by gradients, of which a few are nearly none.
        far = float(np.mean(np.abs(variable.numpy() - wanted)))
        assert far < 0.1 * 0.001
    # torch's optimizers count steps for each parameter.
    assert ours.held_bytes() == pytest.approx(theirs.held_bytes(), rel=1e-3)


@pytest.mark.parametrize("network", ["basic_cnn", "alexnet"])
def test_networks_have_torch_s_sizes(network: str):
    made, problem = settings(network=network), Problem((3, 64, 64), 10, 255)
    with torch.device("meta"):
        theirs = torch_network(made, problem)
        scores = theirs(torch.empty(2, 3, 64, 64))
    ours = keras_network(network, problem)
    assert ours.count_params() == sum(parameter.numel() for parameter in theirs.parameters())
    assert tuple(ours.compute_output_shape((2, 64, 64, 3))) == tuple(scores.shape)
    first = ours.trainable_variables[0].numpy()
    bound = 1 / np.sqrt(np.prod(first.shape[:3]))
    assert 0.95 * bound < abs(first).max() <= bound


@pytest.mark.parametrize("size", [1, 4, 6, 13])
def test_pooling_means_are_torch_s(size: int):
    row = np.random.default_rng(1).random((1, size), dtype=np.float32)
    theirs = torch.nn.functional.adaptive_avg_pool1d(torch.from_numpy(row), 6).numpy()
    np.testing.assert_allclose((_means(size) @ row[0])[None], theirs, rtol=1e-5)


def test_a_compiled_step_trains_alike_and_has_one_phase():
    # As many threads as TensorFlow has in this process already.
    about = {"framework": "tensorflow", "network": "basic_cnn", "image": 12, "threads": None}
    single = trained(**about, steps=3)
    graph = trained(**about, steps=3, compiled=True, evaluate=True)
    assert graph.losses == pytest.approx(single.losses, rel=1e-4)
    assert [phase for phase, number, _ in graph.spans if number == 0] == ["round", "data", "graph"]
    assert "gradients" not in graph.said("held_bytes")
    assert 0 <= graph.said("test_accuracy") <= 1


def test_an_image_that_is_too_small_is_told():
    """In one sentence, with what to give instead."""
    with pytest.raises(WorkloadError) as error:
        keras_network("alexnet", Problem((3, 16, 16), 10, 255))
    assert "alexnet can't be built for images of 16 x 16 pixels" in str(error.value)
    keras.backend.clear_session()


@pytest.mark.own_cgroup
@pytest.mark.long
def test_a_sweep_tells_the_frameworks_apart(tmp_path: Path):
    tables = {
        "schema": 1,
        "name": "made",
        "repeats": 1,
        "timeout": "2m",
        "workload": {
            "kind": "training",
            "framework": ["pytorch", "tensorflow"],
            "network": "basic_cnn",
            "data": "synthetic",
            "shape": "3x32x32",
            "steps": 2,
        },
        "memory": {"strategies": ["torch", "tensorflow"]},
    }
    results = load(run_sweep(scenario_of(tables), SweepOptions(tmp_path, "test"), Quiet()).folder)
    (sweep,) = results.sweeps
    assert list(results.trials["outcome"]) == ["ok", "ok"]
    views = {record.strategy: record.settings["framework"] for record in sweep.strategy_records}
    assert views == {"torch": "pytorch", "tensorflow": "tensorflow"}
    held = {r.settings["framework"]: r.notes["held_bytes"] for r in sweep.records}
    assert held["pytorch"] == held["tensorflow"]
    for record in sweep.strategy_records:
        peak = sweep.reading(record.trial).peak_bytes
        assert peak is not None
        assert sum(held["tensorflow"].values()) < peak < record.peak_bytes
