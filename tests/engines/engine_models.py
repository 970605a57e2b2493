"""Small networks in files: ONNX files made on the spot, a TFLite and a Keras file that are kept.

``files/small.keras`` is Keras's ``Sequential([Input((16, 16, 3), name="picture"), Conv2D(8, 3,
strides=2, activation="relu"), Flatten(), Dense(10)])``, and ``files/small.tflite`` what
``TFLiteConverter.from_keras_model`` makes of it.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
helper, numpy_helper = onnx.helper, onnx.numpy_helper
TensorProto = onnx.TensorProto
FILES = Path(__file__).parent / "files"


def small_network(batch: int | str = 1, opset: int = 17) -> Any:
    """Two convolutions, an addition around the second, a matrix product: some 200 kB."""
    random = np.random.default_rng(7)

    def weight(name: str, *shape: int) -> Any:
        values = random.uniform(-0.2, 0.2, shape).astype(np.float32)
        return numpy_helper.from_array(values, name)

    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], name="conv1", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c1"], ["r1"], name="relu1"),
        helper.make_node("Conv", ["r1", "w2", "b2"], ["c2"], name="conv2", pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["c2", "r1"], ["a"], name="add"),
        helper.make_node("Relu", ["a"], ["r2"], name="relu2"),
        helper.make_node("MaxPool", ["r2"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["p"], ["f"], name="flatten"),
        helper.make_node("Gemm", ["f", "w3", "b3"], ["y"], name="dense", transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 3, 16, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 50])],
        initializer=[
            *(weight("w1", 16, 3, 3, 3), weight("b1", 16), weight("w2", 16, 16, 3, 3)),
            *(weight("b2", 16), weight("w3", 50, 1024), weight("b3", 50)),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def made_encoder(folder: Path, name: str = "encoder.onnx") -> Path:
    """Looks up 1000 words of 8 numbers and masks them; batch and sequence are dynamic."""
    words = np.random.default_rng(5).random((1000, 8), dtype=np.float32)
    sides: list[int | str] = ["batch", "sequence"]
    graph = helper.make_graph(
        [
            helper.make_node("Gather", ["words", "input.ids"], ["looked"]),
            helper.make_node("Unsqueeze", ["mask", "last"], ["wide"]),
            helper.make_node("Mul", ["looked", "wide"], ["y"]),
        ],
        "encoder",
        [
            helper.make_tensor_value_info("input.ids", TensorProto.INT64, sides),
            helper.make_tensor_value_info("mask", TensorProto.FLOAT, sides),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [*sides, 8])],
        initializer=[
            numpy_helper.from_array(words, "words"),
            numpy_helper.from_array(np.array([2], np.int64), "last"),
        ],
    )
    opset = [helper.make_opsetid("", 17)]
    path = folder / name
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), str(path))
    return path


def made_onnx(folder: Path, name: str = "small.onnx", batch: int | str = 1) -> Path:
    path = folder / name
    onnx.save(small_network(batch), str(path))
    return path


def made_with_weights_beside(folder: Path, name: str = "beside.onnx") -> tuple[Path, Path]:
    path = folder / name
    onnx.save(
        small_network(),
        str(path),
        save_as_external_data=True,
        location=f"{name}.data",
        size_threshold=1024,
    )
    return path, folder / f"{name}.data"


def made_tflite(folder: Path, name: str = "small.tflite") -> Path:
    return Path(shutil.copy(FILES / "small.tflite", folder / name))


def made_keras(folder: Path, name: str = "small.keras") -> Path:
    return Path(shutil.copy(FILES / "small.keras", folder / name))


def run_settings(network: str, engine: str, folder: Path, **other: Any) -> dict[str, Any]:
    settings = {
        "networks": [network],
        "engine": engine,
        "weights": {network: str(folder)},
        "schedule": "whole",
        "loader": "copy",
        "batch": 1,
        "image": None,
        "rounds": 1,
        "warm": 1,
        "threads": 1,
        "seed": 3,
        "page_cache": "warm",
    }
    return {**settings, **other}
