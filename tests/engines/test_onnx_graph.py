"""A graph of ONNX cut into layers: where borders fall, and what the table says of each layer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from engine_models import helper, made_onnx, onnx, small_network
from engine_runs import prepared

from edgebench.workloads.engines.onnxruntime.graph import GraphCutter
from edgebench.workloads.engines.onnxruntime.preparation import typed_graph


def test_layers_cover_the_graph_and_join_at_its_tensors():
    """Each node is in one layer; what a layer reads, the graph or an earlier layer gives."""
    model = small_network()
    typed = typed_graph(model).value_info
    layers = GraphCutter(model.graph, (one.name for one in typed)).layers()
    assert [layer.name for layer in layers] == ["conv1", "conv2", "dense"]
    assert [layer.type for layer in layers] == [
        "Conv, Relu",
        "Conv, Add, Relu, MaxPool, Flatten",
        "Gemm",
    ]
    assert sum(len(layer.nodes) for layer in layers) == len(model.graph.node)
    known = {"x"}
    for layer in layers:
        assert set(layer.inputs) <= known
        known |= set(layer.outputs)
    assert "y" in known


def test_a_dequantised_weight_stays_with_its_operator():
    """Quantised operators keep what the engine fuses: no border falls between both."""
    model = small_network()
    graph = model.graph
    scale = onnx.numpy_helper.from_array(np.array(0.01, np.float32), "scale")
    point = onnx.numpy_helper.from_array(np.array(0, np.int8), "point")
    stored = onnx.numpy_helper.from_array(np.ones((16, 16, 3, 3), np.int8), "w2q")
    kept = [one for one in graph.initializer if one.name != "w2"]
    del graph.initializer[:]
    graph.initializer.extend([*kept, scale, point, stored])
    graph.node.insert(0, helper.make_node("DequantizeLinear", ["w2q", "scale", "point"], ["w2"]))
    layers = GraphCutter(graph, (one.name for one in typed_graph(model).value_info)).layers()
    assert [layer.name for layer in layers] == ["conv1", "conv2", "dense"]
    assert "w2q" in layers[1].weights


def test_constants_of_constants_are_looked_at_once():
    """Each is computed from the two before: their paths double, and are as deep as there are."""
    nodes = [helper.make_node("Add", ["c0", "c1"], ["c2"])]
    nodes += [
        helper.make_node("Add", [f"c{n - 2}", f"c{n - 1}"], [f"c{n}"]) for n in range(3, 3000)
    ]
    nodes.append(helper.make_node("Add", ["x", "c2999"], ["y"]))
    vector = [helper.make_tensor_value_info(name, 1, [40]) for name in "xy"]
    weights = [helper.make_tensor(f"c{n}", 1, [40], [1.0] * 40) for n in (0, 1)]
    graph = helper.make_graph(nodes, "g", vector[:1], vector[1:], weights)
    (layer,) = GraphCutter(graph, ["x", "y"]).layers()
    assert len(layer.nodes) == len(nodes)


def test_a_border_of_unknown_type_is_none():
    """A session must be told what its inputs are: such layers are one."""
    model = small_network()
    (layer,) = GraphCutter(model.graph, ()).layers()
    assert len(layer.nodes) == len(model.graph.node)


@pytest.mark.torch
def test_the_table_has_each_layers_sizes(tmp_path: Path):
    """Weights, outputs, multiplications and additions, and the files that a layer loads."""
    made = prepared(made_onnx(tmp_path), tmp_path / "cache")
    conv1, conv2, dense = made["table"]
    assert conv1["parameter_bytes"] == 4 * (16 * 27 + 16)
    assert conv1["flops"] == 2 * 16 * 16 * 16 * 27
    assert conv2["output_bytes"] == 4 * 1024
    assert dense["flops"] == 2 * 50 * 1024
    assert dense["file_bytes"] >= dense["parameter_bytes"] == 4 * (50 * 1024 + 50)
    assert conv1["live_before_bytes"] == 4 * 3 * 16 * 16
    assert made["parameter_bytes"] == sum(row["parameter_bytes"] for row in made["table"])
