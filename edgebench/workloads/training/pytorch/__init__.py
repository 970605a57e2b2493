"""PyTorch as a backend of training (:class:`edgebench.workloads.training.loop.Backend`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgebench.workloads.accelerator_phases import start_accelerator
from edgebench.workloads.engines.torch import import_torch
from edgebench.workloads.recorder import Recorder
from edgebench.workloads.training.loop import Problem, Settings
from edgebench.workloads.training.names import NOTHING, OWN
from edgebench.workloads.training.own_code import own_loss, own_network

if TYPE_CHECKING:
    from edgebench.workloads.training.pytorch.network import TorchNetwork


def import_runtime(settings: Settings, recorder: Recorder) -> None:
    """Import torch, torchvision where the network is built from it, and what trains."""
    network = settings["network"]
    source = own_network(settings)
    known: tuple[str, ...] = () if source or network in OWN else (network,)
    import_torch(recorder, known, settings["threads"], settings.get("interop_threads"))
    import torch

    if source:
        source.import_code()
    if loss := own_loss(settings):
        loss.import_code()

    start_accelerator(settings, recorder)
    # Its code counts as base.
    from edgebench.workloads.training.pytorch.network import make_optimizer

    # What torch imports by itself when its first optimizer is made.
    make_optimizer(settings["optimizer"], 1.0, [torch.nn.Parameter(torch.zeros(1))])


def build(settings: Settings, problem: Problem, recorder: Recorder) -> TorchNetwork:
    """Build the network with its optimizer, equal for equal seeds.

    Raises:
        WorkloadError: the network can't be had for such images, or has no such part to train.
    """
    import torch

    from edgebench.workloads.training.pytorch.network import TorchNetwork
    from edgebench.workloads.training.pytorch.networks import (
        build_network,
        checkpoint_blocks,
        start_from,
    )

    torch.manual_seed(settings["seed"])
    if source := own_network(settings):
        network = source.construct(weights=True)
    else:
        network = build_network(settings, problem)
    network.train(settings["trained"] != NOTHING)
    start_from(network, settings)
    if settings["precision"] == "bfloat16":
        network.to(torch.bfloat16)
    if settings["checkpointing"]:
        checkpoint_blocks(network)
    if recorder.accelerator is not None:
        recorder.accelerator.accelerator.move_network(network)
    return TorchNetwork(network, settings, problem, recorder)
