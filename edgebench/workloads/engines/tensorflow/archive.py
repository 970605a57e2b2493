"""A Keras file read without Keras: its archive, the layers in it, and its inputs and outputs.

A file may come from anybody. Nothing here imports a class or calls a function that it names; one
that would make Keras run other code than its own is refused before a trial opens it.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgebench.errors import WorkloadError, error_words
from edgebench.workloads.engines.file_inputs import FileInput

CONFIG, WEIGHTS = "config.json", "model.weights.h5"
#: The most that a description of layers may take.
_MOST_CONFIG_BYTES = 64 << 20
_CHUNK_BYTES = 8 << 20
#: Keras packs nothing; what is packed more tightly than this would fill the disk or the memory.
_MOST_PACKED = 100
_SAVE = "save it again: docs/how-to/onnx-and-tflite.md shows how"
#: Keras's own code. Of its utilities none is a part of a network, and some load files.
_OWN = re.compile(
    r"keras(\.src)?(\.(layers|initializers|regularizers|constraints|activations|dtype_policies"
    r"|models|ops|quantizers|random)\b.*)?$"
)
_FUNCTIONS = re.compile(r"keras(\.src)?\.(activations|ops)\b")
#: Layers that hold or start code: of Python, of a SavedModel, or of another framework.
_CODE = ("Lambda", "TFSMLayer", "TorchModuleWrapper", "JaxLayer", "FlaxLayer")
_NETWORKS = ("Functional", "Model", "Sequential")


@dataclass(frozen=True)
class KerasArchive:
    """What a Keras file says of its network.

    Attributes:
        kind: ``Functional``, ``Model`` or ``Sequential``.
        config: the network's own part of the description, as Keras wrote it.
    """

    kind: str
    config: Mapping[str, Any]

    @property
    def layers(self) -> list[dict[str, Any]]:
        """The layers' descriptions, in the file's order."""
        return [one for one in self.config.get("layers", ()) if isinstance(one, dict)]

    def inputs(self) -> list[FileInput]:
        """The inputs, in the network's order; none where it does not say."""
        given = [one for one in self.layers if one.get("class_name") == "InputLayer"]
        named = {one["config"]["name"]: _input(one["config"]) for one in given}
        if self.kind == "Sequential":
            shape = self.config.get("build_input_shape")
            return list(named.values())[:1] or ([_unnamed(shape)] if shape else [])
        return [named[name] for name, _ in _ends(self.config.get("input_layers")) if name in named]

    def outputs(self) -> list[str]:
        """A name for each output."""
        ends = list(_ends(self.config.get("output_layers")))
        return [f"output{number}" for number in range(len(ends) or 1)]


def read_archive(file: Path) -> KerasArchive:
    """The description in a Keras file, after a check of all that it names and of its checksums.

    Raises:
        WorkloadError: it is no whole Keras file, or needs code that is not Keras's own.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            data = _whole_config(archive, file)
            for _ in _chunks(archive, WEIGHTS):
                pass
    except (zipfile.BadZipFile, KeyError, EOFError, NotImplementedError, RuntimeError) as error:
        raise no_keras_file(file, _words(file, error)) from error
    if not isinstance(data, dict) or not isinstance(data.get("config"), dict):
        raise no_keras_file(file, f"{CONFIG} describes no network")
    if (kind := data.get("class_name")) not in _NETWORKS:
        raise _code_elsewhere(f"the network is of the class {kind!r}", file)
    try:
        check_names({key: value for key, value in data.items() if key != "compile_config"}, file)
        found = KerasArchive(str(kind), data["config"])
        if not found.inputs():
            raise no_keras_file(file, "its description has no input; add keras.Input(shape)")
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise no_keras_file(file, f"{CONFIG} is damaged") from error
    return found


def no_keras_file(file: Path, words: str) -> WorkloadError:
    """The error of a file that can't be read."""
    return WorkloadError(
        f"it is no Keras file, or not a whole one: {words}", where=str(file), remedy=_SAVE
    )


def _whole_config(archive: zipfile.ZipFile, file: Path) -> Any:
    if archive.getinfo(CONFIG).file_size > _MOST_CONFIG_BYTES:
        raise no_keras_file(file, f"{CONFIG} is larger than any description of layers")
    try:
        return json.loads(b"".join(_chunks(archive, CONFIG)))
    except (ValueError, RecursionError) as error:
        raise no_keras_file(file, f"{CONFIG} is damaged") from error


def _chunks(archive: zipfile.ZipFile, name: str) -> Iterator[bytes]:
    """A member part by part; its end compares the checksum."""
    about = archive.getinfo(name)
    if about.file_size > _MOST_PACKED * about.compress_size:
        raise zipfile.BadZipFile(f"{name} is packed more tightly than weights can be")
    with archive.open(name) as member:
        while chunk := member.read(_CHUNK_BYTES):
            yield chunk


def _words(file: Path, error: Exception) -> str:
    if isinstance(error, KeyError):
        return " ".join(str(error.args[0]).split())
    with file.open("rb") as opened:
        if opened.read(8) == b"\x89HDF\r\n\x1a\n":
            return "it is an HDF5 file, as Keras 2 wrote them"
    return error_words(error)


def check_names(value: Any, file: Path) -> None:
    """Check each class and function that a part of the description names.

    Raises:
        WorkloadError: one is not Keras's own, or is a layer that runs other code.
    """
    if isinstance(value, list):
        for one in value:
            check_names(one, file)
    if not isinstance(value, dict):
        return
    if isinstance(kind := value.get("class_name"), str):
        _check_class(kind, value, file)
    for one in value.values():
        check_names(one, file)


def _check_class(kind: str, value: Mapping[str, Any], file: Path) -> None:
    module, config = value.get("module"), value.get("config")
    if kind in _CODE:
        called = config.get("name", kind) if isinstance(config, dict) else kind
        raise WorkloadError(
            f"its layer {called!r} is a {kind}, which runs code that is not Keras's own",
            where=str(file),
            remedy="build the network with keras.layers or keras.ops in its place, and save it "
            "again",
        )
    own = module is None or (isinstance(module, str) and _OWN.match(module))
    if kind == "function":
        own = isinstance(module, str) and _FUNCTIONS.match(module)
    if not own or ">" in kind:
        raise _code_elsewhere(f"it names {kind!r} of {module or 'a package'}", file)
    if isinstance(config, dict) and isinstance(config.get("vocabulary"), str):
        raise _code_elsewhere(f"its {kind} reads a file of its own", file)


def _code_elsewhere(words: str, file: Path) -> WorkloadError:
    return WorkloadError(
        f"{words}, which is not in the file",
        where=str(file),
        remedy="build it with keras.layers alone, as keras.Sequential([...]) or "
        "keras.Model(inputs, outputs), and save it again",
    )


def _input(config: Mapping[str, Any]) -> FileInput:
    shape = config.get("batch_shape") or config.get("batch_input_shape")
    dtype = config.get("dtype") or "float32"
    if isinstance(dtype, dict):
        dtype = dtype["config"]["name"]
    # What numpy has no type for can't be made up; Keras casts this one by itself.
    known = {"string": "object", "bfloat16": "float32"}
    return FileInput(config["name"], known.get(dtype, dtype), _sizes(shape))


def _unnamed(shape: Any) -> FileInput:
    return FileInput("input", "float32", _sizes(shape))


def _sizes(shape: Any) -> tuple[int | None, ...]:
    if not isinstance(shape, list) or not all(s is None or type(s) is int for s in shape):
        raise ValueError(f"no shape: {shape!r}")
    return tuple(shape)


def _ends(value: Any) -> Iterator[tuple[str, int]]:
    """The layers' names and tensors' numbers in ``["x", 0, 0]``, and in lists and tables of it."""
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list):
        return
    if len(value) == 3 and isinstance(value[0], str) and isinstance(value[2], int):
        yield value[0], value[2]
        return
    for one in value:
        yield from _ends(one)
