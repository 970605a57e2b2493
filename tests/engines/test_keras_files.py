"""Keras files: what is read without Keras, what is refused, and TensorFlow's own outputs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_models import made_keras, remade_keras, run_settings, small_network
from test_file_inputs import prepared

from edgebench.errors import WorkloadError
from edgebench.layers.disk import weights_in
from tests.own_path import python_path

# Imported once, it starts a process to learn what the machine is.
pytest.importorskip("h5py")

#: Saves a graph, and a chain with layers in layers; makes them and the files given ready; loads and
#: executes those: numbers of weights, then inputs, outputs and those of Keras's call.
_RUN = """
import json, sys
from pathlib import Path
from edgebench.errors import EdgebenchError
from edgebench.workloads.engines.registry import engine_of
from edgebench.workloads.recorder import Recorder
engine = engine_of("tensorflow")
engine.import_library({"threads": 1}, Recorder())
import keras
from keras import layers
from edgebench.workloads.engines.file_preparation import manifest_of_files
x = keras.Input((None, None, 3), name="picture")
a = layers.Conv2D(8, 3, padding="same", activation="relu", name="conv1")(x)
b = layers.SeparableConv2D(8, 3, padding="same")(a) * 2.0
y = layers.GlobalAveragePooling2D()(layers.Add()([a, b]))
graph = keras.Model(x, [layers.Dense(5)(y), layers.Dense(2, dtype="float64")(y)])
cell = layers.Bidirectional(layers.LSTM(4))
chain = keras.Sequential([layers.Input((6,), dtype="int32"), layers.Embedding(50, 4), cell])
counts = {}
for name, network in {"graph": graph, "chain": chain}.items():
    network.save(f"{name}.keras")
    counts[name] = network.count_params()
asked = {"cache": str(Path("cache").absolute()), "schedules": ["whole"], "loaders": ["copy"]}
for settings in json.loads(sys.argv[1]):
    (name,), batch = settings["networks"], {"batch": 1, "image": None}
    file = {name: str(Path(name).absolute())}
    made = manifest_of_files({**asked, **batch, "files": file, "input": settings.get("input")})
    made = made["networks"][name]
    model = engine.model(Path(made["folder"]), settings, None)
    unit, inputs = model.units[0], model.inputs()
    try:
        model.load(unit)
        outputs = model.run(unit, inputs)
        own = keras.saving.load_model(f"{made['folder']}/whole.keras", compile=False)
        own = own(*inputs.values())
        parts = list(inputs.values()), list(outputs.values()), keras.tree.flatten(own)
        counted = [made["parameter_bytes"], counts.get(name.removesuffix(".keras"))]
        print(json.dumps([counted, *([one.numpy().tolist() for one in part] for part in parts)]))
    except EdgebenchError as error:
        print(json.dumps(error.what))
"""


def python(folder: Path, code: str, *words: str) -> list[Any]:
    """What the code prints, a line of JSON each; it must not write to stderr."""
    env = {**os.environ, "PYTHONPATH": python_path(), "HOME": str(folder)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, *words],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return [json.loads(line) for line in done.stdout.splitlines()]


def folder_of(file: Path, described: object = None, batch: int = 1) -> Path:
    """The folder that its trials load."""
    made = prepared(file, file.parent / "cache", described, batch)
    return Path(made["folder"])


@pytest.mark.torch
def test_networks_that_keras_saved(tmp_path: Path):
    """All weights are counted; executed: the outputs of Keras's own call, and of another engine."""
    pytest.importorskip("keras")
    onnxruntime = pytest.importorskip("onnxruntime")
    made_keras(tmp_path)
    remade_keras(made_keras(tmp_path, "unknown.keras"), Permute="Permutation")
    asked = {"graph": "float32 2x8x8x3 ones", "chain": "int32 2x6 <50", "small": None}
    settings = [
        run_settings(f"{name}.keras", "tensorflow", Path(), input=spec)
        for name, spec in asked.items()
    ]
    settings += [{**settings[-1], "xla": True}, {**settings[-1], "networks": ["unknown.keras"]}]
    *done, refused = python(tmp_path, _RUN, json.dumps(settings))
    assert [[np.shape(one) for one in made] for _, _, made, _ in done] == [
        *([(2, 5), (2, 2)], [(2, 8)], [(1, 50)], [(1, 50)])
    ]
    for _, _, made, own in done:
        for one, wanted in zip(made, own, strict=True):
            np.testing.assert_allclose(one, wanted, atol=1e-5)
    (graph_bytes, in_graph), (chain_bytes, in_chain) = done[0][0], done[1][0]
    # One layer has weights of twice the width.
    assert graph_bytes == 4 * in_graph + 4 * (8 * 2 + 2)
    assert chain_bytes == 4 * in_chain
    session = onnxruntime.InferenceSession(small_network().SerializeToString())
    picture = np.array(done[2][1][0], np.float32).transpose(0, 3, 1, 2)
    np.testing.assert_allclose(done[2][2][0], session.run(None, {"x": picture})[0], atol=1e-4)
    assert refused.startswith("TensorFlow refuses it: ")
    assert "Permutation" in refused
    assert not (tmp_path / ".keras").exists()


def test_the_table_has_weights_outputs_and_work(tmp_path: Path):
    """Of each layer, from the description and the weights alone; the batch fills its shapes."""
    made = prepared(made_keras(tmp_path), tmp_path / "cache", None)
    rows = {row["name"]: row for row in made["table"]}
    dense, convolution = rows["dense_9"], rows["conv2d_3"]
    assert dense["parameter_bytes"] == 4 * (1024 * 50 + 50)
    assert dense["flops"] == 2 * 1024 * 50
    assert convolution["parameter_bytes"] == 4 * (3 * 3 * 16 * 16 + 16)
    assert convolution["output_bytes"] == 4 * 16 * 16 * 16
    assert convolution["flops"] == 2 * 16 * 16 * 16 * 9 * 16
    assert [file.name for file in weights_in([made["folder"]])] == ["whole.keras"]


def test_another_content_is_another_network(tmp_path: Path):
    """The identity is that of the file's bytes."""
    first = prepared(made_keras(tmp_path), tmp_path / "cache", None)
    second = prepared(remade_keras(tmp_path / "small.keras", small="other"), tmp_path / "c", None)
    assert first["content"] != second["content"]


def _cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def _image(file: Path) -> None:
    file.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))


def _hdf5(file: Path) -> None:
    file.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))


def _changed_byte(file: Path) -> None:
    """In the middle of the last layer's weights."""
    whole = bytearray(file.read_bytes())
    whole[len(whole) * 2 // 3] ^= 0xFF
    file.write_bytes(whole)


def _no_weights(file: Path) -> None:
    with zipfile.ZipFile(file) as archive:
        config = archive.read("config.json")
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("config.json", config)


def _packed_bomb(file: Path) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("config.json", '{"config": {}}')
        archive.writestr("model.weights.h5", bytes(8 << 20))


def _deep(file: Path) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("config.json", "[" * 100_000)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (_cut, "not a zip file"),
        (_image, "not a zip file"),
        (_hdf5, "an HDF5 file, as Keras 2 wrote them"),
        (_changed_byte, "Bad CRC-32"),
        (_no_weights, "no item named 'model.weights.h5'"),
        (_packed_bomb, "packed more tightly"),
        (_deep, "config.json is damaged"),
    ],
)
def test_a_damaged_file_is_refused_in_one_sentence(tmp_path: Path, damage: Any, words: str):
    """Cut short, of another format, changed, or made to fill the memory."""
    file = made_keras(tmp_path)
    damage(file)
    with pytest.raises(WorkloadError, match="no Keras file, or not a whole one") as refused:
        folder_of(file)
    assert words in refused.value.what
    assert "\n" not in refused.value.what


@pytest.mark.parametrize(
    ("replaced", "words"),
    [
        ({'"Permute"': '"Lambda"'}, "its layer 'permute_7' is a Lambda, which runs code"),
        ({'"Permute"': '"TFSMLayer"'}, "is a TFSMLayer, which runs code"),
        ({'"keras.layers"': '"os"'}, "it names 'InputLayer' of os, which is not in the file"),
        ({'"keras.layers"': '"keras.utils"'}, "of keras.utils"),
        ({'"Functional"': '"Net"'}, "the network is of the class 'Net'"),
        ({'"same"': '{"class_name": "function", "module": "builtins"}'}, "names 'function' of"),
        ({'"dims"': '"vocabulary": "/etc/passwd", "dims"'}, "reads a file of its own"),
        ({'"inbound_nodes"': '"nodes"', '"input_layers"': '"ends"'}, "has no input"),
    ],
)
def test_code_that_is_not_keras_s_own_is_refused(tmp_path: Path, replaced: Any, words: str):
    """Before Keras could import it: by the name of the class or the layer, with what to do."""
    file = remade_keras(made_keras(tmp_path), **replaced)
    with pytest.raises(WorkloadError) as refused:
        folder_of(file)
    assert words in refused.value.what
    assert refused.value.remedy


def test_an_input_of_another_shape_is_refused(tmp_path: Path):
    """As of files of the other engines."""
    with pytest.raises(WorkloadError, match="is float32 1x16x16x3, not float32 1x3x16x16"):
        folder_of(made_keras(tmp_path), "float32 1x3x16x16")


def test_sides_of_pictures_with_channels_last(tmp_path: Path):
    """``image`` fills the two dimensions before the channels."""
    file = remade_keras(made_keras(tmp_path), **{"[1, 16, 16, 3]": "[null, null, null, 3]"})
    with pytest.raises(WorkloadError, match=r"'x' is float32 \?x\?x\?x3") as refused:
        folder_of(file)
    assert "--image 224" in str(refused.value.remedy)
