"""What every kind of model reference is built by."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import torch
from torch import nn

from edgebench.errors import WorkloadError
from edgebench.layers.own_function import required_arguments
from edgebench.layers.references import ModelReference
from edgebench.layers.samples import CallArguments, Sample

#: The attribute in which a module may keep an example of its input, as Lightning names it.
EXAMPLE = "example_input_array"


class NetworkSource(ABC):
    """Builds the network of one reference."""

    #: Whether constructing it makes weights of its own; else they are drawn from the seed.
    has_weights = True
    #: Whether its constructor may make tensors without memory instead of those it would fill.
    may_be_light = True

    def __init__(self, reference: ModelReference) -> None:
        self.reference = reference
        self.name = reference.name

    def import_code(self) -> None:  # noqa: B027 - most need nothing beside torch
        """Import all that building it needs, so that it counts as base.

        Raises:
            WorkloadError: it can't be imported.
        """

    @abstractmethod
    def construct(self, weights: bool) -> nn.Module:
        """The network. ``weights``: with those that it comes with, where there are any.

        Raises:
            WorkloadError: it can't be had.
        """

    def files(self) -> list[Path]:
        """What the network is made of, on disk: a change of these makes it another network.

        Whoever asks has constructed the network before.
        """
        return []

    def version(self) -> str:
        """Of the library that it comes from; empty where that says nothing."""
        return ""

    def keep(self, folder: Path) -> None:  # noqa: B027 - most need nothing
        """Keep what a trial builds it from beside its weights."""

    def use(self, folder: Path) -> None:  # noqa: B027
        """Build it from what :meth:`keep` wrote."""

    def own_sample(self, model: nn.Module, batch: int, image: int | None, seed: int) -> Sample:
        """What a forward pass is called with where nobody says it: one batch of images.

        Raises:
            WorkloadError: the network takes something else.
        """
        side = image or 224
        return random_images((batch, 3, side, side), seed)

    def input_remedy(self, model: nn.Module) -> str:
        """What to do where the network can't run on its input."""
        named = required_arguments(model.forward)
        some = [f'--input "{name}=float32 1x3x224x224"' for name in named[:2]]
        described = " ".join(some) or '--input "float32 1x3x224x224"'
        return f"describe what its forward takes, as {described}"

    def prompt(
        self, model: nn.Module, shape: tuple[int, int], new_tokens: int, seed: int
    ) -> Sample:
        """A prompt for text generation: batch × tokens, drawn from the vocabulary.

        Raises:
            WorkloadError: it has no vocabulary, or can't take so many tokens.
        """
        config: Any = getattr(model, "config", None)
        words = getattr(config, "vocab_size", None)
        if not isinstance(words, int):
            raise WorkloadError(
                "it generates no text: its configuration has no vocab_size",
                where=self.name,
                remedy="leave prompt and new_tokens out, or name a language model: "
                "transformers:gpt2",
            )
        most = getattr(config, "max_position_embeddings", None)
        if isinstance(most, int) and shape[1] + new_tokens > most:
            raise WorkloadError(
                f"a prompt of {shape[1]} tokens and {new_tokens} new ones: it takes {most} at most",
                where=self.name,
                remedy="make prompt or new_tokens smaller",
            )
        generator = torch.Generator().manual_seed(seed)
        tokens = torch.randint(words, shape, generator=generator)
        # The layer table has no cache: its bytes are measured, and a row of their own in ledgers.
        return CallArguments(kwargs={"input_ids": tokens, "use_cache": False})


def random_images(shape: tuple[int, ...], seed: int) -> torch.Tensor:
    """Pixels from 0 to 1, the same for the same seed."""
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


def library_failed(doing: str, error: BaseException) -> WorkloadError:
    """The error for a library that refuses: in its own words."""
    words = str(error).strip().splitlines() or ["no message"]
    return WorkloadError(f"{type(error).__name__}: {words[0]}", where=doing)
