"""Networks of transformers, from a ``config.json`` or the folder that holds one."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

import torch
from torch import nn

from edgebench.errors import WorkloadError
from edgebench.extras import need
from edgebench.layers.networks import register_torchvision
from edgebench.layers.references import TRANSFORMERS
from edgebench.layers.samples import CallArguments, Sample
from edgebench.layers.sources.base import NetworkSource, library_failed, random_images

_CONFIG = "config.json"
#: Configurations that come with edgebench.
_SHIPPED = Path(__file__).parents[1] / "configurations"
#: Tokens of an input, unless the network takes fewer; samples of sound.
_TOKENS, _SOUND = 128, 16_000
_PICKLED = ("pytorch_model.bin", "pytorch_model.bin.index.json")


class TransformersNetwork(NetworkSource):
    """With the folder's weights, or random ones where it has none; nothing is downloaded."""

    @property
    def _folder(self) -> Path:
        if self.reference.path is None:
            return _SHIPPED / self.reference.target
        path = Path(self.reference.path)
        return path if path.is_dir() else path.parent

    def import_code(self) -> None:
        """Import transformers, and the code of the network's class.

        Raises:
            MachineError: it is not installed.
            WorkloadError: no configuration that it knows.
        """
        self._class(self._config())

    def construct(self, weights: bool) -> nn.Module:
        """The first of the configuration's ``architectures``, or its bare model.

        Raises:
            MachineError: transformers is not installed.
            WorkloadError: no configuration that it knows, or weights that can't be taken.
        """
        config = self._config()
        made = self._class(config)
        from_folder = weights and self._weights()
        try:
            model: nn.Module = (
                made.from_pretrained(
                    self._folder, config=config, local_files_only=True, use_safetensors=True
                )
                if from_folder
                else made._from_config(config)
            )
        except Exception as error:
            raise library_failed(self.name, error) from error
        return model.eval()

    def files(self) -> list[Path]:
        """The configuration, and the weights beside it."""
        return [self._folder / _CONFIG, *self._weights()]

    def version(self) -> str:
        """Of transformers."""
        return str(_library().__version__)

    def own_sample(self, model: nn.Module, batch: int, image: int | None, seed: int) -> Sample:
        """By the name of its main input: tokens, an image or sound.

        Raises:
            WorkloadError: it takes something else.
        """
        config: Any = model.config
        name = str(getattr(model, "main_input_name", "input_ids"))
        made: dict[str, torch.Tensor] = {}
        if name == "pixel_values":
            side = image or getattr(config, "image_size", 224)
            height, width = side if isinstance(side, (list, tuple)) else (side, side)
            shape = (batch, getattr(config, "num_channels", 3), height, width)
            made[name] = random_images(shape, seed)
        elif name == "input_values":
            made[name] = torch.randn((batch, _SOUND), generator=_seeded(seed))
        elif name == "input_ids":
            made[name] = _tokens(config, batch, seed)
        else:
            raise WorkloadError(
                f"{self.name} takes {name!r}, and nothing says of which shape",
                remedy=f'describe it: --input "{name}=float32 1x80x3000"',
            )
        if getattr(config, "is_encoder_decoder", False):
            made["decoder_input_ids"] = _tokens(config, batch, seed + 1)
        return CallArguments(kwargs=made)

    def _config(self) -> Any:
        path = self._folder / _CONFIG
        if not path.is_file():
            raise WorkloadError(
                f"no {_CONFIG} in {self._folder}",
                where=self.name,
                remedy="name the folder that model.save_pretrained(folder) wrote",
            )
        arguments = dict(self.reference.arguments)
        try:
            # Code that lies beside it is not asked about, at a terminal, but refused.
            config = _library().AutoConfig.from_pretrained(
                path, trust_remote_code=False, **arguments
            )
        except Exception as error:
            raise library_failed(str(path), error) from error
        unknown = [name for name in arguments if name not in config.to_dict()]
        if unknown:
            raise WorkloadError(
                f"{self.name}: the configuration has no {unknown[0]!r}", where=str(path)
            )
        return config

    def _class(self, config: Any) -> Any:
        library = _library()
        for name in config.architectures or ():
            if found := getattr(library, name, None):
                return found
        return library.AutoModel._model_mapping[type(config)]

    def _weights(self) -> list[Path]:
        found = sorted(self._folder.glob("*.safetensors"))
        pickled = [self._folder / name for name in _PICKLED if (self._folder / name).is_file()]
        if pickled and not found:
            folder = str(self._folder)
            code = (
                "from transformers import AutoModel as M; "
                f"M.from_pretrained({folder!r}).save_pretrained({folder!r})"
            )
            raise WorkloadError(
                f"the weights are pickled: reading {pickled[0].name} would run code in it",
                where=str(pickled[0]),
                remedy=f"if you trust the file, convert it: python3 -c {shlex.quote(code)}",
            )
        return found


def _tokens(config: Any, batch: int, seed: int) -> torch.Tensor:
    config = config.get_text_config() if hasattr(config, "get_text_config") else config
    most = getattr(config, "max_position_embeddings", None) or _TOKENS
    shape = (batch, min(_TOKENS, most))
    return torch.randint(config.vocab_size, shape, generator=_seeded(seed))


def _seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _library() -> Any:
    need(TRANSFORMERS)
    # What is not in the folder must not be looked for elsewhere.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    register_torchvision()
    import transformers

    return transformers
