"""Inputs as people write them."""

from __future__ import annotations

import pytest

from edgebench.errors import UsageError
from edgebench.layers.input_specs import InputSpec, named_inputs, parse_inputs


def test_types_shapes_and_values_are_read() -> None:
    assert parse_inputs("float32 1x3x8x8") == {"": InputSpec("float32", (1, 3, 8, 8), "uniform")}
    assert parse_inputs("float32 3")[""].shape == (3,)
    found = parse_inputs({"ids": "int64 1x128 <32000", "mask": "int64 1x128 ones"})
    assert found["ids"] == InputSpec("int64", (1, 128), below=32000)
    assert found["mask"].batched(4) == InputSpec("int64", (4, 128), "ones")


def test_flags_name_their_inputs() -> None:
    assert named_inputs(()) is None
    assert named_inputs(("float32 1x8",)) == "float32 1x8"
    assert named_inputs(("a=int64 1x8 <9", "b=bool 1x8 ones")) == {
        "a": "int64 1x8 <9",
        "b": "bool 1x8 ones",
    }
    with pytest.raises(UsageError, match="has no name"):
        named_inputs(("a=int64 1x8 <9", "float32 1x8"))


@pytest.mark.parametrize(
    ("text", "says", "remedy"),
    [
        ("1x3", "is no input", "float32 1x3x224x224"),
        ("flot32 1x3", "no type 'flot32'", "float32"),
        ("float32 0x3", "is no shape", "1x3x224x224"),
        ("int64 1x8", "int64 without its values", "<1000"),
        ("int64 1x8 <0", "no values '<0'", "<1000"),
        ("bool 1x8 <2", "no values '<2'", "ones, zeros"),
        ("float32 1x8 arange", "no values 'arange'", "ones, zeros"),
    ],
)
def test_what_is_no_input_is_answered_with_one(text: str, says: str, remedy: str) -> None:
    with pytest.raises(UsageError, match=says) as refused:
        parse_inputs({"x": text})
    assert remedy in str(refused.value.remedy)
