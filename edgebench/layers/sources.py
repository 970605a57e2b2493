"""Builds the network of a model reference: one source for each kind of reference."""

from __future__ import annotations

import io
import json
import os
import shlex
import warnings
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import torch
from torch import nn

from edgebench.errors import WorkloadError, error_words
from edgebench.extras import need
from edgebench.layers.disk import refuse_large_files
from edgebench.layers.known_networks import construct, input_shape, register_torchvision
from edgebench.layers.own_function import OwnFunction, own_files, required_arguments
from edgebench.layers.references import (
    CODE,
    EXPORTED,
    KNOWN,
    TIMM,
    TRANSFORMERS,
    ModelReference,
)
from edgebench.layers.samples import CallArguments, Sample
from edgebench.safe_files import write
from edgebench.safe_reading import read_text
from edgebench.text import did_you_mean

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
        """Import everything that building it needs, so that it counts as base.

        Raises:
            MachineError: a library is not installed.
            WorkloadError: it can't be imported.
        """

    @abstractmethod
    def construct(self, weights: bool) -> nn.Module:
        """The network. ``weights``: with those that it comes with, where there are any.

        Raises:
            MachineError: a library is not installed.
            WorkloadError: it can't be built.
        """

    def files(self) -> list[Path]:
        """The files that the network is made of: if they change, it is another network.

        Known only after the network was constructed.
        """
        return []

    def version(self) -> str:
        """The version of its library; empty where there is none."""
        return ""

    def keep(self, folder: Path) -> None:  # noqa: B027 - most need nothing
        """Write what a trial builds it from into the folder of its weights."""

    def use(self, folder: Path) -> None:  # noqa: B027
        """Build it from what :meth:`keep` wrote."""

    def own_sample(self, model: nn.Module, batch: int, image: int | None, seed: int) -> Sample:
        """The input of a forward pass where nobody describes one: one batch of images.

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


def network_source(reference: ModelReference) -> NetworkSource:
    """The source of a reference.

    Raises:
        WorkloadError: torch doesn't run such a file.
    """
    if reference.kind not in _SOURCES:
        raise WorkloadError(
            f"{reference.name} is a file that torch does not run",
            remedy="name a .pt2 file, or the code that makes the network: package.module:function",
        )
    return _SOURCES[reference.kind](reference)


class KnownNetwork(NetworkSource):
    """A network that edgebench knows by name; its weights are random, from the seed."""

    has_weights = False

    def construct(self, weights: bool) -> nn.Module:
        """The network of torchvision, or of edgebench."""
        return construct(self.name)

    def own_sample(self, model: nn.Module, batch: int, image: int | None, seed: int) -> Sample:
        """Images of the size that the network was made for."""
        return random_images(input_shape(self.name, batch, image), seed)

    def input_remedy(self, model: nn.Module) -> str:
        """It takes images."""
        return "leave `image` out, or choose a size that the network was made for"


class OwnCode(NetworkSource):
    """A function or class of the user's own that makes a network."""

    _HOW = "name a function or class that makes a torch.nn.Module: package.module:function"

    def __init__(self, reference: ModelReference) -> None:
        super().__init__(reference)
        self._function = OwnFunction(reference, self._HOW)

    def import_code(self) -> None:
        """Import the user's module, with everything that it imports."""
        self._function.import_code()

    def construct(self, weights: bool) -> nn.Module:
        """What the function returns, in evaluation mode."""
        made = self._function.call()
        if not isinstance(made, nn.Module):
            what = f"{self.name} made a {type(made).__name__}, no torch.nn.Module"
            raise WorkloadError(what, remedy=self._HOW)
        return made.eval()

    def files(self) -> list[Path]:
        """Those of every imported module of the user's: not Python's, not installed."""
        return own_files()

    def own_sample(self, model: nn.Module, batch: int, image: int | None, seed: int) -> Sample:
        """The module's ``example_input_array``, or else images."""
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


class TimmNetwork(NetworkSource):
    """A network of timm with the random weights that timm gives it; nothing is downloaded."""

    def import_code(self) -> None:
        """Import timm."""
        _timm()

    def construct(self, weights: bool) -> nn.Module:
        """What ``timm.create_model`` makes of the name and the arguments."""
        library, name = _timm(), self.reference.target
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
            raise _library_failed(self.name, error) from error
        return model.eval()

    def version(self) -> str:
        """The version of timm."""
        return str(_timm().__version__)

    def own_sample(self, model: nn.Module, batch: int, image: int | None, seed: int) -> Sample:
        """Images of the size in timm's own configuration of the network."""
        described: Any = getattr(model, "pretrained_cfg", None) or {}
        channels, height, width = described.get("input_size", (3, 224, 224))
        return random_images((batch, channels, image or height, image or width), seed)


def _timm() -> Any:
    need(TIMM)
    register_torchvision()
    import timm

    return timm


class TransformersNetwork(NetworkSource):
    """A network of transformers, from a ``config.json`` or the folder that holds one.

    It has the folder's weights, or random ones where the folder has none; nothing is downloaded.
    """

    _CONFIG = "config.json"
    #: Configurations that come with edgebench.
    _SHIPPED = Path(__file__).parent / "configurations"
    #: Tokens of an input, unless the network takes fewer; samples of sound.
    TOKENS, _SOUND = 128, 16_000
    #: Of weights in several files.
    _INDICES = "*.safetensors.index.json"
    _PICKLED = ("pytorch_model.bin", "pytorch_model.bin.index.json")

    @property
    def _folder(self) -> Path:
        if self.reference.path is None:
            return self._SHIPPED / self.reference.target
        path = Path(self.reference.path)
        return path if path.is_dir() else path.parent

    def import_code(self) -> None:
        """Import transformers, and the code of the network's class."""
        self._class(self._config())

    def construct(self, weights: bool) -> nn.Module:
        """The first of the configuration's ``architectures``, or its bare model."""
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
            raise _library_failed(self.name, error) from error
        return model.eval()

    def files(self) -> list[Path]:
        """The configuration, and the weights beside it."""
        return [self._folder / self._CONFIG, *self._weights()]

    def version(self) -> str:
        """The version of transformers."""
        return str(_transformers().__version__)

    def own_sample(self, model: nn.Module, batch: int, image: int | None, seed: int) -> Sample:
        """By the name of its main input: tokens, an image or sound."""
        config: Any = model.config
        name = str(getattr(model, "main_input_name", "input_ids"))
        made: dict[str, torch.Tensor] = {}
        if name == "pixel_values":
            side = image or getattr(config, "image_size", 224)
            height, width = side if isinstance(side, (list, tuple)) else (side, side)
            shape = (batch, getattr(config, "num_channels", 3), height, width)
            made[name] = random_images(shape, seed)
        elif name == "input_values":
            made[name] = torch.randn((batch, self._SOUND), generator=seeded(seed))
        elif name == "input_ids":
            made[name] = self._tokens(config, batch, seed)
        else:
            raise WorkloadError(
                f"{self.name} takes {name!r}, and nothing says of which shape",
                remedy=f'describe it: --input "{name}=float32 1x80x3000"',
            )
        if getattr(config, "is_encoder_decoder", False):
            made["decoder_input_ids"] = self._tokens(config, batch, seed + 1)
        return CallArguments(kwargs=made)

    def _config(self) -> Any:
        path = self._folder / self._CONFIG
        if not path.is_file():
            raise WorkloadError(
                f"no {self._CONFIG} in {self._folder}",
                where=self.name,
                remedy="name the folder that model.save_pretrained(folder) wrote",
            )
        arguments = dict(self.reference.arguments)
        try:
            # Code that lies beside it is refused, without a question at the terminal.
            config = _transformers().AutoConfig.from_pretrained(
                path, trust_remote_code=False, **arguments
            )
        except Exception as error:
            raise _library_failed(str(path), error) from error
        unknown = [name for name in arguments if name not in config.to_dict()]
        if unknown:
            raise WorkloadError(
                f"{self.name}: the configuration has no {unknown[0]!r}", where=str(path)
            )
        return config

    def _class(self, config: Any) -> Any:
        library = _transformers()
        for name in config.architectures or ():
            if found := getattr(library, name, None):
                return found
        return library.AutoModel._model_mapping[type(config)]

    def _weights(self) -> list[Path]:
        for index in sorted(self._folder.glob(self._INDICES)):
            self._check_index(index)
        found = sorted(self._folder.glob("*.safetensors"))
        pickled = [name for name in self._PICKLED if (self._folder / name).is_file()]
        if pickled and not found:
            folder = str(self._folder)
            code = (
                "from transformers import AutoModel as M; "
                f"M.from_pretrained({folder!r}).save_pretrained({folder!r})"
            )
            raise WorkloadError(
                f"the weights are pickled: reading {pickled[0]} would run code in it",
                where=str(self._folder / pickled[0]),
                remedy=f"if you trust the file, convert it: python3 -c {shlex.quote(code)}",
            )
        return found

    def _check_index(self, index: Path) -> None:
        """Check that the parts that it names lie beside it: the library reads what it names."""
        try:
            names = set(json.loads(read_text(index))["weight_map"].values())
            outside = sorted(name for name in names if Path(name).name != name)
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise WorkloadError(
                "the index of its weights is damaged",
                where=str(index),
                remedy="write the folder anew: model.save_pretrained(folder)",
            ) from error
        if outside:
            raise WorkloadError(
                f"it names weights outside its own folder: {outside[0]!r}",
                where=str(index),
                remedy="write the folder anew: model.save_pretrained(folder)",
            )

    def _tokens(self, config: Any, batch: int, seed: int) -> torch.Tensor:
        config = config.get_text_config() if hasattr(config, "get_text_config") else config
        most = getattr(config, "max_position_embeddings", None) or self.TOKENS
        shape = (batch, min(self.TOKENS, most))
        return torch.randint(config.vocab_size, shape, generator=seeded(seed))


def _transformers() -> Any:
    need(TRANSFORMERS)
    # The library would look elsewhere for what is not in the folder.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    register_torchvision()
    import transformers

    return transformers


class ExportedNetwork(NetworkSource):
    """A program saved by ``torch.export``, as modules again.

    Reading the file may run code in it.
    """

    #: What a file holds is read into memory; the file of a trial holds no weights.
    may_be_light = False
    #: The program without its weights, beside them: a trial builds the network from it.
    _HOLLOW = "program.pt2"

    def __init__(self, reference: ModelReference) -> None:
        super().__init__(reference)
        self._path = Path(reference.path or "")
        self._example: Any = None

    def construct(self, weights: bool) -> nn.Module:
        """The program's modules."""
        program = self._load()
        self._example = program.example_inputs
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.export.unflatten(program)

    def files(self) -> list[Path]:
        """The program's file."""
        return [self._path]

    def own_sample(self, model: nn.Module, batch: int, image: int | None, seed: int) -> Sample:
        """The input that it was exported with: its shapes are fixed."""
        if batch != 1 or image is not None:
            raise WorkloadError(
                f"{self.name} has the input that it was exported with",
                remedy="leave --batch and --image out, or export it anew with another input",
            )
        args, kwargs = self._example or ((), {})
        return CallArguments(tuple(args), dict(kwargs))

    def input_remedy(self, model: nn.Module) -> str:
        """Its shapes are part of the program."""
        return "leave --input out: it has the input that it was exported with"

    def keep(self, folder: Path) -> None:
        """Write the program without its weights."""
        program = self._load()
        for name, tensor in list(program.state_dict.items()):
            empty = tensor.detach().to("meta")
            is_parameter = isinstance(tensor, nn.Parameter)
            program.state_dict[name] = nn.Parameter(empty, False) if is_parameter else empty
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            buffer = io.BytesIO()
            torch.export.save(program, buffer)
        write(folder / self._HOLLOW, buffer.getvalue())

    def use(self, folder: Path) -> None:
        """Build from the program without its weights."""
        self._path = folder / self._HOLLOW

    def _load(self) -> torch.export.ExportedProgram:
        if self._path.name != self._HOLLOW:
            refuse_large_files([self._path])
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return torch.export.load(self._path)
        except Exception as error:
            raise WorkloadError(
                f"torch.export.load can't read {self._path.name}: {error_words(error)[:300]}",
                where=str(self._path),
                remedy="write it anew with this version of PyTorch: "
                f'torch.export.save(torch.export.export(model, (x,)), "{self._path.name}")',
            ) from error


#: Kind of reference → what builds it.
_SOURCES: dict[str, type[NetworkSource]] = {
    KNOWN: KnownNetwork,
    CODE: OwnCode,
    TIMM: TimmNetwork,
    TRANSFORMERS: TransformersNetwork,
    EXPORTED: ExportedNetwork,
}


def random_images(shape: tuple[int, ...], seed: int) -> torch.Tensor:
    """Pixels from 0 to 1, the same for the same seed."""
    return torch.rand(shape, generator=seeded(seed))


def seeded(seed: int) -> torch.Generator:
    """A generator of its own for these numbers."""
    return torch.Generator().manual_seed(seed)


def _library_failed(doing: str, error: BaseException) -> WorkloadError:
    """The error for a library that refuses: in its own words."""
    words = str(error).strip().splitlines() or ["no message"]
    return WorkloadError(f"{type(error).__name__}: {words[0]}", where=doing)
