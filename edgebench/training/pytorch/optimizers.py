"""The optimizers by name, each as torch has it, with torch's own further settings."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn, optim

from edgebench.training.names import MOMENTUM


def make_optimizer(
    name: str, rate: float, parameters: Sequence[nn.Parameter]
) -> optim.Optimizer | None:
    """The optimizer; what it keeps for each parameter is made in its first step.

    None where there is nothing to train.
    """
    if not parameters:
        return None
    if name == "adam":
        return optim.Adam(parameters, lr=rate)
    if name == "adagrad":
        return optim.Adagrad(parameters, lr=rate)
    return optim.SGD(parameters, lr=rate, momentum=MOMENTUM if name == "momentum" else 0.0)
