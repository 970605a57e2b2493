"""Inputs as a person writes them, ``int64 1x128 <32000``, and those of networks in files. No torch.

A described input is a type, a shape and what fills it. Floating-point numbers are drawn between 0
and 1 unless ``ones`` or ``zeros`` is written; whole numbers below ``<N``, or ``ones``, ``zeros``,
or ``arange``: 0, 1, 2 … along the last axis. Truth values are ``ones`` or ``zeros``. ``=16000``
gives every number that value, and ``string "hello"`` is text.

Beside a value the shape may be left out: it is the file's own, or that of one number. A number
alone (``16000``) has the file's own type too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from edgebench.errors import UsageError, WorkloadError
from edgebench.text import choice_hint, did_you_mean, joined_words

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


#: Whole numbers are below this one: as an index each finds something, as a mask each is valid.
_INTEGERS_BELOW = 2
_NUMBERS = re.compile(r"(u?int|float)(8|16|32|64)|bool")
#: Dimensions of a picture.
_PICTURE_DIMENSIONS = 4
#: What a proposal has for a picture's side; any other size that the file doesn't have is 1.
_SIDE = 224
#: Below what a proposal's whole numbers are, which may be indices: one after the other is tried.
_BELOW = 1000
#: A range of indices, as an engine's message has it.
_RANGE = re.compile(r"\[-?\d+, ?(\d{1,9})\]")


@dataclass(frozen=True)
class FileInput:
    """One input.

    ``dtype`` is numpy's name of its type, or ``string``; empty: any tensor. A dimension is a size,
    or a name or None where it is dynamic; dimensions with the same name have the same size. A shape
    of None is in no file. One that is ``optional`` is left out unless it is described.
    """

    name: str
    dtype: str
    shape: tuple[int | str | None, ...] | None
    optional: bool = False

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> FileInput:
        """Read it from the description of a prepared file."""
        shape = data["shape"]
        return cls(**{**data, "shape": None if shape is None else tuple(shape)})


def _described_inputs(
    inputs: Sequence[FileInput], settings: Mapping[str, Any], where: str
) -> dict[str, InputSpec]:
    """Return input → its description, for as many as have one; the batch is in the shapes.

    Raises:
        WorkloadError: the file has no such input, or one whose type has no such value.
    """
    given = parse_inputs(settings.get("input") or {})
    known = {entry.name: entry for entry in inputs}
    if ONLY in given:
        needed = [entry.name for entry in inputs if not entry.optional]
        if len(needed) != 1:
            raise WorkloadError(
                f"the file has {len(needed)} inputs, so each needs its name",
                where=where,
                remedy=f"it has {', '.join(needed)}: {example_of(inputs)}",
            )
        given = {needed[0]: given[ONLY]}
    specs = {}
    for name, spec in given.items():
        if name not in known:
            what = f"the file has no input {name!r}"
            raise WorkloadError(what, where=where, remedy=choice_hint(name, known))
        dtype = spec.dtype or known[name].dtype or "float32"
        try:
            value = None if spec.value is None else spec.value_as(dtype, name)
        except UsageError as error:
            raise WorkloadError(error.what, where=where, remedy=error.remedy) from error
        specs[name] = replace(spec.batched(settings["batch"]), dtype=dtype, value=value)
    return specs


class UndescribedError(WorkloadError):
    """The file does not say what some of its inputs are."""


def example_of(inputs: Sequence[FileInput], below: int = _BELOW) -> str:
    """Describe inputs as on the command line; sizes that the file doesn't have are examples."""
    named = ((entry.name, _example(entry, below)) for entry in inputs)
    return " ".join(f"--input {_quoted(f'{name}={text}')}" for name, text in named)


def proposal(
    inputs: Sequence[FileInput], execute: Callable[[dict[str, Any]], None], where: str
) -> str:
    """Find a description with which a network can be executed; where there is none, an example.

    Args:
        inputs: the network's.
        execute: executes it once with values.
        where: its file.
    """
    wanted = [
        entry
        for entry in inputs
        if not entry.optional
        and (not entry.shape or any(not isinstance(size, int) for size in entry.shape))
    ]
    bounds = [_BELOW]
    for below in bounds:
        described = {entry.name: _example(entry, below) for entry in wanted}
        try:
            execute(make_inputs(inputs, {"batch": 1, "seed": 0, "input": described}, where))
        except Exception as error:
            # A library may raise anything.
            if len(bounds) == 1:
                bound = _RANGE.search(str(error))
                bounds += [*([int(bound[1]) + 1] if bound else []), _INTEGERS_BELOW]
        else:
            return f"with these it was executed once: {example_of(wanted, below)}"
    return f"describe them, with sizes that fit: {example_of(wanted)}"


def _quoted(text: str) -> str:
    # Double quotes are easier to change, and "<" needs some.
    plain = not set(text) & set('"$`\\!')
    # Lazy: no trial needs it.
    from shlex import quote

    return f'"{text}"' if plain and " " in text else quote(text)


def _example(entry: FileInput, below: int) -> str:
    if entry.dtype == STRING:
        return f'{STRING} "hello"'
    if entry.shape == ():
        return "true" if entry.dtype == "bool" else "1"
    dtype, shape = entry.dtype or "float32", entry.shape or (None, 3, None, None)
    sides = _sides(shape)
    sizes = (
        size if isinstance(size, int) else _SIDE if place in sides else 1
        for place, size in enumerate(shape)
    )
    values = "" if "float" in dtype else " zeros" if dtype == "bool" else f" <{below}"
    return f"{dtype} {'x'.join(map(str, sizes))}{values}"


def _sides(shape: Sequence[int | str | None]) -> tuple[int, ...]:
    """Find the places of a picture's sides: the last two, or those before its channels."""
    if len(shape) != _PICTURE_DIMENSIONS:
        return ()
    channels_last = isinstance(shape[3], int) and not isinstance(shape[1], int)
    return (1, 2) if channels_last else (2, 3)


def _shape(
    entry: FileInput,
    spec: InputSpec | None,
    settings: Mapping[str, Any],
    named: Mapping[str, int],
) -> tuple[int, ...] | None:
    """Return its shape: as described, else the file's own; None where nothing tells a size."""
    if spec and spec.shape is not None:
        return spec.shape
    if entry.shape is None:
        return None
    sizes = [named.get(size) if isinstance(size, str) else size for size in entry.shape]
    for place in _sides(entry.shape):
        sizes[place] = settings.get("image") if sizes[place] is None else sizes[place]
    if len(sizes) > 1 and sizes[0] is None:
        sizes[0] = settings["batch"]
    if spec is not None:
        # A value alone.
        return tuple(1 if size is None else size for size in sizes)
    return None if None in sizes else tuple(size or 0 for size in sizes)


def _undescribed(
    inputs: Sequence[FileInput], lacking: Sequence[FileInput], where: str
) -> UndescribedError:
    # A number of which the file has no value is a setting, as a sampling rate.
    wanted = [
        entry for entry in inputs if entry in lacking or (entry.shape == () and not entry.optional)
    ]
    words = []
    for entry in lacking:
        sizes = " x ".join("?" if size is None else str(size) for size in entry.shape or ())
        shape = "of any shape" if entry.shape is None else sizes or "without a shape"
        words.append(f"{entry.name!r} is {entry.dtype or 'a tensor'} {shape}")
    return UndescribedError(
        f"the file does not say what its inputs are: {joined_words(words)}",
        where=where,
        remedy=f"describe them, with sizes that fit: {example_of(wanted)}",
    )


def value_words(values: Mapping[str, Any]) -> str:
    """Write the values of inputs for a message: types and shapes, and single values."""

    def words(value: Any) -> str:
        kind, shape = str(value.dtype), "x".join(map(str, value.shape))
        return f"{STRING if kind == 'object' else kind} {shape}" if shape else f"= {value}"

    return ", ".join(f"{name} {words(value)}" for name, value in values.items())


def make_inputs(
    inputs: Sequence[FileInput], settings: Mapping[str, Any], where: str
) -> dict[str, Any]:
    """Make an array for each input as the setting ``input`` describes it, equal for equal seeds.

    Of others ``batch`` fills the first dimension where it is dynamic, and ``image`` the sides of a
    picture; fractions lie between 0 and 1, whole numbers are 0 or 1. A dimension whose name has a
    size in a described input has that size.

    Raises:
        WorkloadError: inputs whose shape nothing tells, all in one message; an input of a type that
            can't be made up; none has the batch as its first size.
    """
    specs = _described_inputs(inputs, settings, where)
    inputs = [entry for entry in inputs if not entry.optional or entry.name in specs]
    named = {
        name: size
        for entry in inputs
        if entry.name in specs
        for name, size in zip(entry.shape or (), specs[entry.name].shape or (), strict=False)
        # Names that exporters give to any dimension.
        if isinstance(name, str) and name not in ("", "?", "None")
    }
    shapes = {entry.name: _shape(entry, specs.get(entry.name), settings, named) for entry in inputs}
    for entry in inputs:
        if entry.dtype not in ("", STRING) and not _NUMBERS.fullmatch(entry.dtype):
            raise WorkloadError(
                f"the input {entry.name!r} is of a type that can't be made up: {entry.dtype}",
                where=where,
                remedy="measure the program that feeds it: edgebench minimum -- python3 infer.py",
            )
    lacking = [
        entry
        for entry in inputs
        if shapes[entry.name] is None or (entry.dtype == STRING and entry.name not in specs)
    ]
    if lacking:
        raise _undescribed(inputs, lacking, where)
    batch = settings["batch"]
    is_in_a_shape = any(shape and shape[0] == batch for shape in shapes.values())
    if batch != 1 and not specs and not is_in_a_shape:
        raise WorkloadError(
            f"a batch of {batch} does not match the file, which has a fixed batch",
            where=where,
            remedy="leave batch out, or export the network with a dynamic batch dimension",
        )
    arrays: dict[str, Any] = {}
    for number, entry in enumerate(inputs):
        random, shape = _Mixed(settings["seed"], number), shapes[entry.name] or ()
        if entry.name in specs:
            arrays[entry.name] = _described_values(replace(specs[entry.name], shape=shape), random)
        elif "float" in entry.dtype:
            arrays[entry.name] = random.fractions(shape, entry.dtype)
        else:
            arrays[entry.name] = random.integers(_INTEGERS_BELOW, shape, entry.dtype)
    return arrays


class _Mixed:
    """Even numbers, the same for the same seed; NumPy's own generators take 2 MiB.

    A plain program need not have them. A bit mixer makes the n-th number of n.
    """

    #: So many numbers are made at a time: more would be memory beside the input.
    _AT_ONCE = 1 << 14

    def __init__(self, *seed: int) -> None:
        self._seed = seed

    def fractions(self, shape: tuple[int, ...], dtype: str) -> Any:
        return self._filled(shape, dtype, lambda bits: (bits >> 8) * 2.0**-24)

    def integers(self, below: int, shape: tuple[int, ...], dtype: str) -> Any:
        return self._filled(shape, dtype, lambda bits: bits % below)

    def _filled(self, shape: tuple[int, ...], dtype: str, convert: Callable[[Any], Any]) -> Any:
        import numpy as np

        array = np.empty(shape, dtype)
        flat = array.reshape(-1)
        first = 0
        for part in self._seed:
            first = (first * 0x9E3779B1 + part + 1) % (1 << 32)
        for begin in range(0, flat.size, self._AT_ONCE):
            end = min(begin + self._AT_ONCE, flat.size)
            bits = np.arange(begin, end, dtype=np.uint64).astype(np.uint32)
            bits = (bits + np.uint32(first)) * np.uint32(0x9E3779B1)
            for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
                bits ^= bits >> np.uint32(shift)
                bits *= np.uint32(factor)
            flat[begin:end] = convert(bits ^ (bits >> np.uint32(16)))
        return array


def _described_values(spec: InputSpec, random: _Mixed) -> Any:
    import numpy as np

    if spec.value is not None:
        dtype = object if spec.dtype == STRING else spec.dtype
        return np.full(spec.shape, spec.value, dtype=dtype)
    assert spec.shape is not None
    assert spec.dtype is not None
    if spec.below is not None:
        return random.integers(spec.below, spec.shape, spec.dtype)
    if spec.fill == "arange":
        return np.broadcast_to(np.arange(spec.shape[-1]), spec.shape).astype(spec.dtype)
    if spec.fill == "uniform":
        return random.fractions(spec.shape, spec.dtype)
    return np.full(spec.shape, spec.fill == "ones", dtype=spec.dtype)
