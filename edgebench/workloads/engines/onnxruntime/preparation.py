"""An ONNX file before any trial: read, checked, cut, and written in the forms that trials load."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgebench.errors import WorkloadError
from edgebench.layers.disk import evict, read_through, settle, weights_in
from edgebench.layers.input_specs import STRING
from edgebench.layers.layer_table import table_with_sizes
from edgebench.safe_files import created, make_folder, remove_folder, rename, write
from edgebench.workloads.engines.engine import WHOLE
from edgebench.workloads.engines.file_inputs import (
    FileInput,
    WantedInputs,
    concrete_shapes,
    make_inputs,
    refused_inputs,
    rests_on_description,
)
from edgebench.workloads.engines.file_preparation import copy_file
from edgebench.workloads.engines.files import FileRequest
from edgebench.workloads.engines.onnxruntime.forms import (
    INDEX,
    INPUTS,
    ORT_FORMAT,
    SAVED_PACKING,
    form_name,
    own_words,
    refused,
)
from edgebench.workloads.engines.onnxruntime.graph import (
    GraphCutter,
    GraphLayer,
    GraphSizes,
    graph_rows,
)

#: Smaller tensors stay in the ONNX file: shape inference reads some, and mapping gains nothing.
_LEAST_MAPPED_BYTES = 1024
#: Mapped tensors start at pages, as the engine wants it.
_ALIGNMENT = 4096
#: More than any network's: each takes some kilobytes in ONNX Runtime.
MOST_NODES = 1_000_000
#: Loader → what ONNX Runtime writes: the file, and the settings of the session that writes it.
_SAVED = {
    ORT_FORMAT: ("whole.ort", {"session.save_model_format": "ORT"}),
    SAVED_PACKING: (
        "whole.onnx",
        {
            "session.optimized_model_external_initializers_file_name": "whole.data",
            "session.optimized_model_external_initializers_min_size_in_bytes": "1024",
            "session.save_external_prepacked_constant_initializers": "1",
        },
    ),
}
#: The folder of a person's own file in its form.
_AS_IT_IS = "as-is"
#: The most that a file of protocol buffers may hold.
_LARGEST_BYTES = (1 << 31) - 1


def write_layers(model: Any, layers: Sequence[GraphLayer], place: Path, mapped: bool) -> None:
    """Write a network's layers to a new folder, a file each.

    Raises:
        WorkloadError: with weights inside, a file would be too large for the format.
    """
    make_folder(place, exist_ok=False)
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    units = []
    for number, layer in enumerate(layers):
        file = f"{number:04d}.onnx"
        _write_model(_layer_model(model, layer, weights), place / file, mapped)
        units.append(_entry(number, layer.name, file, layer.inputs, layer.outputs))
    _write_index(place, units, model.graph)


def write_whole(model: Any, source: OnnxFile, place: Path, loader: str) -> None:
    """Write a network as a whole to a new folder.

    It is the person's file as it is, with the files beside it, so that the engine does what it
    does in any program. Weights inside it that shall be mapped are moved out; or ONNX Runtime
    itself writes what it made of the file.

    Raises:
        WorkloadError: ONNX Runtime can't write it.
    """
    make_folder(place, exist_ok=False)
    if loader in _SAVED:
        file = _save(source.file, place, loader)
    elif loader == "mmap" and not source.beside:
        file = "whole.onnx"
        _write_model(model, place / file, mapped=True)
    else:
        # In a folder of its own: a file beside it may have any name.
        file = f"{_AS_IT_IS}/{source.file.name}"
        folder = source.file.parent.resolve()
        for part in (folder / source.file.name, *source.beside):
            to = place / _AS_IT_IS / part.relative_to(folder)
            make_folder(to.parent, parents=True)
            copy_file(part, to)
    weights = {tensor.name for tensor in model.graph.initializer}
    given = [one.name for one in model.graph.input if one.name not in weights]
    outputs = [one.name for one in model.graph.output]
    _write_index(place, [_entry(None, WHOLE, file, given, outputs)], model.graph)


def _remove_of_other_version(place: Path) -> None:
    """Remove what another version of ONNX Runtime wrote."""
    import onnxruntime

    index = place / INDEX
    if index.exists() and json.loads(index.read_text()).get("version") != onnxruntime.__version__:
        remove_folder(place)


def _save(file: Path, place: Path, loader: str) -> str:
    """Have ONNX Runtime write its own form of the file to a folder; the name of what is loaded."""
    import onnxruntime

    name, entries = _SAVED[loader]
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.optimized_model_filepath = str(place / name)
    for key, value in entries.items():
        options.add_session_config_entry(key, value)
    try:
        onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise refused(error, str(file)) from error
    for written in place.iterdir():
        with written.open("rb") as opened:
            settle(opened)
    return name


def _write_index(place: Path, units: Sequence[Mapping[str, Any]], graph: Any) -> None:
    import onnxruntime

    outputs = [one.name for one in graph.output]
    index = {"units": units, "outputs": outputs, "version": onnxruntime.__version__}
    write(place / INDEX, json.dumps(index).encode())


def _entry(
    order: int | None, name: str, file: str, inputs: Iterable[str], outputs: Iterable[str]
) -> dict[str, Any]:
    ends = {"inputs": list(inputs), "outputs": list(outputs)}
    return {"order": order, "name": name, "file": file, **ends}


def _layer_model(model: Any, layer: GraphLayer, weights: Mapping[str, Any]) -> Any:
    """A model of one layer's nodes; what crosses its borders are its inputs and outputs."""
    import onnx

    graph = model.graph
    known = {one.name: one for one in (*graph.value_info, *graph.input, *graph.output)}
    made = {out for node in layer.nodes for out in node.output}
    part = onnx.helper.make_graph(
        list(layer.nodes),
        layer.name,
        [known[name] for name in layer.inputs],
        [known[name] for name in layer.outputs],
        initializer=[weights[name] for name in layer.weights],
        value_info=[one for one in graph.value_info if one.name in made - {*layer.outputs}],
    )
    whole = onnx.ModelProto()
    whole.CopyFrom(_without_graph(model))
    whole.graph.CopyFrom(part)
    return whole


def _without_graph(model: Any) -> Any:
    """The model's versions and functions."""
    import onnx

    shell = onnx.ModelProto(ir_version=model.ir_version, producer_name=model.producer_name)
    shell.opset_import.extend(model.opset_import)
    shell.functions.extend(model.functions)
    return shell


def _write_model(model: Any, file: Path, mapped: bool) -> None:
    if mapped:
        model = _with_weights_beside(model, file.with_suffix(".data"))
    if model.ByteSize() > _LARGEST_BYTES:
        raise WorkloadError(
            "the weights are too large to be inside an ONNX file, which holds 2 GiB at most",
            where=file.name,
            remedy='map them: loader = "mmap" (--loader mmap)',
        )
    with created(file) as out:
        out.write(model.SerializeToString())
        settle(out)


def _with_weights_beside(model: Any, data: Path) -> Any:
    """A copy of the model whose larger weights are in a file of their own."""
    import onnx

    # The copy is made without weights: there may be room for them only once.
    whole = _without_graph(model)
    whole.graph.CopyFrom(_skeleton(model.graph))
    with created(data) as out:
        for tensor in model.graph.initializer:
            kept = whole.graph.initializer.add()
            raw = tensor.raw_data or _raw(tensor)
            if len(raw) < _LEAST_MAPPED_BYTES:
                kept.CopyFrom(tensor)
                continue
            out.write(bytes(-out.tell() % _ALIGNMENT))
            kept.name, kept.data_type = tensor.name, tensor.data_type
            kept.dims.extend(tensor.dims)
            kept.data_location = onnx.TensorProto.EXTERNAL
            place = {"location": data.name, "offset": out.tell(), "length": len(raw)}
            for key, value in place.items():
                kept.external_data.add(key=key, value=str(value))
            out.write(raw)
        settle(out)
    return whole


def _raw(tensor: Any) -> bytes:
    """Bytes of a tensor whose values are in a typed field; of text none."""
    import onnx

    if tensor.data_type == onnx.TensorProto.STRING:
        return b""
    return bytes(onnx.numpy_helper.to_array(tensor).tobytes())


def _skeleton(graph: Any) -> Any:
    """The graph without its weights."""
    import onnx

    bare = onnx.GraphProto(name=graph.name)
    for field in ("node", "input", "output", "value_info", "sparse_initializer"):
        getattr(bare, field).extend(getattr(graph, field))
    return bare


def typed_graph(model: Any, shapes: Mapping[str, tuple[int, ...]] | None = None) -> Any:
    """The graph with the type and shape of each tensor, as far as they can be inferred.

    ``shapes``: those of the inputs, instead of the file's own.
    """
    import onnx

    bare = _without_graph(model)
    bare.graph.CopyFrom(_skeleton(model.graph))
    for tensor in model.graph.initializer:
        if tensor.ByteSize() < _LEAST_MAPPED_BYTES:
            bare.graph.initializer.add().CopyFrom(tensor)
        elif tensor.name not in {one.name for one in bare.graph.input}:
            # Shapes are enough of the large ones: the weights of a model may be beyond 2 GiB.
            about = onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            bare.graph.input.add().CopyFrom(about)
    for one in bare.graph.input if shapes else ():
        if shapes and one.name in shapes:
            del one.type.tensor_type.shape.dim[:]
            for size in shapes[one.name]:
                one.type.tensor_type.shape.dim.add(dim_value=size)
    if shapes:
        # They were inferred of other inputs.
        del bare.graph.value_info[:]
        for output in bare.graph.output:
            output.type.tensor_type.ClearField("shape")
    return onnx.shape_inference.infer_shapes(bare, data_prop=True).graph


#: The checker's words for an operator, with the opset that lacks it.
_NO_OPERATOR = re.compile(r"No Op registered for (\S+) with domain_version of (\d+)")
#: Its words for an input or output of unknown rank.
_NO_SHAPE = "Field 'shape' of 'type' is required but missing"
_EXPORT = "export it again: docs/how-to/onnx-and-tflite.md shows how"


def prepare_onnx(request: FileRequest) -> dict[str, Any]:
    """Write the forms that are wanted and not there yet; the layer table and sizes.

    Raises:
        WorkloadError: it is no whole ONNX file, or ONNX Runtime refuses it.
    """
    source = read_model(request.file)
    model = source.model
    inputs = _described(model)
    shapes = concrete_shapes(inputs, request.wanted, request.file.name)
    _check(source, inputs, request.wanted)
    make_folder(request.folder, parents=True)
    write(request.folder / INPUTS, json.dumps([one.to_json() for one in inputs]).encode())
    _write_wholes(source, request)
    # Of the cut graph alone: inferred shapes change what the engine allocates.
    del model.graph.value_info[:]
    model.graph.value_info.extend(typed_graph(model).value_info)
    layers = GraphCutter(model.graph, (one.name for one in model.graph.value_info)).layers()
    _write_cuts(model, layers, request)
    sizes = GraphSizes(typed_graph(model, shapes), model.graph.initializer)
    read_through(weights_in([request.folder]))
    return table_with_sizes(graph_rows(layers, sizes, _files_of(layers, request)))


@dataclass(frozen=True)
class OnnxFile:
    """A person's file: its model with all weights in memory, and the files with them beside it."""

    file: Path
    model: Any
    beside: Sequence[Path]


def read_model(file: Path) -> OnnxFile:
    """The file with all its weights, those in files beside it too.

    Raises:
        WorkloadError: it is no whole ONNX file, a file beside it is missing, its functions would
            fill the memory.
    """
    import onnx

    model = parsed_model(file)
    # Before anything opens a file that this one names, or puts functions in place of their calls.
    beside = weights_beside(model, file)
    if (nodes := expanded_nodes(model)) > MOST_NODES:
        raise WorkloadError(
            f"with its functions in place it has {nodes:,} nodes; at most {MOST_NODES:,} are read"
            if math.isfinite(nodes)
            else "one of its functions calls itself",
            where=str(file),
            remedy=_EXPORT,
        )
    try:
        onnx.load_external_data_for_model(model, str(file.parent))
        onnx.checker.check_model(str(file))
    except Exception as error:
        # The engine needs no shape of an output, though the format asks for one.
        known = all(one.type.tensor_type.HasField("shape") for one in model.graph.input)
        if not known or _NO_SHAPE not in str(error):
            raise _lacking_operator(file, error) or _no_file(file, error) from error
    if not model.graph.node:
        raise WorkloadError("the graph of this file is empty", where=str(file), remedy=_EXPORT)
    return OnnxFile(file, model, beside)


def expanded_nodes(model: Any) -> float:
    """The nodes of the graph once each call of a function is the function's nodes.

    Functions that call each other twice double it each time. Infinite: one calls itself.
    """
    bodies = {_called(one.domain, one.name, one): one.node for one in model.functions}
    known: dict[tuple[str, str, str], float] = {}

    def count(nodes: Iterable[Any]) -> float:
        return sum(map(count_of, nodes))

    def count_of(node: Any) -> float:
        called = _called(node.domain, node.op_type, node)
        inner = sum(count(g.node) for a in node.attribute for g in (a.g, *a.graphs))
        if called not in bodies:
            return 1 + inner
        if called not in known:
            # Until it is known, a call of it comes from within it.
            known[called] = math.inf
            known[called] = count(bodies[called])
        return known[called] + inner

    try:
        return count(model.graph.node)
    except RecursionError:
        return math.inf


def _called(domain: str, name: str, one: Any) -> tuple[str, str, str]:
    """What a function is called by; older versions of ONNX have no overloads."""
    return ("" if domain == "ai.onnx" else domain, name, str(getattr(one, "overload", "")))


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


def _check(source: OnnxFile, inputs: Sequence[FileInput], wanted: WantedInputs) -> None:
    """Load it once outside any limit: an operator that is missing is found before the sweep.

    Inputs that rest on a person's words or on a guess are tried, too.
    """
    import onnxruntime

    file = source.file

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(
            str(file), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:
        raise refused(error, str(file)) from error
    if rests_on_description(inputs, wanted):
        values = make_inputs(inputs, wanted, 0, file.name)
        try:
            session.run(None, values)
        except Exception as error:
            words = own_words(error)
            raise refused_inputs("ONNX Runtime", words, values, inputs, str(file)) from error
    for part in (file, *source.beside):
        evict(part)


def _described(model: Any) -> list[FileInput]:
    import onnx

    weights = {tensor.name for tensor in model.graph.initializer}
    found = []
    for one in model.graph.input:
        if one.name in weights:
            continue
        tensor, kind = one.type.tensor_type, one.type.WhichOneof("value")
        if kind != "tensor_type":
            # Also an optional one: none of them is an array.
            found.append(FileInput(one.name, str(kind).removesuffix("_type"), ()))
            continue
        text = tensor.elem_type in (onnx.TensorProto.STRING, onnx.TensorProto.UNDEFINED)
        own = None if text else onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        sizes = tuple(_size_of(dim) for dim in tensor.shape.dim)
        found.append(FileInput(one.name, own.name if own else STRING, sizes))
    return found


def _size_of(dim: Any) -> int | str | None:
    """A size, or the name of a dynamic one; some exporters write -1 or "?" for those."""
    if dim.HasField("dim_value") and dim.dim_value >= 0:
        return int(dim.dim_value)
    return str(dim.dim_param).strip("?") or None


def _write_wholes(source: OnnxFile, request: FileRequest) -> None:
    for loader in request.loaders if WHOLE in request.schedules else ():
        if loader in _SAVED:
            _remove_of_other_version(request.folder / form_name(WHOLE, loader))
        with _new_form(request, WHOLE, loader) as place:
            if place:
                write_whole(source.model, source, place, loader)


def _write_cuts(model: Any, layers: Sequence[GraphLayer], request: FileRequest) -> None:
    cut = next((one for one in request.schedules if one != WHOLE), None)
    for loader in request.loaders if cut else ():
        with _new_form(request, str(cut), loader) as place:
            if place:
                write_layers(model, layers, place, mapped=loader == "mmap")


@contextmanager
def _new_form(request: FileRequest, schedule: str, loader: str) -> Iterator[Path | None]:
    """The folder to write a form to, which gets its name when it is whole; None: it is there."""
    place = request.folder / form_name(schedule, loader)
    if place.exists():
        yield None
        return
    half_made = place.with_name(f".{place.name}-{os.getpid()}.part")
    try:
        yield half_made
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
