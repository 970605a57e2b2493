"""What trials of an ONNX file load: the whole network or its layers, weights inside or beside.

Each form is a folder of its own below the network's: ``whole-copy``, ``layers-mmap`` and so on.
``copy`` has the weights in the ONNX file, which the engine reads into memory. ``mmap`` has them in
a ``.data`` file beside it, which the engine maps.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgebench.errors import WorkloadError
from edgebench.layers.disk import settle
from edgebench.safe_files import created, make_folder, write
from edgebench.workloads.engines.engine import WHOLE, Unit
from edgebench.workloads.engines.onnx_graph import GraphLayer

INDEX = "index.json"
#: Smaller tensors stay in the ONNX file: shape inference reads some, and mapping gains nothing.
_LEAST_MAPPED_BYTES = 1024
#: Mapped tensors start at pages, as the engine wants it.
_ALIGNMENT = 4096
#: The most that a file of protocol buffers may hold.
_LARGEST_BYTES = (1 << 31) - 1


@dataclass(frozen=True)
class OnnxForm:
    """A prepared folder: its units with their files, and the names of the network's outputs."""

    files: Mapping[Unit, Path]
    outputs: tuple[str, ...]

    @classmethod
    def read(cls, folder: Path, schedule: str, loader: str) -> OnnxForm:
        """The form that trials with this schedule and loader load.

        Raises:
            WorkloadError: it is not there.
        """
        place = folder / form_name(schedule, loader)
        try:
            index = json.loads((place / INDEX).read_text())
        except (OSError, ValueError) as error:
            raise WorkloadError(
                "the prepared files of a network are missing",
                where=str(place),
                remedy="start the sweep again; it makes them",
            ) from error
        files = {
            Unit(one["order"], one["name"], tuple(one["inputs"]), tuple(one["outputs"])): place
            / one["file"]
            for one in index["units"]
        }
        return cls(files, tuple(index["outputs"]))


def form_name(schedule: str, loader: str) -> str:
    """The folder that trials with this schedule and loader read."""
    return f"{WHOLE if schedule == WHOLE else 'layers'}-{loader}"


def write_form(model: Any, layers: Sequence[GraphLayer], place: Path, mapped: bool) -> None:
    """Write one form of a network to a new folder; no ``layers``: as a whole.

    Raises:
        WorkloadError: with weights inside, a file would be too large for the format.
    """
    make_folder(place, exist_ok=False)
    graph = model.graph
    weights = {tensor.name: tensor for tensor in graph.initializer}
    given = [one.name for one in graph.input if one.name not in weights]
    outputs = [one.name for one in graph.output]
    units = []
    for number, layer in enumerate(layers):
        file = f"{number:04d}.onnx"
        _write_model(_layer_model(model, layer, weights), place / file, mapped)
        units.append(_entry(number, layer.name, file, layer.inputs, layer.outputs))
    if not layers:
        _write_model(model, place / "whole.onnx", mapped)
        units.append(_entry(None, WHOLE, "whole.onnx", given, outputs))
    write(place / INDEX, json.dumps({"units": units, "outputs": outputs}).encode())


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
