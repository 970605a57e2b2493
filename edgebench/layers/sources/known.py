"""Networks that edgebench knows by name, as a source."""

from __future__ import annotations

from torch import nn

from edgebench.layers.networks import construct, input_shape
from edgebench.layers.samples import Sample
from edgebench.layers.sources.base import NetworkSource, random_images


class KnownNetwork(NetworkSource):
    """Their weights are random, from the seed."""

    has_weights = False

    def construct(self, weights: bool) -> nn.Module:
        """The network as torchvision builds it, or the zoo.

        Raises:
            WorkloadError: no such network.
        """
        return construct(self.name)

    def own_sample(self, model: nn.Module, batch: int, image: int | None, seed: int) -> Sample:
        """Images of the size that the network was made for."""
        return random_images(input_shape(self.name, batch, image), seed)

    def input_remedy(self, model: nn.Module) -> str:
        """It takes images."""
        return "leave `image` out, or choose a size that the network was made for"
