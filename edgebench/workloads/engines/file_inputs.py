"""Inputs of a network in a file, from the file's own description: names, types, shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from edgebench.errors import UsageError, WorkloadError
from edgebench.layers.input_specs import ONLY, STRING, InputSpec, parse_inputs
from edgebench.text import choice_hint, joined_words

#: Whole numbers are below this one: as an index each finds something, as a mask each is valid.
_INTEGERS_BELOW = 2
#: Dimensions of a picture.
_PICTURE_DIMENSIONS = 4
#: What an example has for a size that nothing tells; an axis of the batch, and a picture's side.
_GUESS, _ONE, _SIDE = 128, 1, 224
#: Names, and parts of names, by which the first axis is the batch's, or a length instead.
_BATCHES, _LENGTHS = ("n", "b", "bs"), ("seq", "len", "time", "token", "frame", "step", "word")
#: Names that exporters give to any axis: two axes with one of them need not be alike.
_NO_NAMES = ("", "?", "None")
GUESSED = f"{_GUESS} is a guess, and some networks take other sizes alone"


@dataclass(frozen=True)
class FileInput:
    """One input; ``dtype`` is numpy's name of its type, or ``string``.

    A dimension is a size, or a name or None where it is dynamic; dimensions with the same name have
    the same size.
    """

    name: str
    dtype: str
    shape: tuple[int | str | None, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> FileInput:
        """What :meth:`to_json` made."""
        return cls(data["name"], data["dtype"], tuple(data["shape"]))


@dataclass(frozen=True)
class WantedInputs:
    """What the inputs shall be: as described in ``described``, as a scenario's ``input`` has them.

    Of other inputs ``batch`` and ``image`` fill dynamic dimensions.
    """

    batch: int = 1
    image: int | None = None
    described: str | Mapping[str, str] | None = None

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> WantedInputs:
        """Those of a workload's settings, or of a request to prepare it."""
        return cls(settings["batch"], settings.get("image"), settings.get("input"))

    def specs(self, inputs: Sequence[FileInput], where: str) -> dict[str, InputSpec]:
        """Input → its description, for as many as have one; the batch is in the shapes.

        Raises:
            WorkloadError: the file has no such input, or one of another type or size.
        """
        given = {} if self.described is None else parse_inputs(self.described)
        known = {one.name: one for one in inputs}
        if ONLY in given:
            if len(inputs) != 1:
                raise WorkloadError(
                    f"the file has {len(inputs)} inputs, so each needs its name",
                    where=where,
                    remedy=f"it has {', '.join(known)}: {example_of(inputs)}",
                )
            given = {inputs[0].name: given[ONLY]}
        for name in given:
            if name not in known:
                what = f"the file has no input {name!r}"
                raise WorkloadError(what, where=where, remedy=choice_hint(name, known))
        found = {name: spec.batched(self.batch) for name, spec in given.items()}
        return {name: _checked_spec(known[name], spec, where) for name, spec in found.items()}


def _checked_spec(one: FileInput, spec: InputSpec, where: str) -> InputSpec:
    """The description with the file's own type, which takes such an input."""
    dtype = spec.dtype or one.dtype
    fits = dtype == one.dtype and (
        spec.shape is None
        or (
            len(spec.shape) == len(one.shape)
            and all(
                not isinstance(own, int) or own == size
                for own, size in zip(one.shape, spec.shape, strict=True)
            )
        )
    )
    if not fits:
        shape = "" if spec.shape is None else f" {'x'.join(map(str, spec.shape))}"
        raise WorkloadError(
            f"the input {one.name!r} of the file is {_words_of(one)}, not {dtype}{shape}",
            where=where,
            remedy=f"describe it as the file has it: {example_of([one])}",
        )
    if spec.value is not None:
        try:
            spec = replace(spec, value=spec.value_as(dtype, one.name))
        except UsageError as error:
            raise WorkloadError(error.what, where=where, remedy=error.remedy) from error
    return replace(spec, dtype=dtype)


def _words_of(one: FileInput) -> str:
    sizes = ["?" if size is None else str(size) for size in one.shape]
    shape = (" x " if any(isinstance(size, str) for size in one.shape) else "x").join(sizes)
    return f"{one.dtype} {shape}" if one.shape else f"{one.dtype}, a single value"


def example_of(inputs: Sequence[FileInput]) -> str:
    """How to describe inputs on the command line; sizes that nothing tells are guessed."""
    return " ".join(f"--input {_quoted(f'{one.name}={_example(one)}')}" for one in inputs)


def _quoted(text: str) -> str:
    # Double quotes are easier to change, and "<" needs some.
    plain = not set(text) & set('"$`\\!')
    # Lazy: no trial needs it.
    from shlex import quote

    return f'"{text}"' if plain and " " in text else quote(text)


def _example(one: FileInput) -> str:
    if one.dtype == STRING:
        return f'{STRING} "hello"'
    if not one.shape:
        return "true" if one.dtype == "bool" else "1"
    shape = "x".join(str(_guess(one, place)) for place in range(len(one.shape)))
    values = "" if "float" in one.dtype else " zeros" if one.dtype == "bool" else " <1000"
    return f"{one.dtype} {shape}{values}"


def _guess(one: FileInput, place: int) -> int:
    size = one.shape[place]
    if isinstance(size, int):
        return size
    if _is_batch(one, place, alone=True):
        return _ONE
    return _SIDE if (size or "").lower().startswith(("height", "width")) else _GUESS


def _is_batch(one: FileInput, place: int, *, alone: bool) -> bool:
    """Whether a dynamic dimension is the batch's: by its name, or as the first of an input.

    Not where it may as well be a length: by its name, or where it is the file's only dimension
    (``alone``: no other input has any).
    """
    name = str(one.shape[place] or "").lower()
    if "batch" in name:
        return True
    if place or any(part in name for part in _LENGTHS):
        return False
    return len(one.shape) > 1 or not alone or name in _BATCHES or one.dtype == STRING


def _is_alone(inputs: Sequence[FileInput]) -> bool:
    return sum(bool(one.shape) for one in inputs) == 1


def concrete_shapes(
    inputs: Sequence[FileInput], wanted: WantedInputs, where: str
) -> dict[str, tuple[int, ...]]:
    """Input → its shape: as described, else ``batch`` and ``image`` fill dynamic dimensions.

    What may be a length is not filled. A dimension whose name has a size in another input has that
    size.

    Raises:
        WorkloadError: the file has another size there; or inputs that nothing describes, all of
            them in one message.
    """
    specs, batch = wanted.specs(inputs, where), wanted.batch
    named = _named_sizes(inputs, specs, wanted)
    alone = _is_alone(inputs)
    found = {
        one.name: _filled(one, specs.get(one.name), wanted, named, alone=alone) for one in inputs
    }
    lacking = [
        one
        for one in inputs
        if None in found[one.name] or (one.dtype == STRING and one.name not in specs)
    ]
    if lacking:
        raise _undescribed(inputs, lacking, found, where)
    if not specs and batch != 1 and not any(one.shape and one.shape[0] == batch for one in inputs):
        dynamic = (
            not isinstance(size, int) and _is_batch(one, place, alone=alone)
            for one in inputs
            for place, size in enumerate(one.shape)
        )
        if not any(dynamic):
            fixed = next((one.shape[0] for one in inputs if one.shape), 1)
            raise WorkloadError(
                f"a batch of {batch} does not match the file: its inputs have a fixed batch of "
                f"{fixed}",
                where=where,
                remedy="leave batch out, or export the network with a dynamic batch dimension",
            )
    return {name: tuple(size or 0 for size in shape) for name, shape in found.items()}


_Sizes = tuple[int | None, ...]


def _named_sizes(
    inputs: Sequence[FileInput], specs: Mapping[str, InputSpec], wanted: WantedInputs
) -> dict[str, int]:
    """Name of a dimension → its size, as a description or the batch tells it."""
    found: dict[str, int] = {}
    for one in inputs:
        spec = specs.get(one.name)
        told = spec.shape if spec and spec.shape else ()
        found.update((n, s) for n, s in zip(one.shape, told, strict=False) if isinstance(n, str))
    for one in inputs:
        if (
            one.shape
            and isinstance(one.shape[0], str)
            and _is_batch(one, 0, alone=_is_alone(inputs))
        ):
            found.setdefault(one.shape[0], wanted.batch)
    return {name: size for name, size in found.items() if name not in _NO_NAMES}


def _undescribed(
    inputs: Sequence[FileInput],
    lacking: Sequence[FileInput],
    found: Mapping[str, _Sizes],
    where: str,
) -> WorkloadError:
    """One message for all inputs of which something is not known, with a line to try."""
    texts = [f"{one.name!r} takes text" for one in lacking if one.dtype == STRING]
    sizes = [f"{one.name!r} is {_words_of(one)}" for one in lacking if None in found[one.name]]
    # A number of which the file tells no value is a setting, as a sampling rate.
    settings = [one for one in inputs if not one.shape and one not in lacking]
    wanted = [one for one in inputs if one in lacking or one in settings]
    guessed = any(
        size is None and _guess(one, place) == _GUESS
        for one in lacking
        for place, size in enumerate(found[one.name])
    )
    pictures = any(None in found[one.name] and _sides(one) for one in lacking)
    return WorkloadError(
        f"nothing says what its inputs are: {joined_words([*sizes, *texts])}",
        where=where,
        remedy=f"describe them: {example_of(wanted)}"
        + ("; or --image 224" if pictures else "")
        + (f" ({GUESSED})" if guessed else ""),
    )


def _sides(one: FileInput) -> tuple[int, ...]:
    """The places of a picture's sides: the last two, or those before its channels."""
    if len(one.shape) != _PICTURE_DIMENSIONS:
        return ()
    channels_last = isinstance(one.shape[3], int) and not isinstance(one.shape[1], int)
    return (1, 2) if channels_last else (2, 3)


def _filled(
    one: FileInput,
    spec: InputSpec | None,
    wanted: WantedInputs,
    named: Mapping[str, int],
    *,
    alone: bool,
) -> _Sizes:
    """Its sizes; None where nothing tells one."""
    if spec and spec.shape is not None:
        return spec.shape
    shape: list[int | None] = []
    for place, size in enumerate(one.shape):
        if isinstance(size, int):
            shape.append(size)
        elif size is not None and size in named:
            shape.append(named[size])
        elif _is_batch(one, place, alone=alone):
            shape.append(wanted.batch)
        else:
            shape.append(wanted.image if place in _sides(one) else None)
    return tuple(shape)


def rests_on_description(inputs: Sequence[FileInput], wanted: WantedInputs) -> bool:
    """Whether a person's words or a guess fill inputs, so that a file may refuse them."""
    alone = _is_alone(inputs)
    dynamic = any(
        not isinstance(size, int) and not (place == 0 and _is_batch(one, 0, alone=alone))
        for one in inputs
        for place, size in enumerate(one.shape)
    )
    return dynamic or wanted.described is not None


def refused_inputs(
    engine: str, reason: str, values: Mapping[str, Any], inputs: Sequence[FileInput], where: str
) -> WorkloadError:
    """The error for a file that its engine can't execute with these inputs: in its own words."""
    given = ", ".join(f"{name} {_value_words(value)}" for name, value in values.items())
    described = joined_words(f"{one.name} ({_words_of(one)})" for one in inputs)
    several = "inputs are" if len(inputs) > 1 else "input is"
    setting = next((one.name for one in inputs if not one.shape and "int" in one.dtype), "")
    return WorkloadError(
        f"{engine} can't execute it with {given}: {reason}",
        where=where,
        remedy=f"try another --input: in the file its {several} {described}"
        + (f"; a number is set so: --input {_quoted(f'{setting}=16000')}" if setting else ""),
    )


def _value_words(value: Any) -> str:
    shape = "x".join(map(str, value.shape))
    if not shape:
        return f"= {value}"
    return f"{value.dtype if value.dtype != object else STRING} {shape}"


def make_inputs(
    inputs: Sequence[FileInput], wanted: WantedInputs, seed: int, where: str
) -> dict[str, Any]:
    """Input → an array as it is described, the same for the same seed.

    Of others fractions lie between 0 and 1, whole numbers are 0 or 1.

    Raises:
        WorkloadError: an input of a type that can't be made up.
    """
    shapes, specs = concrete_shapes(inputs, wanted, where), wanted.specs(inputs, where)
    made: dict[str, Any] = {}
    for number, one in enumerate(inputs):
        random = _Mixed(seed, number)
        shape = shapes[one.name]
        if one.name in specs:
            spec = replace(specs[one.name], shape=shape)
            made[one.name] = _described_values(spec, random)
        elif "float" in one.dtype:
            made[one.name] = random.fractions(shape, one.dtype)
        elif "int" in one.dtype or one.dtype == "bool":
            made[one.name] = random.integers(_INTEGERS_BELOW, shape, one.dtype)
        else:
            raise WorkloadError(
                f"the input {one.name!r} is of a type that can't be made up: {one.dtype}",
                where=where,
                remedy="measure the program that feeds it: edgebench minimum -- python3 infer.py",
            )
    return made


class _Mixed:
    """Even numbers, the same for the same seed; NumPy's own generators take 2 MiB.

    A plain program need not have them. A bit mixer makes the n-th number of n.
    """

    #: So many numbers are made at a time: more would be memory beside the input.
    _AT_ONCE = 1 << 14

    def __init__(self, *seed: int) -> None:
        self.seed = seed

    def fractions(self, shape: tuple[int, ...], dtype: str) -> Any:
        """From 0 to 1."""
        return self._filled(shape, dtype, lambda bits: (bits >> 8) * 2.0**-24)

    def integers(self, below: int, shape: tuple[int, ...], dtype: str) -> Any:
        """From 0 up to ``below``."""
        return self._filled(shape, dtype, lambda bits: bits % below)

    def _filled(self, shape: tuple[int, ...], dtype: str, convert: Callable[[Any], Any]) -> Any:
        import numpy as np

        made = np.empty(shape, dtype)
        flat = made.reshape(-1)
        first = 0
        for part in self.seed:
            first = (first * 0x9E3779B1 + part + 1) % (1 << 32)
        for begin in range(0, flat.size, self._AT_ONCE):
            end = min(begin + self._AT_ONCE, flat.size)
            bits = np.arange(begin, end, dtype=np.uint64).astype(np.uint32)
            bits = (bits + np.uint32(first)) * np.uint32(0x9E3779B1)
            for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
                bits ^= bits >> np.uint32(shift)
                bits *= np.uint32(factor)
            flat[begin:end] = convert(bits ^ (bits >> np.uint32(16)))
        return made


def _described_values(spec: InputSpec, random: _Mixed) -> Any:
    """An array as a person described it."""
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
    if spec.fill == "normal":
        numbers = np.random.default_rng(random.seed)
        return numbers.standard_normal(spec.shape, dtype=np.float32).astype(spec.dtype)
    return np.full(spec.shape, spec.fill == "ones", dtype=spec.dtype)
