"""Inputs as a person writes them: ``int64 1x128 <32000``. Pure text, no torch.

An input is a type, a shape and what fills it. Floating-point numbers are drawn between 0 and 1
unless ``normal``, ``ones`` or ``zeros`` is written; whole numbers below ``<N``, or ``ones``,
``zeros``, or ``arange``: 0, 1, 2 … along the last axis. Truth values are ``ones`` or ``zeros``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from edgebench.errors import UsageError
from edgebench.text import did_you_mean

_FLOATS = ("float32", "float64", "float16", "bfloat16")
_INTEGERS = ("int64", "int32", "int16", "int8", "uint8")
_FILLS = {
    **dict.fromkeys(_FLOATS, ("uniform", "normal", "ones", "zeros")),
    **dict.fromkeys(_INTEGERS, ("ones", "zeros", "arange")),
    "bool": ("ones", "zeros"),
}
_SHAPE = re.compile(r"[1-9][0-9]{0,8}(x[1-9][0-9]{0,8}){0,7}")
_EXAMPLE = 'write type, shape and values: "float32 1x3x224x224", "int64 1x128 <32000"'
#: The name of the input of a network that takes just one.
ONLY = ""


@dataclass(frozen=True)
class InputSpec:
    """One tensor. ``below``: whole numbers are drawn from 0 up to this; else ``fill`` says what."""

    dtype: str
    shape: tuple[int, ...]
    fill: str = ""
    below: int | None = None

    def batched(self, batch: int) -> InputSpec:
        """With its first size taken so many times."""
        return replace(self, shape=(self.shape[0] * batch, *self.shape[1:]))


def parse_inputs(given: str | Mapping[str, str]) -> dict[str, InputSpec]:
    """Every input by its name in ``forward``; the name of a single text is :data:`ONLY`.

    Raises:
        UsageError: not an input.
    """
    named = {ONLY: given} if isinstance(given, str) else given
    return {name: _spec(name, text) for name, text in named.items()}


def named_inputs(texts: tuple[str, ...]) -> str | dict[str, str] | None:
    """What ``--input`` was given: ``name=int64 1x128 <32000``, or one input without a name.

    Raises:
        UsageError: several, and one of them has no name.
    """
    pairs = [text.partition("=") for text in texts]
    if len(texts) == 1 and not pairs[0][1]:
        return texts[0]
    for name, equals, _ in pairs:
        # Names in files need not be Python's: serving_default_x:0.
        if not equals or not name.strip() or " " in name.strip():
            raise UsageError(
                f"--input {name!r} has no name", remedy='--input "input_ids=int64 1x128 <32000"'
            )
    return {name.strip(): spec.strip() for name, _, spec in pairs} or None


def _spec(name: str, text: str) -> InputSpec:
    words = text.split()
    if not 2 <= len(words) <= 3:
        raise _refused(name, f"{text!r} is no input", _EXAMPLE)
    dtype, shape, fill = words[0], words[1], words[2] if len(words) == 3 else ""
    if dtype not in _FILLS:
        guess = did_you_mean(dtype, list(_FILLS))
        raise _refused(
            name, f"no type {dtype!r}", f"did you mean {guess!r}?" if guess else _EXAMPLE
        )
    if not _SHAPE.fullmatch(shape):
        raise _refused(name, f"{shape!r} is no shape", _EXAMPLE)
    sizes = tuple(map(int, shape.split("x")))
    if dtype in _INTEGERS and re.fullmatch(r"<[1-9][0-9]*", fill):
        return InputSpec(dtype, sizes, below=int(fill[1:]))
    if fill in _FILLS[dtype] or (not fill and dtype in _FLOATS):
        return InputSpec(dtype, sizes, fill or "uniform")
    choices = [*_FILLS[dtype], *(["<1000"] if dtype in _INTEGERS else [])]
    what = f"no values {fill!r} for {dtype}" if fill else f"{dtype} without its values"
    raise _refused(name, what, f"write one of {', '.join(choices)} after the shape")


def _refused(name: str, what: str, remedy: str) -> UsageError:
    return UsageError(f"input {name}: {what}" if name else what, remedy=remedy)
