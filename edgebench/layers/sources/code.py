"""A function or class of the user's own that makes a network."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from edgebench.errors import WorkloadError
from edgebench.layers.own_function import OwnFunction, own_files, required_arguments
from edgebench.layers.references import ModelReference
from edgebench.layers.samples import CallArguments, Sample
from edgebench.layers.sources.base import EXAMPLE, NetworkSource

HOW = "name a function or class that makes a torch.nn.Module: package.module:function"


class OwnCode(NetworkSource):
    """Imports and calls it, with all that its package does on import."""

    def __init__(self, reference: ModelReference) -> None:
        super().__init__(reference)
        self._function = OwnFunction(reference, HOW)

    def import_code(self) -> None:
        """The user's module.

        Raises:
            WorkloadError: no such module, or it fails.
        """
        self._function.import_code()

    def construct(self, weights: bool) -> nn.Module:
        """What it returns, in evaluation mode.

        Raises:
            WorkloadError: no such module or function, it fails, or it makes no ``nn.Module``.
        """
        made = self._function.call()
        if not isinstance(made, nn.Module):
            what = f"{self.name} made a {type(made).__name__}, no torch.nn.Module"
            raise WorkloadError(what, remedy=HOW)
        return made.eval()

    def files(self) -> list[Path]:
        """Of every module that was imported and is the user's: not Python's, not installed."""
        return own_files()

    def own_sample(self, model: nn.Module, batch: int, image: int | None, seed: int) -> Sample:
        """The module's ``example_input_array`` (as Lightning names it), or else images.

        Raises:
            WorkloadError: its forward takes several inputs that nothing describes.
        """
        example = getattr(model, EXAMPLE, None)
        if isinstance(example, torch.Tensor):
            return example
        if isinstance(example, dict):
            return CallArguments(kwargs=example)
        if isinstance(example, (list, tuple)):
            return CallArguments(args=tuple(example))
        required = required_arguments(model.forward)
        if len(required) > 1:
            some = " ".join(f'--input "{name}=float32 1x10"' for name in required[:2])
            raise WorkloadError(
                f"{self.name} takes several inputs: {', '.join(required)}",
                where="its forward",
                remedy=f"describe each: {some}; in a scenario: input = {{{required[0]} = …}}",
            )
        return super().own_sample(model, batch, image, seed)
