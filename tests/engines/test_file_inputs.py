"""Inputs of files as a person describes them: dynamic sizes filled, values, and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_models import made_encoder, made_onnx, made_tflite, run_settings

from edgebench.errors import WorkloadError
from edgebench.layers.input_specs import named_inputs
from edgebench.workloads.engines.file_inputs import FileInput, WantedInputs, make_inputs
from edgebench.workloads.engines.file_preparation import manifest_of_files
from edgebench.workloads.engines.registry import engine_of

ENCODER = {"input.ids": "int64 1x40 <1000", "mask": "float32 1x40 ones"}


def prepared(file: Path, cache: Path, described: object, batch: int = 1) -> dict[str, Any]:
    """The manifest's part of one file, made ready with that input."""
    request = {
        "files": {file.name: str(file)},
        "cache": str(cache),
        "schedules": ["whole", "bulk"],
        "loaders": ["copy"],
        "batch": batch,
        "image": None,
        "input": described,
    }
    found: dict[str, Any] = manifest_of_files(request)["networks"][file.name]
    return found


@pytest.mark.torch
@pytest.mark.parametrize("schedule", ["whole", "bulk"])
def test_a_sequence_is_as_long_as_described(tmp_path: Path, schedule: str):
    """Both inputs of an encoder: its sizes, times the batch, reach the table and the engine."""
    file = made_encoder(tmp_path)
    made = prepared(file, tmp_path / "cache", ENCODER, batch=2)
    assert max(row["output_bytes"] for row in made["table"]) == 4 * 2 * 40 * 8
    settings = run_settings(file.name, "onnxruntime", Path(made["folder"]), input=ENCODER, batch=2)
    engine: Any = engine_of("onnxruntime")
    model = engine.model(Path(made["folder"]), {**settings, "schedule": schedule}, None)
    values = model.inputs()
    assert values["input.ids"].numpy().shape == (2, 40)
    assert values["input.ids"].numpy().max() > 1
    for unit in model.units:
        model.load(unit)
        values.update(model.run(unit, {name: values[name] for name in unit.inputs}))
    assert values["y"].numpy().shape == (2, 40, 8)


@pytest.mark.torch
def test_one_input_needs_no_name(tmp_path: Path):
    """A TFLite file's one input, of its own type and shape."""
    made = prepared(made_tflite(tmp_path), tmp_path / "cache", "float32 1x16x16x3 zeros")
    folder = Path(made["folder"])
    settings = run_settings("small.tflite", "litert", folder, input="float32 1x16x16x3 zeros")
    engine: Any = engine_of("litert")
    (value,) = engine.model(folder, settings, None).inputs().values()
    assert not value.any()


@pytest.mark.parametrize(
    ("spec", "low", "high"),
    [
        ("float32 2x3", 0, 1),
        ("float32 2x3 normal", -5, 5),
        ("float32 2x3 ones", 1, 1),
        ("float32 2x3 zeros", 0, 0),
    ],
)
def test_values_are_those_described(spec: str, low: float, high: float):
    """Each way to fill an input; the same for the same seed."""
    one = FileInput("x", "float32", (None, None))
    first, again = (make_inputs([one], WantedInputs(described=spec), 4, "f")["x"] for _ in "12")
    np.testing.assert_array_equal(first, again)
    assert first.dtype == np.float32
    assert low <= first.min() <= first.max() <= high


def test_whole_numbers_count_up():
    """``arange`` is 0, 1, 2 … along the last axis."""
    one = FileInput("x", "int64", (1, "n"))
    value = make_inputs([one], WantedInputs(described={"x": "int64 1x4 arange"}), 0, "f")["x"]
    assert value.tolist() == [[0, 1, 2, 3]]


@pytest.mark.torch
@pytest.mark.parametrize(
    ("described", "what", "remedy"),
    [
        (None, "dimension sequence of the input 'input.ids' is dynamic", "input.ids=int64 1x128"),
        ("int64 1x40 <9", "has 2 inputs, so each needs its name", "input.ids=int64 1x128 <1000"),
        ({"mask_": "float32 1x40"}, "no input 'mask_'", "did you mean 'mask'"),
        (
            {**ENCODER, "mask": "int64 1x40 ones"},
            "'mask' of the file is float32 batchxsequence, not int64 1x40",
            "mask=float32 1x128",
        ),
        ({**ENCODER, "mask": "float32 40"}, "not float32 40", "mask=float32 1x128"),
    ],
)
def test_inputs_that_the_file_does_not_take(
    tmp_path: Path, described: object, what: str, remedy: str
):
    """One message that names the input, with a description that would do."""
    with pytest.raises(WorkloadError) as refused:
        prepared(made_encoder(tmp_path), tmp_path / "cache", described)
    assert what in refused.value.what
    assert remedy in str(refused.value.remedy)


@pytest.mark.torch
def test_a_fixed_size_stays(tmp_path: Path):
    """An input of another size than the file's own is refused."""
    with pytest.raises(WorkloadError, match="is float32 1x3x16x16, not float32 1x3x32x32"):
        prepared(made_onnx(tmp_path), tmp_path / "cache", "float32 1x3x32x32")


def test_names_in_files_need_not_be_pythons():
    """As TensorFlow's: a colon and a number at the end."""
    given = named_inputs(("serving_default_x:0=int64 1x4 ones", "input.2=float32 1x4"))
    assert given == {"serving_default_x:0": "int64 1x4 ones", "input.2": "float32 1x4"}
