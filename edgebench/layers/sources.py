"""Builds the network of a model reference: one source for each kind of reference."""

from __future__ import annotations

import io
import json
import os
import warnings
from abc import ABC, abstractmethod
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from edgebench.errors import WorkloadError, error_words
from edgebench.installation import need
from edgebench.layers.disk import refuse_too_large
from edgebench.layers.known_networks import construct, import_torchvision, input_shape
from edgebench.layers.network import CallArguments, Sample, named_tensors, tensors_in
from edgebench.layers.references import (
    CODE,
    EXPORTED,
    KNOWN,
    TRANSFORMERS,
    ModelReference,
    OwnFunction,
    own_files,
    required_arguments,
)
from edgebench.safe_files import read_text, write

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
        """Construct the network. ``weights``: with those that it comes with, where there are any.

        Raises:
            MachineError: a library is not installed.
            WorkloadError: it can't be built.
        """

    def files(self) -> list[Path]:
        """List the files that the network is made of: if they change, it is another network.

        Known only after the network was constructed.
        """
        return []

    def version(self) -> str:
        """Return the version of its library; empty where there is none."""
        return ""

    def keep(self, folder: Path) -> None:  # noqa: B027 - most need nothing
        """Write what a trial builds it from into the folder of its weights."""

    def use(self, folder: Path) -> None:  # noqa: B027
        """Build it from what :meth:`keep` wrote."""

    def own_sample(self, model: nn.Module, batch: int, image: int | None, seed: int) -> Sample:
        """Make the input of a forward pass where nobody describes one: one batch of images.

        Raises:
            WorkloadError: the network takes something else.
        """
        side = image or 224
        return random_images((batch, 3, side, side), seed)

    def input_remedy(self, model: nn.Module) -> str:
        """Say what to do where the network can't run on its input."""
        named = required_arguments(model.forward)
        some = [f'--input "{name}=float32 1x3x224x224"' for name in named[:2]]
        described = " ".join(some) or '--input "float32 1x3x224x224"'
        return f"describe what its forward takes, as {described}"


def network_source(reference: ModelReference) -> NetworkSource:
    """Return the source of a reference.

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
        """Construct the network of torchvision, or of edgebench."""
        return construct(self.name)

    def own_sample(self, model: nn.Module, batch: int, image: int | None, seed: int) -> Sample:
        """Make images of the size that the network was made for."""
        return random_images(input_shape(self.name, batch, image), seed)

    def input_remedy(self, model: nn.Module) -> str:
        """Say that it takes images."""
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
        """Call the function; its network is put into evaluation mode."""
        model = self._function.call()
        if not isinstance(model, nn.Module):
            what = f"{self.name} made a {type(model).__name__}, no torch.nn.Module"
            raise WorkloadError(what, remedy=self._HOW)
        return model.eval()

    def files(self) -> list[Path]:
        """List the files of the user's modules: not Python's, not installed."""
        return own_files()

    def own_sample(self, model: nn.Module, batch: int, image: int | None, seed: int) -> Sample:
        """Return the module's ``example_input_array``, or make images."""
        example = getattr(model, EXAMPLE, None)
        if isinstance(example, torch.Tensor):
            return example
        if isinstance(example, dict):
            return CallArguments(kwargs=example)
        if isinstance(example, (list, tuple)):
            return CallArguments(args=tuple(example))
        if len(required := required_arguments(model.forward)) > 1:
            raise WorkloadError(
                f"{self.name} takes several inputs: {', '.join(required)}",
                where="its forward",
                remedy=self.input_remedy(model),
            )
        return super().own_sample(model, batch, image, seed)


class TransformersNetwork(NetworkSource):
    """A network of transformers, from a ``config.json`` or the folder that holds one.

    It has the folder's weights, or random ones where the folder has none; nothing is downloaded.
    """

    _CONFIG = "config.json"
    #: Configurations that come with edgebench.
    _SHIPPED = Path(__file__).parent / "configurations"
    #: Tokens of an input, unless the network takes fewer.
    TOKENS = 128
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
        """Construct the first of the configuration's ``architectures``, or its bare model."""
        config = self._config()
        kind = self._class(config)
        from_folder = weights and self._weights()
        try:
            model: nn.Module = (
                kind.from_pretrained(
                    self._folder, config=config, local_files_only=True, use_safetensors=True
                )
                if from_folder
                else kind._from_config(config)
            )
        except Exception as error:
            raise _library_failed(self.name, error) from error
        return model.eval()

    def files(self) -> list[Path]:
        """List the configuration and the weights beside it."""
        return [self._folder / self._CONFIG, *self._weights()]

    def version(self) -> str:
        """Return the version of transformers."""
        return str(_transformers().__version__)

    def own_sample(self, model: nn.Module, batch: int, image: int | None, seed: int) -> Sample:
        """Make tokens or an image, by the name of its main input."""
        config: Any = model.config
        name = str(getattr(model, "main_input_name", "input_ids"))
        arguments: dict[str, torch.Tensor] = {}
        if name == "pixel_values":
            side = image or getattr(config, "image_size", 224)
            height, width = side if isinstance(side, (list, tuple)) else (side, side)
            shape = (batch, getattr(config, "num_channels", 3), height, width)
            arguments[name] = random_images(shape, seed)
        elif name == "input_ids":
            arguments[name] = self._tokens(config, batch, seed)
        else:
            raise WorkloadError(
                f"{self.name} takes {name!r}, and nothing says of which shape",
                remedy=f'describe it: --input "{name}=float32 1x80x3000"',
            )
        if getattr(config, "is_encoder_decoder", False):
            arguments["decoder_input_ids"] = self._tokens(config, batch, seed + 1)
        return CallArguments(kwargs=arguments)

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
            if kind := getattr(library, name, None):
                return kind
        return library.AutoModel._model_mapping[type(config)]

    def _weights(self) -> list[Path]:
        for index in sorted(self._folder.glob(self._INDICES)):
            # The library reads what an index names: it must lie beside it.
            try:
                names = set(json.loads(read_text(index))["weight_map"].values())
                outside = sorted(name for name in names if Path(name).name != name)
            except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
                outside = ["(it is damaged)"]
            if outside:
                raise WorkloadError(
                    f"the index of its weights names other files: {outside[0]!r}",
                    where=str(index),
                    remedy="write the folder anew: model.save_pretrained(folder)",
                )
        files = sorted(self._folder.glob("*.safetensors"))
        pickled = [name for name in self._PICKLED if (self._folder / name).is_file()]
        if pickled and not files:
            raise WorkloadError(
                f"the weights are pickled: reading {pickled[0]} would run code in it",
                where=str(self._folder / pickled[0]),
                remedy="if you trust the file, convert it: "
                "AutoModel.from_pretrained(folder).save_pretrained(folder)",
            )
        return files

    def _tokens(self, config: Any, batch: int, seed: int) -> torch.Tensor:
        config = config.get_text_config() if hasattr(config, "get_text_config") else config
        most = getattr(config, "max_position_embeddings", None) or self.TOKENS
        shape = (batch, min(self.TOKENS, most))
        return torch.randint(config.vocab_size, shape, generator=seeded(seed))


def _transformers() -> Any:
    need(TRANSFORMERS)
    # The library would look elsewhere for what is not in the folder.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    # Known before the library imports torchvision, if it is there.
    with suppress(ImportError):
        import_torchvision()
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
        """Unflatten the program into modules."""
        program = self._load()
        self._example = program.example_inputs
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.export.unflatten(program)

    def files(self) -> list[Path]:
        """List the program's file."""
        return [self._path]

    def own_sample(self, model: nn.Module, batch: int, image: int | None, seed: int) -> Sample:
        """Return the input that it was exported with: its shapes are fixed."""
        if batch != 1 or image is not None:
            raise WorkloadError(
                f"{self.name} has the input that it was exported with",
                remedy="leave --batch and --image out, or export it anew with another input",
            )
        args, kwargs = self._example or ((), {})
        return CallArguments(tuple(args), dict(kwargs))

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
            refuse_too_large(self._path.name, self._path.stat().st_size)
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
    TRANSFORMERS: TransformersNetwork,
    EXPORTED: ExportedNetwork,
}


def random_images(shape: tuple[int, ...], seed: int) -> torch.Tensor:
    """Make pixels from 0 to 1, equal for equal seeds."""
    return torch.rand(shape, generator=seeded(seed))


def seeded(seed: int) -> torch.Generator:
    """Return a generator of its own for these numbers."""
    return torch.Generator().manual_seed(seed)


def _library_failed(doing: str, error: BaseException) -> WorkloadError:
    words = str(error).strip().splitlines() or ["no message"]
    return WorkloadError(f"{type(error).__name__}: {words[0]}", where=doing)


@dataclass(frozen=True)
class EmptyNetwork:
    """A network on ``meta``, in evaluation mode.

    Attributes:
        computed: buffers by name, as the constructor computes them: index tables, counts.
        tied: groups of names that are one tensor.
    """

    model: nn.Module
    computed: dict[str, torch.Tensor]
    tied: list[list[str]]


def empty_network(source: NetworkSource, seed: int = 0) -> EmptyNetwork:
    """Build a network on ``meta``; a constructor that can't do without memory gets it for a time.

    Its constructor's random numbers come from the seed.

    Raises:
        WorkloadError: it can't be built.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = _built_light(source) if source.may_be_light else None
    if model is None:
        model = seeded_network(source, seed, weights=False)
    computed = {name: buffer for name, buffer in model.named_buffers() if not buffer.is_meta}
    names: dict[int, list[str]] = defaultdict(list)
    for name, tensor in named_tensors(model).items():
        names[id(tensor)].append(name)
    tied = [group for group in names.values() if len(group) > 1]
    # No gradients: torch's counter of operations would follow those of parameters.
    return EmptyNetwork(model.to("meta").eval().requires_grad_(False), computed, tied)


def seeded_network(source: NetworkSource, seed: int, weights: bool) -> nn.Module:
    """Build a network with memory for its weights; its random numbers come from the seed.

    Raises:
        WorkloadError: it can't be built.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return source.construct(weights).requires_grad_(False)


class _EmptyOnMeta(TorchFunctionMode):
    """What a constructor leaves to be filled is made on ``meta``; what it computes with is real."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is torch.empty and kwargs.get("device") is None:
            kwargs["device"] = "meta"
        return func(*args, **kwargs)


def _built_light(source: NetworkSource) -> nn.Module | None:
    try:
        with _EmptyOnMeta():
            model = source.construct(weights=False)
    except WorkloadError as error:
        if _is_about_meta(error):
            return None
        raise
    # A module that keeps a tensor that is no parameter and no buffer needs it as it was made.
    registered = {id(tensor) for tensor in named_tensors(model).values()}
    registries = ("_parameters", "_buffers", "_modules", EXAMPLE)
    kept = (
        value
        for module in model.modules()
        for key, value in vars(module).items()
        if key not in registries and isinstance(value, (torch.Tensor, list, tuple, dict))
    )
    has_stray = any(id(t) not in registered for value in kept for t in tensors_in(value))
    return None if has_stray else model


def _is_about_meta(error: BaseException | None) -> bool:
    """Recognise the errors of constructors that compute with values that are not there."""
    if error is None:
        return False
    words = str(error).lower()
    return "meta" in words or "is_nonzero" in words or _is_about_meta(error.__cause__)
