"""The convolution workload: one convolution, or some in a row, forward and backward.

As in Agarwal et al., "Performance Analysis of Machine Learning Model Training on Low Power
Devices": as many channels out as in, inputs of one size, kernel and batch varied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgebench.workloads.engines.torch import import_torch
from edgebench.workloads.memory_settings import collected_rounds
from edgebench.workloads.recorder import Recorder

if TYPE_CHECKING:
    from torch import nn


def run_convolution(settings: dict[str, Any], recorder: Recorder) -> None:
    """Make the passes, each a round of its own with the phases ``forward`` and ``backward``.

    Settings: ``kernel``, ``stack`` (how many convolutions in a row), ``batch``, ``backward``
    (whether gradients of input and weights are computed too), ``channels``, ``image``, ``warm``
    (first passes that no one counts), ``passes``, ``threads``, ``seed``, ``gc``.
    """
    with recorder.span("import"):
        import_torch(recorder, (), settings["threads"])
        import torch
    torch.manual_seed(settings["seed"])
    with recorder.span("init"):
        layers = convolutions(settings)
        size = settings["image"]
        images = torch.randn(settings["batch"], settings["channels"], size, size)
        images.requires_grad_(settings["backward"])
    with collected_rounds(settings) as before_pass:
        for number in range(settings["warm"] + settings["passes"]):
            before_pass()
            if not settings["backward"]:
                with torch.inference_mode(), recorder.span("forward", round=number):
                    layers(images)
                continue
            with recorder.span("forward", round=number):
                output = layers(images)
            # What the layer above would hand down: its making is no part of this time.
            gradient = torch.ones_like(output)
            with recorder.span("backward", round=number):
                output.backward(gradient)
            images.grad = None
            layers.zero_grad(set_to_none=True)
            del output, gradient


def convolutions(settings: dict[str, Any]) -> nn.Sequential:
    """Make the convolutions in a row; the output keeps the image's size, but for even kernels.

    An even kernel has no middle: each takes one row and column away.
    """
    from torch import nn

    channels, kernel = settings["channels"], settings["kernel"]
    layers = (
        nn.Conv2d(channels, channels, kernel, padding=(kernel - 1) // 2)
        for _ in range(settings["stack"])
    )
    return nn.Sequential(*layers)
