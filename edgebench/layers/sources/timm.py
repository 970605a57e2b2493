"""Networks of timm, by name."""

from __future__ import annotations

from typing import Any

from torch import nn

from edgebench.errors import WorkloadError
from edgebench.extras import need
from edgebench.layers.networks import register_torchvision
from edgebench.layers.references import TIMM
from edgebench.layers.samples import Sample
from edgebench.layers.sources.base import NetworkSource, library_failed, random_images
from edgebench.text import did_you_mean


class TimmNetwork(NetworkSource):
    """With the random weights that timm gives it; nothing is downloaded."""

    def import_code(self) -> None:
        """Import timm.

        Raises:
            MachineError: it is not installed.
        """
        _library()

    def construct(self, weights: bool) -> nn.Module:
        """What ``timm.create_model`` makes of the name and the arguments.

        Raises:
            MachineError: timm is not installed.
            WorkloadError: it has no such network, or refuses the arguments.
        """
        library, name = _library(), self.reference.target
        if not library.is_model(name):
            guess = did_you_mean(name, library.list_models())
            raise WorkloadError(
                f"timm has no network {name!r}",
                remedy=f"did you mean {TIMM}:{guess}?"
                if guess
                else "list them: python3 -c 'import timm; print(*timm.list_models())'",
            )
        arguments = dict(self.reference.arguments)
        try:
            model: nn.Module = library.create_model(name, pretrained=False, **arguments)
        except Exception as error:
            raise library_failed(self.name, error) from error
        return model.eval()

    def version(self) -> str:
        """Of timm."""
        return str(_library().__version__)

    def own_sample(self, model: nn.Module, batch: int, image: int | None, seed: int) -> Sample:
        """Images of the size in timm's own configuration of the network."""
        described: Any = getattr(model, "pretrained_cfg", None) or {}
        channels, height, width = described.get("input_size", (3, 224, 224))
        return random_images((batch, channels, image or height, image or width), seed)


def _library() -> Any:
    need(TIMM)
    register_torchvision()
    import timm

    return timm
