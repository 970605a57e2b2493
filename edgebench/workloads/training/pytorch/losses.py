"""The loss of a batch: cross-entropy, or the user's own function; and how many are right."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from edgebench.errors import WorkloadError
from edgebench.layers.accelerator import is_memory_error
from edgebench.layers.own_function import OwnFunction
from edgebench.workloads.training.backend import CountOfRight, counted_later
from edgebench.workloads.training.own_code import LOSS_HOW

#: From outputs and targets to the batch's mean loss.
Loss = Callable[[Any, torch.Tensor], torch.Tensor]


def cross_entropy(outputs: Any, targets: torch.Tensor) -> torch.Tensor:
    """Of class scores, in float32 whatever the network computes in.

    Raises:
        WorkloadError: the outputs are no scores of these classes.
    """
    if not isinstance(outputs, torch.Tensor):
        raise _no_scores(f"a {type(outputs).__name__}")
    try:
        return functional.cross_entropy(outputs.float(), targets)
    except (RuntimeError, ValueError, IndexError) as error:
        if is_memory_error(error):
            raise
        shown = f"{' x '.join(map(str, outputs.shape))} numbers"
        raise _no_scores(f"{shown} for {_targets_text(targets)}") from error


def own_loss_function(own: OwnFunction) -> Loss:
    """The user's loss, whose result is checked. A class is made first, with its arguments.

    Raises:
        WorkloadError: it can't be had; when called: it fails, or returns no mean loss.
    """
    function = own.function()
    arguments = dict(own.reference.arguments)
    made = own.call() if inspect.isclass(function) else None

    def loss(outputs: Any, targets: torch.Tensor) -> torch.Tensor:
        try:
            found = made(outputs, targets) if made else function(outputs, targets, **arguments)
        except Exception as error:
            if is_memory_error(error):
                raise
            words = (str(error).strip().splitlines() or ["no message"])[0]
            what = f"{type(error).__name__} in your own loss: {words}"
            raise WorkloadError(what, where=own.name, remedy=LOSS_HOW) from error
        return _checked(found, own.name)

    return loss


def _checked(loss: Any, name: str) -> torch.Tensor:
    if not isinstance(loss, torch.Tensor):
        raise WorkloadError(f"{name} returned a {type(loss).__name__}, no tensor", remedy=LOSS_HOW)
    if loss.numel() != 1 or not loss.is_floating_point():
        shape = " x ".join(map(str, loss.shape)) or "one number"
        raise WorkloadError(
            f"{name} returned {str(loss.dtype).removeprefix('torch.')} of {shape}, and a loss is "
            "one floating-point number",
            remedy=LOSS_HOW,
        )
    return loss.reshape(())


def check_gradient(loss: torch.Tensor, name: str) -> None:
    """A loss that is trained with depends on the parameters.

    Raises:
        WorkloadError: it has no gradient.
    """
    if not loss.requires_grad:
        raise WorkloadError(
            f"the loss of {name} has no gradient: nothing in it depends on a trained parameter",
            remedy="compute it from the outputs with torch alone: no detach(), item() or NumPy",
        )


def right_labels(outputs: Any, targets: torch.Tensor) -> CountOfRight:
    """Counts how many labels the highest scores name; None where they are no scores of labels."""
    if not isinstance(outputs, torch.Tensor) or outputs.ndim != 2:
        return lambda: None
    if targets.ndim != 1 or targets.is_floating_point():
        return lambda: None
    scores = outputs.detach()
    return counted_later(lambda: int((scores.argmax(1) == targets).sum()), scores.nbytes)


def _targets_text(targets: torch.Tensor) -> str:
    if targets.ndim == 1 and not targets.is_floating_point() and len(targets):
        return f"labels up to {int(targets.max())}"
    return f"targets of {' x '.join(map(str, targets.shape))} {str(targets.dtype)[6:]}"


def _no_scores(what: str) -> WorkloadError:
    return WorkloadError(
        f"the network returned {what}; cross-entropy needs scores: examples x classes",
        remedy="return as many scores as there are classes, or name a loss of your own: "
        'loss = "file.py:function"',
    )
