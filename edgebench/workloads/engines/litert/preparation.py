"""A TFLite file before any trial: read, checked, copied; and its operators as a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgebench.errors import WorkloadError, error_words
from edgebench.layers.layer_table import LayerTableRow, table_with_sizes
from edgebench.workloads.engines.file_inputs import (
    FileInput,
    concrete_shapes,
    make_inputs,
    refused_inputs,
    rests_on_description,
)
from edgebench.workloads.engines.file_preparation import keep_whole
from edgebench.workloads.engines.files import FileRequest
from edgebench.workloads.engines.litert.runtime import litert_refuses

#: What a TFLite file has after its first four bytes.
_MARK = b"TFL3"


def prepare_tflite(request: FileRequest) -> dict[str, Any]:
    """Copy the file to its folder, with the description of its inputs; the table of its operators.

    Raises:
        WorkloadError: it is no whole TFLite file, or LiteRT lacks one of its operators.
    """
    _mark(request.file)
    interpreter = _opened(request.file)
    inputs = [_described(one) for one in interpreter.get_input_details()]
    outputs = [one["name"] for one in interpreter.get_output_details()]
    shapes = concrete_shapes(inputs, request.wanted, request.file.name)
    for place, one in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.resize_tensor_input(place["index"], shapes[one.name])
    try:
        interpreter.allocate_tensors()
    except (RuntimeError, ValueError) as error:
        raise litert_refuses(error, str(request.file)) from error
    if rests_on_description(inputs, request.wanted):
        _try(interpreter, inputs, request)
    return {**table_with_sizes(_rows(interpreter)), **keep_whole(request, inputs, outputs)}


def _try(interpreter: Any, inputs: Sequence[FileInput], request: FileRequest) -> None:
    """Execute it once: inputs that rest on a person's words may not do."""
    values = make_inputs(inputs, request.wanted, 0, request.file.name)
    try:
        for place, one in zip(interpreter.get_input_details(), inputs, strict=True):
            interpreter.set_tensor(place["index"], values[one.name])
        interpreter.invoke()
    except (RuntimeError, ValueError) as error:
        words, where = error_words(error), str(request.file)
        raise refused_inputs("LiteRT", words, values, inputs, where) from error


def _mark(file: Path) -> None:
    with file.open("rb") as opened:
        if opened.read(8)[4:] != _MARK:
            raise _no_file(file, "it has no TFL3 mark")


def _no_file(file: Path, words: str) -> WorkloadError:
    return WorkloadError(
        f"it is no TFLite file, or not a whole one: {words}",
        where=str(file),
        remedy="convert it again: docs/how-to/onnx-and-tflite.md shows how",
    )


def _opened(file: Path) -> Any:
    """Without XNNPACK: its nodes would stand for the operators."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    try:
        return Interpreter(
            model_path=str(file),
            experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        )
    except ValueError as error:
        words = error_words(error)
        if "op" in words.lower().split() or "custom" in words.lower():
            raise litert_refuses(error, str(file)) from error
        raise _no_file(file, words) from error
    except RuntimeError as error:
        raise litert_refuses(error, str(file)) from error


def _described(one: dict[str, Any]) -> FileInput:
    dims = one["shape_signature"] if len(one["shape_signature"]) else one["shape"]
    shape = tuple(int(size) if size >= 0 else None for size in dims)
    return FileInput(one["name"], one["dtype"].__name__, shape)


def _rows(interpreter: Any) -> list[LayerTableRow]:
    """A row for each operator, in the order of execution."""
    tensors = {one["index"]: one for one in interpreter.get_tensor_details()}
    operators = interpreter._get_ops_details()
    made = {index for one in operators for index in one["outputs"]}
    given = {one["index"] for one in interpreter.get_input_details()}
    rows = []
    for order, one in enumerate(operators):
        read = [int(index) for index in one["inputs"] if index >= 0 and int(index) in tensors]
        weights = [index for index in read if index not in made and index not in given]
        outputs = [int(index) for index in one["outputs"]]
        weights_bytes = sum(_bytes(tensors[index]) for index in weights)
        name = tensors[outputs[0]]["name"] if outputs else one["op_name"]
        rows.append(
            LayerTableRow(
                order=order,
                name=name,
                type=one["op_name"],
                part=f"{order} {name}",
                parameter_bytes=weights_bytes,
                file_bytes=weights_bytes,
                buffer_bytes=0,
                output_bytes=sum(_bytes(tensors[index]) for index in outputs),
                flops=_flops(one["op_name"], [tensors[i] for i in (*read, *outputs)]),
            )
        )
    return rows


def _bytes(tensor: dict[str, Any]) -> int:
    import numpy as np

    return math.prod(map(int, tensor["shape"])) * int(np.dtype(tensor["dtype"]).itemsize)


def _flops(operator: str, tensors: list[dict[str, Any]]) -> int:
    """Multiplications and additions of convolutions and matrix products; 0 of all else."""
    shapes = [tuple(int(size) for size in one["shape"]) for one in tensors]
    if operator in ("CONV_2D", "FULLY_CONNECTED"):
        return 2 * math.prod(shapes[-1]) * math.prod(shapes[1][1:])
    if operator == "DEPTHWISE_CONV_2D":
        return 2 * math.prod(shapes[-1]) * math.prod(shapes[1][1:3])
    return 0
