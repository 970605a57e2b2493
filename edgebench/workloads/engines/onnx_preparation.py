"""An ONNX file before any trial: read, checked, cut, and written in the forms that trials load."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from edgebench.errors import WorkloadError
from edgebench.layers.disk import evict, read_through, weights_in
from edgebench.layers.layer_table import table_with_sizes
from edgebench.safe_files import make_folder, remove_folder, rename, write
from edgebench.workloads.engines.engine import WHOLE, FileRequest
from edgebench.workloads.engines.file_inputs import FileInput, concrete_shapes
from edgebench.workloads.engines.onnx_files import form_name, typed_graph, write_form
from edgebench.workloads.engines.onnx_graph import GraphCutter, GraphLayer
from edgebench.workloads.engines.onnx_table import GraphSizes, graph_rows
from edgebench.workloads.engines.onnxruntime import INPUTS, refused

#: The checker's words for an operator, with the opset that lacks it.
_NO_OPERATOR = re.compile(r"No Op registered for (\S+) with domain_version of (\d+)")
_EXPORT = "export it again: docs/how-to/onnx-and-tflite.md shows how"


def prepare_onnx(request: FileRequest) -> dict[str, Any]:
    """Write the forms that are wanted and not there yet; the layer table and sizes.

    Raises:
        WorkloadError: it is no whole ONNX file, or ONNX Runtime refuses it.
    """
    model = read_model(request.file)
    inputs = _described(model)
    shapes = concrete_shapes(inputs, request.wanted, request.file.name)
    del model.graph.value_info[:]
    model.graph.value_info.extend(typed_graph(model).value_info)
    layers = GraphCutter(model.graph, (one.name for one in model.graph.value_info)).layers()
    make_folder(request.folder, parents=True)
    write(request.folder / INPUTS, json.dumps([one.to_json() for one in inputs]).encode())
    _write_forms(model, layers, request)
    sizes = GraphSizes(typed_graph(model, shapes), model.graph.initializer)
    read_through(weights_in([request.folder]))
    return table_with_sizes(graph_rows(layers, sizes, _files_of(layers, request)))


def read_model(file: Path) -> Any:
    """The file with all its weights, those in files beside it too.

    Raises:
        WorkloadError: it is no whole ONNX file, a file beside it is missing, or ONNX Runtime
            refuses it.
    """
    import onnx

    model = parsed_model(file)
    # Before anything opens a file that this one names.
    beside = weights_beside(model, file)
    try:
        onnx.load_external_data_for_model(model, str(file.parent))
        onnx.checker.check_model(str(file))
    except Exception as error:
        raise _lacking_operator(file, error) or _no_file(file, error) from error
    if not model.graph.node:
        raise WorkloadError("the graph of this file is empty", where=str(file), remedy=_EXPORT)
    _check(file, beside)
    return model


def parsed_model(file: Path) -> Any:
    """The file without weights in other files.

    Raises:
        WorkloadError: it is no ONNX file.
    """
    import onnx

    try:
        return onnx.load(str(file), load_external_data=False)
    except Exception as error:
        raise _no_file(file, error) from error


def _no_file(file: Path, error: Exception) -> WorkloadError:
    words = (str(error).strip().splitlines() or ["damaged"])[0]
    return WorkloadError(
        f"it is no ONNX file, or not a whole one: {words}", where=str(file), remedy=_EXPORT
    )


def _lacking_operator(file: Path, error: Exception) -> WorkloadError | None:
    """A whole file with an operator that ONNX doesn't have; None: something else is wrong."""
    found = _NO_OPERATOR.search(str(error))
    if found is None:
        return None
    return WorkloadError(
        f"it has an operator that ONNX does not have: {found[1]} (opset {found[2]})",
        where=str(file),
        remedy="export it with another opset, or with built-in operators alone: "
        "docs/how-to/onnx-and-tflite.md shows how",
    )


def weights_beside(model: Any, file: Path) -> list[Path]:
    """The files that hold weights of a model, by name.

    Raises:
        WorkloadError: one is missing, or lies outside the folder of the model's file.
    """
    folder = file.parent.resolve()
    found = []
    for name in sorted(set(_external_names(model))):
        path = folder / name
        # Also what a link leads to: another's file must not be read through a model.
        if not name or "\0" in name or not path.resolve().is_relative_to(folder):
            raise WorkloadError(
                f"it names weights outside its own folder: {name!r}",
                where=str(file),
                remedy="save it with its weights inside the file, or in one file beside it",
            )
        if not path.is_file():
            raise WorkloadError(
                f"a file with its weights is missing: {name!r}",
                where=str(file),
                remedy=f"copy it to {folder}, under that name",
            )
        found.append(path)
    return found


def _external_names(message: Any) -> Iterator[str]:
    """Names of other files in all tensors of a model, those in its nodes and subgraphs too."""
    import onnx

    if isinstance(message, onnx.TensorProto):
        if message.data_location == onnx.TensorProto.EXTERNAL:
            names = [one.value for one in message.external_data if one.key == "location"]
            yield names[-1] if names else ""
        return
    for field, value in message.ListFields():
        if field.message_type is not None:
            for one in value if isinstance(value, Iterable) else (value,):
                yield from _external_names(one)


def _check(file: Path, beside: Sequence[Path]) -> None:
    """Load it once outside any limit: an operator that is missing is found before the sweep."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    try:
        onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise refused(error, str(file)) from error
    for part in (file, *beside):
        evict(part)


def _described(model: Any) -> list[FileInput]:
    import onnx

    weights = {tensor.name for tensor in model.graph.initializer}
    found = []
    for one in model.graph.input:
        if one.name in weights:
            continue
        tensor = one.type.tensor_type
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type or onnx.TensorProto.STRING)
        dims = tensor.shape.dim
        sizes = [d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in dims]
        found.append(FileInput(one.name, dtype.name, tuple(sizes)))
    return found


def _write_forms(model: Any, layers: Sequence[GraphLayer], request: FileRequest) -> None:
    for schedule in request.schedules:
        for loader in request.loaders:
            place = request.folder / form_name(schedule, loader)
            if place.exists():
                continue
            half_made = place.with_name(f".{place.name}-{os.getpid()}.part")
            try:
                cut = () if schedule == WHOLE else layers
                write_form(model, cut, half_made, mapped=loader == "mmap")
                rename(half_made, place.name)
            except BaseException:
                remove_folder(half_made)
                raise


def _files_of(layers: Sequence[GraphLayer], request: FileRequest) -> dict[int, tuple[str, int]]:
    """Each layer's files by name and size; none where the network is loaded as a whole alone."""
    schedule = next((one for one in request.schedules if one != WHOLE), None)
    if schedule is None:
        return {}
    place = request.folder / form_name(schedule, request.loaders[0])
    found = {}
    for number in range(len(layers)):
        files = list(place.glob(f"{number:04d}.*"))
        found[number] = (f"{number:04d}.onnx", sum(file.stat().st_size for file in files))
    return found
