"""Inputs of files as a person describes them: dynamic sizes filled, values, and refusals."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from engine_models import made_encoder
from engine_runs import prepared, run

from edgebench.errors import UsageError, WorkloadError
from edgebench.layers.input_specs import (
    FileInput,
    make_inputs,
    named_inputs,
    parse_inputs,
    proposal,
)


def arrays(
    inputs: Sequence[FileInput], described: str | dict[str, str] | None = None, batch: int = 1
) -> dict[str, np.ndarray]:
    return make_inputs(inputs, {"batch": batch, "seed": 4, "input": described}, "f")


ENCODER = {"input.ids": "int64 1x40 <1000", "mask": "float32 1x40 ones"}


@pytest.mark.torch
def test_a_sequence_is_as_long_as_described(tmp_path: Path):
    own = {"input": ENCODER, "batch": 2}
    made = prepared(made_encoder(tmp_path), tmp_path / "cache", **own)
    digest = run("encoder.onnx", "onnxruntime", Path(made["folder"]), **own).notes["output_sha256"]
    other = {**own, "input": {**ENCODER, "mask": "float32 1x40 zeros"}}
    masked = run("encoder.onnx", "onnxruntime", Path(made["folder"]), **other)
    assert masked.notes["output_sha256"] != digest
    zeros = hashlib.sha256(bytes(2 * 40 * 8 * 4)).hexdigest()
    assert masked.notes["output_sha256"] == {"encoder.onnx": zeros}


@pytest.mark.parametrize(
    ("spec", "low", "high"),
    [
        ("float32 2x3", 0, 1),
        ("float32 2x3 ones", 1, 1),
        ("float32 2x3 zeros", 0, 0),
    ],
)
def test_values_are_those_described(spec: str, low: float, high: float):
    one = FileInput("x", "float32", (None, None))
    first, again = (arrays([one], spec)["x"] for _ in "12")
    np.testing.assert_array_equal(first, again)
    assert first.dtype == np.float32
    assert low <= first.min() <= first.max() <= high


def test_whole_numbers_count_up():
    one = FileInput("x", "int64", (1, "n"))
    value = arrays([one], {"x": "int64 1x4 arange"})["x"]
    assert value.tolist() == [[0, 1, 2, 3]]


@pytest.mark.torch
@pytest.mark.parametrize(
    ("described", "what", "remedy"),
    [
        (
            None,
            "the file does not say what its inputs are: 'input.ids' is int64 batch x sequence and "
            "'mask' is float32 batch x sequence",
            "with these it was executed once: "
            '--input "input.ids=int64 1x1 <1000" --input "mask=float32 1x1"',
        ),
        ("int64 1x40 <9", "has 2 inputs, so each needs its name", "input.ids=int64 1x1 <1000"),
        ({"mask_": "float32 1x40"}, "no input 'mask_'", "did you mean 'mask'"),
        (
            {**ENCODER, "mask": "int64 1x40 ones"},
            "ONNX Runtime can't execute it with input.ids int64 1x40, mask int64 1x40: ",
            "mask=float32 1x1",
        ),
        (
            {"input.ids": "int64 1x40 =5000", "mask": "float32 1x40"},
            "Gather node. Name:'' Status Message: indices element out of data bounds",
            "try another --input: with these it was executed once: --input",
        ),
    ],
)
def test_inputs_that_the_file_does_not_take(
    tmp_path: Path, described: object, what: str, remedy: str
):
    """Found before any trial: one message, with a description that would do."""
    with pytest.raises(WorkloadError) as refused:
        prepared(made_encoder(tmp_path), tmp_path / "cache", input=described)
    assert what in refused.value.what
    assert remedy in str(refused.value.remedy)


INPUTS = (
    FileInput("x", "float32", ("n", None)),
    FileInput("state", "float32", (2, "n", 128)),
    FileInput("rate", "int64", ()),
    FileInput("picture", "float32", (None, 3, "height", "width")),
)


def test_equal_names_have_equal_sizes_and_values_are_set():
    told = {"x": "float32 3x512", "rate": "16000", "picture": "float32 1x3x8x8 =0.5"}
    made = arrays(INPUTS, told)
    assert made["state"].shape == (2, 3, 128)
    assert (made["rate"].shape, made["rate"].dtype, int(made["rate"])) == ((), np.int64, 16000)
    assert (made["picture"] == np.float32(0.5)).all()


def test_all_that_is_not_known_is_asked_for_at_once():
    with pytest.raises(WorkloadError) as refused:
        arrays(INPUTS)
    assert refused.value.what == (
        "the file does not say what its inputs are: 'x' is float32 n x ?, 'state' is float32 2 x n "
        "x 128 and 'picture' is float32 ? x 3 x height x width"
    )
    assert refused.value.remedy == (
        'describe them, with sizes that fit: --input "x=float32 1x1" --input "state=float32 '
        '2x1x128" --input rate=1 --input "picture=float32 1x3x224x224"'
    )


def test_what_is_proposed_was_executed():
    """Symbolic sizes are 1, and a bound that the message names is tried; else it is an example."""
    tried = []

    def execute(values: dict[str, np.ndarray]) -> None:
        tried.append(values)
        if values["tokens"].max() > 60:
            raise ValueError("idx=812 must be within the inclusive range [-61,60]")

    inputs = (
        FileInput("tokens", "int64", ("batch", "n")),
        FileInput("state", "float32", (2, "batch", 96)),
        FileInput("rate", "int64", ()),
    )
    found = proposal(inputs, execute, "f")
    shape = {name: value.shape for name, value in tried[-1].items()}
    assert shape == {"tokens": (1, 1), "state": (2, 1, 96), "rate": ()}
    assert found == (
        'with these it was executed once: --input "tokens=int64 1x1 <61" '
        '--input "state=float32 2x1x96" --input rate=1'
    )

    def refuse(values: dict[str, np.ndarray]) -> None:
        raise ValueError("input must be 576 long")

    assert proposal(inputs, refuse, "f") == (
        'describe them, with sizes that fit: --input "tokens=int64 1x1 <1000" '
        '--input "state=float32 2x1x96" --input rate=1'
    )


@pytest.mark.parametrize("shape", [("seq",), (None,), ("seq", "batch"), (3, "n"), None])
def test_a_size_is_never_guessed(shape: tuple[int | str | None, ...] | None):
    with pytest.raises(WorkloadError, match="does not say what its inputs are"):
        arrays([FileInput("x", "float32", shape)])
    made = arrays([FileInput("x", "float32", (None, 3))], batch=2)
    assert made["x"].shape == (2, 3)


def test_a_value_that_an_input_can_not_have():
    with pytest.raises(WorkloadError, match=r"1\.5 is no value of int64"):
        arrays(INPUTS, {"rate": "1.5"})


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (("sr=16000",), {"sr": "16000"}),
        (("sr=int64 =16000",), {"sr": "int64 =16000"}),
        (("int64 1x4 =7",), "int64 1x4 =7"),
        (('text=string "a = b"',), {"text": 'string "a = b"'}),
        (("serving_default_x:0=int64 1x4 =7",), {"serving_default_x:0": "int64 1x4 =7"}),
    ],
)
def test_a_value_is_written_behind_an_equals_sign(words: tuple[str, ...], given: object):
    told = named_inputs(words)
    assert told == given
    (spec,) = parse_inputs(told or {}).values()
    assert spec.value in (16000, 7, "a = b")


@pytest.mark.parametrize(
    "text", ["string", "string hello", "int8 =300", "bool =1", "int64 1x4 =x", 'float32 "x"']
)
def test_descriptions_that_mean_nothing(text: str):
    with pytest.raises(UsageError):
        parse_inputs({"a": text})
