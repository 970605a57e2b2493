"""Files with a network or weights that no engine here loads: what they are, and the nearest way.

Told from the name and the first bytes; of a zip file from the names in it. Nothing is unpickled.
"""

from __future__ import annotations

import json
import shlex
import zipfile
from pathlib import Path

from edgebench.errors import UsageError
from edgebench.safe_folders import real_path
from edgebench.safe_reading import open_to_read

#: Endings that both TorchScript and checkpoints have.
UNSURE = (".pt", ".pth")
_PROGRAM = "measure the program that loads it: edgebench minimum --file {file} -- {command}"
_PYTHON = "python3 infer.py"
_TO_KERAS = "save it in Keras's own format: {converts}, then edgebench minimum {made}"
_TO_TFLITE = "convert it: {converts}, then edgebench minimum {made}"
#: Way → the ending of the file that it makes, and how.
_CONVERSIONS = {
    _TO_KERAS: (".keras", "import keras; keras.models.load_model({name}).save({made})"),
    _TO_TFLITE: (
        ".tflite",
        'import tensorflow as tf; open({made}, "wb").write('
        "tf.lite.TFLiteConverter.from_saved_model({name}).convert())",
    ),
}
_TO_ONNX = "name the .onnx file that it was made of; or "
_LLAMA = "llama-cli -m {file} -p hello -n 16"
#: Ending → what such a file is; and the nearest way, or None: the program that loads it.
_FORMATS: dict[str, tuple[str, str | None]] = {
    ".gguf": ("a file of weights for llama.cpp", _PROGRAM.replace("{command}", _LLAMA)),
    ".ggml": ("a file of weights for an old llama.cpp", _PROGRAM.replace("{command}", _LLAMA)),
    ".h5": ("a Keras or HDF5 file of the older format", _TO_KERAS),
    ".hdf5": ("a Keras or HDF5 file of the older format", _TO_KERAS),
    ".ort": ("an ONNX Runtime file of the ORT format", _TO_ONNX + _PROGRAM),
    ".engine": ("an engine of TensorRT for an NVIDIA GPU", _TO_ONNX + _PROGRAM),
    ".plan": ("an engine of TensorRT for an NVIDIA GPU", _TO_ONNX + _PROGRAM),
    ".trt": ("an engine of TensorRT for an NVIDIA GPU", _TO_ONNX + _PROGRAM),
    ".pb": (
        "a graph of TensorFlow",
        "name the SavedModel's folder or a .tflite file; or " + _PROGRAM,
    ),
    ".mlmodel": ("a model of Core ML", _TO_ONNX + _PROGRAM),
    ".mlpackage": ("a model of Core ML", _TO_ONNX + _PROGRAM),
    ".pdmodel": ("a graph of PaddlePaddle", "convert it with paddle2onnx; or " + _PROGRAM),
    ".pte": ("a program of ExecuTorch", None),
    ".mnn": ("a model of MNN", _TO_ONNX + _PROGRAM),
    ".task": ("a bundle of MediaPipe", "unzip it and name the .tflite file in it; or " + _PROGRAM),
    ".rknn": ("a model for Rockchip's NPU", _TO_ONNX + _PROGRAM),
    ".hef": ("a model for Hailo's accelerators", _TO_ONNX + _PROGRAM),
    ".param": ("a graph of ncnn", _TO_ONNX + _PROGRAM),
    ".pkl": ("a pickle, which runs code when it is read", None),
    ".joblib": ("a pickle, which runs code when it is read", None),
}
_WEIGHTS = (".safetensors", ".bin", ".ckpt", *UNSURE)
_EXPORTED_MARKS = ("archive_format", "serialized_exported_program.json", "models/model.json")


def holds_torchscript(file: Path) -> bool:
    """Whether a zip file holds a program of TorchScript: constants and code beside its data."""
    names = _zipped_names(file)
    return "constants.pkl" in names and any(name.startswith("code/") for name in names)


def refuse_model_file(text: str, relative_to: Path) -> None:
    """Check that a text is no file with a network or weights that no engine here loads.

    Raises:
        UsageError: it is one; says what it is and what to type.
    """
    path = Path(text)
    found = (relative_to / path.expanduser()) if "\0" not in text else path
    suffix = path.suffix.lower()
    if (found / "saved_model.pb").is_file():
        raise _refused(text, "a SavedModel of TensorFlow", _TO_TFLITE + "; or " + _PROGRAM)
    if (found / "config.json").is_file():
        raise UsageError(
            f"{path.name} is a folder of transformers", where=text, remedy=f"transformers:{text}"
        )
    if suffix in _FORMATS:
        what, way = _FORMATS[suffix]
        raise _refused(text, what, way or _PROGRAM)
    if suffix in _WEIGHTS and _begins_with(found, b"GGUF"):
        raise _refused(text, *_FORMATS[".gguf"])
    if suffix in UNSURE and any(name in _EXPORTED_MARKS for name in _zipped_names(found)):
        raise UsageError(
            f"{path.name} is a program of torch.export under another ending",
            where=text,
            remedy=f"mv {shlex.quote(text)} {shlex.quote(str(path.with_suffix('.pt2')))}",
        )
    if suffix in UNSURE and not found.exists():
        found = real_path(found)
        raise UsageError(f"no file {found}", where=text, remedy=f"ls {found.parent}")
    if suffix in _WEIGHTS:
        raise _checkpoint(text, path, found.parent / "config.json")


def is_model_file(text: str) -> bool:
    """Whether a text has the ending of a file with a network or weights."""
    return Path(text).suffix.lower() in (*_FORMATS, *_WEIGHTS)


def _refused(text: str, what: str, way: str | None) -> UsageError:
    path, file = Path(text), shlex.quote(text)
    words = way or _PROGRAM
    for how, (ending, code) in _CONVERSIONS.items():
        if words.startswith(how):
            made = path.stem + ending
            code = code.replace("{name}", json.dumps(text)).replace("{made}", json.dumps(made))
            words = words.replace("{converts}", shlex.join(["python3", "-c", code]))
            words = words.replace("{made}", shlex.quote(made))
    return UsageError(
        f"{path.name} is {what}, which no engine of edgebench loads",
        where=text,
        remedy=words.replace("{command}", _PYTHON).replace("{file}", file),
    )


def _checkpoint(text: str, path: Path, config: Path) -> UsageError:
    ways = [
        "name the code that makes the network, package.module:function; to load this file into it, "
        "type edgebench init mymodel.py:Net, and write below [workload]: "
        f'checkpoint = {{"mymodel.py:Net" = "{path.name}"}}'
    ]
    holds = "it holds weights and no network"
    if path.suffix in UNSURE:
        holds = "it holds weights, or objects of Python's that edgebench does not unpickle"
        ways.append("or save the network as TorchScript: torch.jit.trace(net, x).save('net.pt')")
    if config.is_file():
        ways.insert(0, f"transformers:{path.parent}, if the config.json beside it is its own; or")
    return UsageError(f"{path.name} is a checkpoint: {holds}", where=text, remedy="; ".join(ways))


def _zipped_names(file: Path) -> set[str]:
    """The names in a zip file without their first folder; none where it is no zip file."""
    try:
        with open_to_read(file) as opened, zipfile.ZipFile(opened) as archive:
            return {name.partition("/")[2] or name for name in archive.namelist()}
    except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError):
        return set()


def _begins_with(file: Path, mark: bytes) -> bool:
    try:
        with open_to_read(file) as opened:
            return opened.read(len(mark)) == mark
    except OSError:
        return False
