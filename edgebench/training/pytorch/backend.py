"""PyTorch as a backend of training (:class:`edgebench.training.backend.Backend`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgebench.training.backend import Problem, Settings
from edgebench.training.names import OWN
from edgebench.workloads.inference import import_runtime as import_torch
from edgebench.workloads.recorder import Recorder

if TYPE_CHECKING:
    from edgebench.training.pytorch.trainee import TorchTrainee


def import_runtime(settings: Settings, recorder: Recorder) -> None:
    """Import torch, torchvision where the network is built from it, and what trains."""
    network = settings["network"]
    import_torch(recorder, () if network in OWN else (network,), settings["threads"])
    import torch

    import edgebench.training.pytorch.trainee  # noqa: F401 - its code counts as base
    from edgebench.training.pytorch.optimizers import make_optimizer

    # What torch imports by itself when its first optimizer is made.
    make_optimizer(settings["optimizer"], 1.0, [torch.nn.Parameter(torch.zeros(1))])


def build(settings: Settings, problem: Problem, recorder: Recorder) -> TorchTrainee:
    """The network with its optimizer, the same from the same seed.

    Raises:
        WorkloadError: the network can't be had for such images, or has no such part to train.
    """
    import torch

    from edgebench.training.partial import NOTHING
    from edgebench.training.pytorch.checkpointing import checkpoint_blocks
    from edgebench.training.pytorch.freezing import start_from
    from edgebench.training.pytorch.networks import build_network
    from edgebench.training.pytorch.trainee import TorchTrainee

    torch.manual_seed(settings["seed"])
    network = build_network(settings, problem).train(settings["trained"] != NOTHING)
    start_from(network, settings)
    if settings["precision"] == "bfloat16":
        network.to(torch.bfloat16)
    if settings["checkpointing"]:
        checkpoint_blocks(network)
    return TorchTrainee(network, settings, problem, recorder)
