"""Inputs as a person writes them: ``int64 1x128 <32000``. Pure text, no torch.

An input is a type, a shape and what fills it. Floating-point numbers are drawn between 0 and 1
unless ``ones`` or ``zeros`` is written; whole numbers below ``<N``, or ``ones``,
``zeros``, or ``arange``: 0, 1, 2 … along the last axis. Truth values are ``ones`` or ``zeros``.
``=16000`` gives every number that value, and ``string "hello"`` is text.

Beside a value the shape may be left out: it is the file's own, or that of one number. A number
alone (``16000``) has the file's own type too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from edgebench.errors import UsageError
from edgebench.text import did_you_mean

_FLOATS = ("float32", "float64", "float16", "bfloat16")
_INTEGERS = ("int64", "int32", "int16", "int8", "uint8")
_FILLS = {
    **dict.fromkeys(_FLOATS, ("uniform", "ones", "zeros")),
    **dict.fromkeys(_INTEGERS, ("ones", "zeros", "arange")),
    "bool": ("ones", "zeros"),
}
STRING = "string"
_TYPES = (*_FILLS, STRING)
_SHAPE = re.compile(r"[1-9][0-9]{0,8}(x[1-9][0-9]{0,8}){0,7}")
_EXAMPLE = 'write type, shape and values: "float32 1x3x224x224", "int64 1x128 <32000"'
#: Text in quotes at the end of a description; a number.
_TEXT = re.compile(r"""(?P<head>.*?)\s*(?P<quote>["'])(?P<text>.*)(?P=quote)\s*""", re.DOTALL)
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|true|false")
#: The name of the input of a network that takes just one.
ONLY = ""


@dataclass(frozen=True)
class InputSpec:
    """One tensor, or a number or text.

    ``below``: whole numbers are drawn from 0 up to this. ``value``: a number or text that fills all
    of it. Else ``fill`` says what. ``dtype`` and ``shape`` are None where they are the file's own.
    """

    dtype: str | None
    shape: tuple[int, ...] | None
    fill: str = ""
    below: int | None = None
    value: bool | int | float | str | None = None

    def batched(self, batch: int) -> InputSpec:
        """Multiply its first size by the batch."""
        if not self.shape:
            return self
        return replace(self, shape=(self.shape[0] * batch, *self.shape[1:]))

    def value_as(self, dtype: str, name: str) -> Any:
        """Return its value as one of this type.

        Raises:
            UsageError: the type has no such value.
        """
        value = self.value
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        example = f"{name}=1"
        if dtype == STRING:
            fits, example = isinstance(value, str), f"'{name}={STRING} \"hello\"'"
        elif dtype == "bool":
            fits, example = isinstance(value, bool), f"{name}=true"
        elif "int" in dtype:
            bits, signed = int(dtype.rpartition("int")[2]), not dtype.startswith("u")
            lowest = -(1 << (bits - 1)) if signed else 0
            fits = is_number and isinstance(value, int) and lowest <= value < lowest + (1 << bits)
        else:
            fits = is_number
        if not fits:
            raise _refused(name, f"{value!r} is no value of {dtype}", f"--input {example}")
        return float(value) if isinstance(value, int) and "float" in dtype else value


def parse_inputs(given: str | Mapping[str, str]) -> dict[str, InputSpec]:
    """Parse every input by its name in ``forward``; a single text's name is :data:`ONLY`.

    Raises:
        UsageError: not an input.
    """
    named = {ONLY: given} if isinstance(given, str) else given
    return {name: _spec(name, text) for name, text in named.items()}


def named_inputs(texts: tuple[str, ...]) -> str | dict[str, str] | None:
    """Parse the values of ``--input``: ``name=int64 1x128 <32000``, or one without a name.

    Raises:
        UsageError: several, and one of them has no name.
    """
    pairs = [text.partition("=") for text in texts]
    if len(texts) == 1 and (not pairs[0][1] or pairs[0][0].split(" ")[0] in _TYPES):
        return texts[0]
    for name, equals, _ in pairs:
        # Names in files need not be Python's: serving_default_x:0.
        if not equals or not name.strip() or " " in name.strip():
            raise UsageError(
                f"--input {name!r} has no name", remedy='--input "input_ids=int64 1x128 <32000"'
            )
    return {name.strip(): spec.strip() for name, _, spec in pairs} or None


def _spec(name: str, text: str) -> InputSpec:
    if spec := _text_spec(name, text):
        return spec
    words = text.split()
    if len(words) == 1 and _NUMBER.fullmatch(words[0].removeprefix("=")):
        return InputSpec(None, None, value=_number(words[0].removeprefix("=")))
    if len(words) == 2 and words[0] in _FILLS and words[1].startswith("="):
        return _constant(name, words[0], None, words[1])
    if words and words[0] == STRING:
        raise _refused(name, "text without its words", f'{name or "text"}={STRING} "hello"')
    if not 2 <= len(words) <= 3:
        raise _refused(name, f"{text!r} is no input", _EXAMPLE)
    dtype, shape, fill = words[0], words[1], words[2] if len(words) == 3 else ""
    if dtype not in _FILLS:
        guess = did_you_mean(dtype, list(_TYPES))
        raise _refused(
            name, f"no type {dtype!r}", f"did you mean {guess!r}?" if guess else _EXAMPLE
        )
    if not _SHAPE.fullmatch(shape):
        raise _refused(name, f"{shape!r} is no shape", _EXAMPLE)
    sizes = tuple(map(int, shape.split("x")))
    if fill.startswith("="):
        return _constant(name, dtype, sizes, fill)
    if dtype in _INTEGERS and re.fullmatch(r"<[1-9][0-9]*", fill):
        return InputSpec(dtype, sizes, below=int(fill[1:]))
    if fill in _FILLS[dtype] or (not fill and dtype in _FLOATS):
        return InputSpec(dtype, sizes, fill or "uniform")
    choices = [*_FILLS[dtype], *(["<1000"] if dtype in _INTEGERS else []), "=1"]
    what = f"no values {fill!r} for {dtype}" if fill else f"{dtype} without its values"
    raise _refused(name, what, f"write one of {', '.join(choices)} after the shape")


def _text_spec(name: str, text: str) -> InputSpec | None:
    match = _TEXT.fullmatch(text)
    words = match["head"].split() if match else []
    if not match or words[:1] not in ([STRING], []):
        return None
    shape = words[1] if len(words) == 2 else None
    if len(words) > 2 or (shape and not _SHAPE.fullmatch(shape)):
        raise _refused(name, f"{text!r} is no input", f'write {STRING} 1x2 "hello"')
    sizes = tuple(map(int, shape.split("x"))) if shape else None
    return InputSpec(STRING, sizes, value=match["text"])


def _constant(name: str, dtype: str, sizes: tuple[int, ...] | None, fill: str) -> InputSpec:
    if not _NUMBER.fullmatch(fill[1:]):
        raise _refused(name, f"{fill[1:]!r} is no number", f"{name or 'sr'}={dtype} =16000")
    spec = InputSpec(dtype, sizes, value=_number(fill[1:]))
    spec.value_as(dtype, name)
    return spec


def _number(text: str) -> bool | int | float:
    if text in ("true", "false"):
        return text == "true"
    try:
        return int(text)
    except ValueError:
        return float(text)


def _refused(name: str, what: str, remedy: str) -> UsageError:
    return UsageError(f"input {name}: {what}" if name else what, remedy=remedy)
