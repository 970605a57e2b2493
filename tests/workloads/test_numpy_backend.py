"""The NumPy backend beside PyTorch: the seam holds a second framework with the same answers."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from training_making import Told, settings

from edgebench.workloads.training.backend import Problem
from edgebench.workloads.training.numpy_mlp import NumpyMlp, build
from edgebench.workloads.training.pytorch.backend import build as build_torch
from edgebench.workloads.training.pytorch.network import TorchNetwork

pytestmark = pytest.mark.torch

PROBLEM = Problem((1, 8, 8), 10, 16)


def twins(**workload: Any) -> tuple[NumpyMlp, TorchNetwork]:
    """The same network in both, with the same parameters."""
    made = settings(network="mlp", width=24, **workload)
    ours, theirs = build(made, PROBLEM, Told()), build_torch(made, PROBLEM, Told())
    parameters = iter(theirs._parameters)
    for layer in ours._layers:
        layer.weight = next(parameters).detach().numpy().T.copy()
        layer.bias = next(parameters).detach().numpy().copy()
    return ours, theirs


def batch() -> tuple[Any, Any]:
    """Images and labels."""
    random = np.random.default_rng(3)
    images = random.integers(0, 17, (12, 1, 8, 8), dtype=np.uint8)
    return images, random.integers(0, 10, 12)


def passed(trained: Any) -> tuple[float, int]:
    """One forward and backward pass."""
    result = trained.forward(trained.batch(*batch()), 0.5)
    trained.backward(result)
    loss, count = trained.loss_and_count(result)
    return loss, count()


@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid"])
@pytest.mark.parametrize("depth", [0, 1, 3])
def test_its_gradients_are_torch_s(activation: str, depth: int):
    """Loss, hits and every gradient agree with autograd's, also added up over two passes."""
    ours, theirs = twins(activation=activation, depth=depth)
    for _ in range(2):
        assert passed(ours) == pytest.approx(passed(theirs), rel=1e-5)
    theirs_in_pairs = zip(theirs._parameters[::2], theirs._parameters[1::2], strict=True)
    for layer, (weight, bias) in zip(ours._layers, theirs_in_pairs, strict=True):
        torch.testing.assert_close(torch.from_numpy(layer.gradients["weight"].T), weight.grad)
        torch.testing.assert_close(torch.from_numpy(layer.gradients["bias"]), bias.grad)


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam", "adagrad"])
def test_its_optimizers_are_torch_s(optimizer: str):
    """Five updates of each leave the same parameters."""
    ours, theirs = twins(optimizer=optimizer, learning_rate=0.01)
    for _ in range(5):
        passed(ours)
        passed(theirs)
        ours.step()
        theirs.step()
    for layer, weight in zip(ours._layers, theirs._parameters[::2], strict=True):
        torch.testing.assert_close(
            torch.from_numpy(layer.weight.T), weight.detach(), rtol=1e-4, atol=1e-5
        )


def test_a_trial_of_it_knows_no_torch():
    """Trained to its accuracy on real data, no code of torch is imported: its base is NumPy's."""
    code = (
        "import sys\n"
        "from edgebench.workloads.training.loop import run_training\n"
        "from edgebench.workloads.recorder import Recorder\n"
        f"run_training({settings(network='mlp', framework='numpy', evaluate=True)!r}, Recorder())\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
