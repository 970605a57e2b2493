"""A Keras file before any trial: read and checked, copied, and its layers as a table."""

from __future__ import annotations

import math
import re
import zipfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgebench.errors import error_words
from edgebench.layers.layer_table import LayerTableRow, table_with_sizes
from edgebench.workloads.engines.file_inputs import concrete_shapes
from edgebench.workloads.engines.file_preparation import keep_whole
from edgebench.workloads.engines.files import FileRequest
from edgebench.workloads.engines.tensorflow.archive import (
    WEIGHTS,
    KerasArchive,
    no_keras_file,
    read_archive,
)

Shape = tuple[int, ...]
#: Bytes of one element of a result; of other types as many as most networks compute with.
_WIDTHS = {"float16": 2, "bfloat16": 2, "float64": 8, "int64": 8, "int8": 1, "uint8": 1, "bool": 1}
_WIDTH = 4
#: Layers whose output is as large as their input.
_SAME_SHAPE = ("Activation", "BatchNormalization", "Dropout", "LeakyReLU", "ReLU", "Softmax")

_CONVOLUTION_KEYS = ("kernel_size", "strides", "dilation_rate")


def keras_table(archive: KerasArchive, file: Path, batch: int) -> dict[str, Any]:
    """A row for each layer in the file's order, with the network's sizes.

    An output whose shape the file does not tell counts nothing. ``batch`` fills a dynamic first
    dimension.

    Raises:
        WorkloadError: the weights in the file can't be read.
    """
    weights = _weights(file)
    shapes = _output_shapes(archive, batch)
    rows: list[LayerTableRow] = []
    for place, layer in zip(_places(archive), archive.layers, strict=True):
        name, own = layer["config"]["name"], _below(weights, place)
        stored = sum(size for _, size in own.values())
        shape, width = shapes.get(name, ((), _WIDTH))
        kernel = next((shape for shape, _ in own.values()), ())
        rows.append(
            LayerTableRow(
                order=len(rows),
                name=name,
                type=layer["class_name"],
                part=name,
                parameter_bytes=stored,
                file_bytes=stored,
                buffer_bytes=0,
                output_bytes=math.prod(shape) * width if shape else 0,
                flops=_flops(layer["class_name"], kernel, shape),
            )
        )
    return table_with_sizes(rows)


def _weights(file: Path) -> dict[str, tuple[Shape, int]]:
    """Name of a tensor in the archive's weights → its shape and bytes."""
    import h5py

    found: dict[str, tuple[Shape, int]] = {}

    def see(name: str, one: Any) -> None:
        if isinstance(one, h5py.Dataset):
            found[name] = tuple(one.shape or ()), int(one.nbytes)

    try:
        with (
            zipfile.ZipFile(file) as archive,
            archive.open(WEIGHTS) as opened,
            h5py.File(opened, "r") as stored,
        ):
            stored.visititems(see)
    except Exception as error:
        words = error_words(error)
        raise no_keras_file(file, f"its weights are damaged: {words}") from error
    return found


def _places(archive: KerasArchive) -> list[str]:
    """Each layer's folder in the weights: Keras numbers the layers of a class.

    An operation has none; neither has a chain's input, which has no weights anyway.
    """
    seen: Counter[str] = Counter()
    places = []
    for layer in archive.layers:
        kind = _snake_case(layer["class_name"])
        if _is_operation(layer):
            places.append("")
            continue
        places.append(f"layers/{kind}_{seen[kind]}" if seen[kind] else f"layers/{kind}")
        seen[kind] += 1
    return places


def _is_operation(layer: Mapping[str, Any]) -> bool:
    """Whether it is a function of ``keras.ops`` rather than a layer."""
    return ".ops" in str(layer.get("module"))


def _snake_case(kind: str) -> str:
    """As Keras writes a class's name."""
    parted = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", re.sub(r"\W+", "", kind))
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", parted).lower()


def _below(weights: Mapping[str, Any], place: str) -> dict[str, Any]:
    return {n: one for n, one in weights.items() if place and n.startswith(f"{place}/")}


def _output_shapes(archive: KerasArchive, batch: int) -> dict[str, tuple[Shape, int]]:
    """Layer → the shape of its first output, and the bytes of an element."""
    found: dict[str, tuple[Shape, int]] = {}
    layers = archive.layers
    for layer in layers:
        _read_by(layer.get("inbound_nodes"), found, batch)
    for number, layer in enumerate(layers):
        name, config = layer["config"]["name"], layer["config"]
        # What the next layer of a chain reads; else what follows from the layer's own input.
        chained = archive.kind == "Sequential" and number + 1 < len(layers)
        given = _built_for(layers[number + 1]) if chained else None
        shape = _filled(given or _made_by(layer["class_name"], config, _built_for(layer)), batch)
        if name not in found and shape is not None:
            found[name] = shape, _WIDTH
    return found


def _made_by(kind: str, config: Mapping[str, Any], read: Any) -> Any:
    """The shape of a layer's output, of the classes for which its input and options tell it."""
    if kind == "InputLayer":
        return config.get("batch_shape")
    if not read or kind in _SAME_SHAPE:
        return read
    if kind == "Dense":
        return [*read[:-1], config["units"]]
    if kind not in ("Conv2D", "DepthwiseConv2D") or None in read[1:]:
        return None
    sides = zip(read[1:3], *(config[key] for key in _CONVOLUTION_KEYS), strict=True)
    same = config["padding"] == "same"
    made = [-(-(size if same else size - (k - 1) * d) // step) for size, k, step, d in sides]
    wide = config["filters"] if kind == "Conv2D" else read[3] * config.get("depth_multiplier", 1)
    return [read[0], *made, wide]


def _read_by(value: Any, found: dict[str, tuple[Shape, int]], batch: int) -> None:
    """Note the tensors that the calls of a layer read: their shapes, by the layer they are of."""
    if isinstance(value, dict):
        config = value.get("config")
        if value.get("class_name") == "__keras_tensor__" and isinstance(config, dict):
            width = _WIDTHS.get(str(config.get("dtype")), _WIDTH)
            if (shape := _filled(config.get("shape"), batch)) is not None:
                found.setdefault(config["keras_history"][0], (shape, width))
            return
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            _read_by(one, found, batch)


def _built_for(layer: Mapping[str, Any]) -> Any:
    """The shape of the one input that a layer was built for; None if it does not say."""
    built = layer.get("build_config")
    shape = built.get("input_shape") if isinstance(built, dict) else None
    several = isinstance(shape, list) and any(isinstance(one, list) for one in shape)
    return None if several else shape


def _filled(shape: Any, batch: int) -> Shape | None:
    """The shape for this batch; None if there is none, or another size is dynamic."""
    if not isinstance(shape, list) or not shape:
        return None
    sizes = [batch if shape[0] is None else shape[0], *shape[1:]]
    return tuple(sizes) if all(type(size) is int for size in sizes) else None


def _flops(kind: str, kernel: Shape, made: Shape) -> int:
    """Multiplications and additions of convolutions and matrix products; 0 of all else."""
    if kind.startswith("DepthwiseConv"):
        return 2 * math.prod(made) * math.prod(kernel[:-2]) if made else 0
    if (kind.startswith("Conv") and "Transpose" not in kind) or kind == "Dense":
        return 2 * math.prod(made) * math.prod(kernel[:-1]) if made else 0
    return 0


def prepare_keras(request: FileRequest) -> dict[str, Any]:
    """Copy the file to its folder, with the description of its ends; the table of its layers.

    Raises:
        WorkloadError: it is no whole Keras file, needs code beside it, or takes another input.
    """
    archive = read_archive(request.file)
    inputs = archive.inputs()
    concrete_shapes(inputs, request.wanted, request.file.name)
    table = keras_table(archive, request.file, request.wanted.batch)
    return {**table, **keep_whole(request, inputs, archive.outputs())}
