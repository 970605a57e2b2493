"""Files that an engine can't run, or that are not what they were: refused, or another network."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_models import (
    TensorProto,
    helper,
    made_onnx,
    made_with_weights_beside,
    onnx,
    small_network,
)
from engine_runs import prepared, run

from edgebench.errors import EdgebenchError, WorkloadError
from edgebench.layers.disk import weights_in

pytestmark = pytest.mark.torch


def test_changed_weights_beside_a_file_make_another_network(tmp_path: Path):
    file, data = made_with_weights_beside(tmp_path)
    before = prepared(file, tmp_path / "cache")
    outputs = [run(file.name, "onnxruntime", Path(before["folder"])).notes["output_sha256"]]
    weights = np.fromfile(data, np.float32)
    (weights * 0.5).astype(np.float32).tofile(data)
    after = prepared(file, tmp_path / "cache")
    assert after["content"] != before["content"]
    assert after["folder"] != before["folder"]
    outputs.append(run(file.name, "onnxruntime", Path(after["folder"])).notes["output_sha256"])
    assert outputs[0] != outputs[1]
    data.unlink()
    with pytest.raises(WorkloadError, match=r"weights is missing: 'beside.onnx.data'"):
        prepared(file, tmp_path / "cache")


@pytest.mark.parametrize("place", ["initializer", "node"])
def test_weights_outside_the_files_folder_are_not_copied(tmp_path: Path, place: str):
    """Their copy would lie outside the prepared folder."""
    (tmp_path / "secret.data").write_bytes(bytes(1 << 20))
    folder = tmp_path / "models"
    folder.mkdir()
    model = small_network()
    (tensor,) = (one for one in model.graph.initializer if one.name == "w2")
    if place == "node":
        model.graph.node.append(helper.make_node("Constant", [], ["c"], value=tensor))
        tensor = model.graph.node[-1].attribute[0].t
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../secret.data")
    (folder / "a.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(WorkloadError, match="it names weights outside its own folder"):
        prepared(folder / "a.onnx", tmp_path / "cache")


def _damaged(folder: Path, name: str) -> Path:
    whole = made_onnx(folder).read_bytes()
    path = folder / f"cut-{name}"
    path.write_bytes(whole[: len(whole) // 2])
    return path


def _other(folder: Path, name: str) -> Path:
    path = folder / f"other-{name}"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    return path


def _unknown_operator(folder: Path, name: str) -> Path:
    model = small_network()
    model.graph.node[1].op_type = "Frobnicate"
    model.graph.node[1].domain = "com.example"
    model.opset_import.append(helper.make_opsetid("com.example", 1))
    path = folder / f"unknown-{name}"
    onnx.save(model, str(path))
    return path


def _opset_to_come(folder: Path, name: str) -> Path:
    path = folder / f"late-{name}"
    onnx.save(small_network(opset=99), str(path))
    return path


def _larger_than_memory(folder: Path, name: str) -> Path:
    path = folder / f"large-{name}"
    path.touch()
    # It has no blocks on the disk.
    os.truncate(path, 1 << 42)
    return path


@pytest.mark.parametrize(
    ("make", "name", "words"),
    [
        (_damaged, "a.onnx", "ONNX Runtime can't read it: Error parsing message"),
        (_other, "a.onnx", "ONNX Runtime can't read it: Error parsing message"),
        (_other, "a.tflite", "LiteRT can't load it: "),
        (_unknown_operator, "a.onnx", "ONNX Runtime can't load it: .*Frobnicate"),
        (_opset_to_come, "a.onnx", "it is of opset 99, and this version reads up to"),
        (_larger_than_memory, "a.onnx", "needs about 4096.00 GiB of memory"),
        (_larger_than_memory, "a.tflite", "are free on this machine"),
        (_larger_than_memory, "a.keras", "are free on this machine"),
    ],
)
def test_a_bad_file_is_refused_in_one_sentence(tmp_path: Path, make: Any, name: str, words: str):
    with pytest.raises(EdgebenchError, match=words) as refused:
        prepared(make(tmp_path, name), tmp_path / "cache")
    assert "\n" not in refused.value.what
    assert len(refused.value.what) < 400
    assert refused.value.remedy


def test_an_input_of_text_is_asked_for_and_given(tmp_path: Path):
    """Before any trial, with a line to try; the text reaches the engine."""
    text = helper.make_tensor_value_info("words", TensorProto.STRING, ["n"])
    out = helper.make_tensor_value_info("out", TensorProto.INT64, ["n"])
    node = helper.make_node(
        *("LabelEncoder", ["words"], ["out"]),
        domain="ai.onnx.ml",
        keys_strings=["a", "hello"],
        values_int64s=[1, 2],
    )
    graph = helper.make_graph([node], "text", [text], [out])
    path = tmp_path / "text.onnx"
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 2)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), str(path))
    with pytest.raises(WorkloadError, match="'words' is string n") as refused:
        prepared(path, tmp_path / "cache")
    assert """ --input 'words=string "hello"'""" in str(refused.value.remedy)
    told = {"words": 'string "hello"'}
    folder = Path(prepared(path, tmp_path / "cache", input=told)["folder"])
    digest = run("text.onnx", "onnxruntime", folder, input=told).notes["output_sha256"]["text.onnx"]
    assert digest == hashlib.sha256(np.array([2]).tobytes()).hexdigest()


def test_a_whole_onnx_file_is_measured_as_it_is(tmp_path: Path):
    file, data = made_with_weights_beside(tmp_path)
    (tmp_path / "parts").mkdir()
    data.rename(tmp_path / "parts" / "weights.bin")
    model = onnx.load(str(file), load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = "parts/weights.bin"
    onnx.save(model, str(file))
    folder = Path(prepared(file, tmp_path / "cache")["folder"])
    assert (folder / "file" / file.name).read_bytes() == file.read_bytes()
    beside = folder / "file" / "parts" / "weights.bin"
    assert beside.read_bytes() == (tmp_path / "parts" / "weights.bin").read_bytes()
    # A cold trial finds it outside the page cache.
    assert beside in weights_in([folder])
    # They are mapped anyway, so there is no other form.
    assert not (folder / "mapped").exists()
    assert run(file.name, "onnxruntime", folder).notes["output_sha256"]
