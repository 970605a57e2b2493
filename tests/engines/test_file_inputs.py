"""Inputs of files as a person describes them: dynamic sizes filled, values, and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_models import made_encoder, made_onnx, made_tflite, run_settings

from edgebench.errors import UsageError, WorkloadError
from edgebench.layers.input_specs import named_inputs, parse_inputs
from edgebench.workloads.engines.file_inputs import (
    FileInput,
    WantedInputs,
    concrete_shapes,
    make_inputs,
)
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
    # As a whole it is run with arrays, as a plain program does.
    plain = (lambda one: one) if schedule == "whole" else (lambda one: one.numpy())
    assert plain(values["input.ids"]).shape == (2, 40)
    assert plain(values["input.ids"]).max() > 1
    for unit in model.units:
        model.load(unit)
        values.update(model.run(unit, {name: values[name] for name in unit.inputs}))
    assert plain(values["y"]).shape == (2, 40, 8)


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
        (
            None,
            "nothing says what its inputs are: 'input.ids' is int64 batch x sequence and 'mask' is "
            "float32 batch x sequence",
            'describe them: --input "input.ids=int64 1x128 <1000" --input "mask=float32 1x128" '
            "(128 is a guess, and some networks take other sizes alone)",
        ),
        ("int64 1x40 <9", "has 2 inputs, so each needs its name", "input.ids=int64 1x128 <1000"),
        ({"mask_": "float32 1x40"}, "no input 'mask_'", "did you mean 'mask'"),
        (
            {**ENCODER, "mask": "int64 1x40 ones"},
            "'mask' of the file is float32 batch x sequence, not int64 1x40",
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
def test_inputs_that_the_engine_refuses_are_found_before_any_trial(tmp_path: Path):
    """With the engine's own reason; another description is the remedy."""
    described = {"input.ids": "int64 1x40 =5000", "mask": "float32 1x40"}
    with pytest.raises(WorkloadError) as refused:
        prepared(made_encoder(tmp_path), tmp_path / "cache", described)
    assert refused.value.what.startswith(
        "ONNX Runtime can't execute it with input.ids int64 1x40, mask float32 1x40: its Gather "
        "node: indices element out of data bounds"
    )
    assert str(refused.value.remedy).startswith("try another --input: in the file its inputs are")


INPUTS = (
    FileInput("x", "float32", ("n", None)),
    FileInput("state", "float32", (2, "n", 128)),
    FileInput("rate", "int64", ()),
    FileInput("picture", "float32", (None, 3, "height", "width")),
)


def test_equal_names_have_equal_sizes_and_values_are_set():
    """A size that one input tells holds for others; a number has the file's own type and shape."""
    told = {"x": "float32 3x512", "rate": "16000", "picture": "float32 1x3x8x8 =0.5"}
    made = make_inputs(INPUTS, WantedInputs(described=told), 0, "f")
    assert made["state"].shape == (2, 3, 128)
    assert (made["rate"].shape, made["rate"].dtype, int(made["rate"])) == ((), np.int64, 16000)
    assert (made["picture"] == np.float32(0.5)).all()


def test_all_that_is_not_known_is_asked_for_at_once():
    """With a line to try for each input, and for a number that is a setting."""
    with pytest.raises(WorkloadError) as refused:
        make_inputs(INPUTS, WantedInputs(), 0, "f")
    assert refused.value.what == (
        "nothing says what its inputs are: 'x' is float32 n x ? and 'picture' is "
        "float32 ? x 3 x height x width"
    )
    assert refused.value.remedy == (
        'describe them: --input "x=float32 1x128" --input rate=1 --input "picture=float32 '
        '1x3x224x224"; or --image 224 (128 is a guess, and some networks take other sizes alone)'
    )


@pytest.mark.parametrize(
    ("shape", "dtype", "example"),
    [
        (("seq",), "int64", "x=int64 128 <1000"),
        ((None,), "float32", "x=float32 128"),
        (("seq_len", "batch"), "int64", "x=int64 128x1 <1000"),
        (("time", "batch_size", 40), "float32", "x=float32 128x1x40"),
    ],
)
def test_a_length_is_never_taken_for_the_batch(
    shape: tuple[int | str | None, ...], dtype: str, example: str
):
    """It is asked for, and the example's size is called a guess."""
    with pytest.raises(WorkloadError) as refused:
        concrete_shapes([FileInput("x", dtype, shape)], WantedInputs(), "f")
    remedy = str(refused.value.remedy)
    assert example in remedy
    assert remedy.endswith("(128 is a guess, and some networks take other sizes alone)")


@pytest.mark.parametrize(
    ("inputs", "shapes"),
    [
        ([FileInput("x", "float32", ("N",))], {"x": (2,)}),
        ([FileInput("x", "float32", ("batch_size",))], {"x": (2,)}),
        ([FileInput("x", "float32", (3, "batch"))], {"x": (3, 2)}),
        ([FileInput("x", "float32", (None, 3))], {"x": (2, 3)}),
        # Several features of an example.
        ([FileInput(name, "float32", (None,)) for name in "xy"], {"x": (2,), "y": (2,)}),
    ],
)
def test_what_the_batch_fills(inputs: list[FileInput], shapes: dict[str, tuple[int, ...]]):
    """What is named so, at any place, and else the first dimension."""
    assert concrete_shapes(inputs, WantedInputs(batch=2), "f") == shapes


@pytest.mark.parametrize(
    ("told", "what"),
    [
        ({"rate": "1.5"}, "1.5 is no value of int64"),
        ({"rate": "int32 =7"}, "'rate' of the file is int64, a single value, not int32"),
        ({"rate": 'string "x"'}, "is int64, a single value, not string"),
    ],
)
def test_values_that_an_input_can_not_have(told: dict[str, str], what: str):
    """They are refused, with the file's own type."""
    with pytest.raises(WorkloadError, match=what):
        make_inputs(INPUTS, WantedInputs(image=16, described=told), 0, "f")


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (("sr=16000",), {"sr": "16000"}),
        (("sr=int64 =16000",), {"sr": "int64 =16000"}),
        (("int64 1x4 =7",), "int64 1x4 =7"),
        (('text=string "a = b"',), {"text": 'string "a = b"'}),
    ],
)
def test_a_value_is_written_behind_an_equals_sign(words: tuple[str, ...], given: object):
    """Of a named input and of the only one; each is a description."""
    told = named_inputs(words)
    assert told == given
    (spec,) = parse_inputs(told or {}).values()
    assert spec.value in (16000, 7, "a = b")


@pytest.mark.parametrize(
    "text", ["string", "string hello", "int8 =300", "bool =1", "int64 1x4 =x", 'float32 "x"']
)
def test_descriptions_that_mean_nothing(text: str):
    """Text without quotes, and a value that the type has not."""
    with pytest.raises(UsageError):
        parse_inputs({"a": text})


@pytest.mark.torch
def test_a_fixed_size_stays(tmp_path: Path):
    """An input of another size than the file's own is refused."""
    with pytest.raises(WorkloadError, match="is float32 1x3x16x16, not float32 1x3x32x32"):
        prepared(made_onnx(tmp_path), tmp_path / "cache", "float32 1x3x32x32")


def test_names_in_files_need_not_be_pythons():
    """As TensorFlow's: a colon and a number at the end."""
    given = named_inputs(("serving_default_x:0=int64 1x4 ones", "input.2=float32 1x4"))
    assert given == {"serving_default_x:0": "int64 1x4 ones", "input.2": "float32 1x4"}
