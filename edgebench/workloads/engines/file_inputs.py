"""Inputs of a network in a file, from the file's own description: names, types, shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from edgebench.errors import WorkloadError
from edgebench.layers.input_specs import ONLY, InputSpec, parse_inputs
from edgebench.text import choice_hint

#: Whole numbers are below this one: as an index each finds something, as a mask each is valid.
_INTEGERS_BELOW = 2
#: Dimensions of a picture.
_PICTURE_DIMENSIONS = 4


@dataclass(frozen=True)
class FileInput:
    """One input; ``dtype`` is numpy's name of its type.

    A dimension is a size, or a name or None where it is dynamic.
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
                    remedy=f"it has {', '.join(known)}: {_example(inputs[0])}",
                )
            given = {inputs[0].name: given[ONLY]}
        for name in given:
            if name not in known:
                what = f"the file has no input {name!r}"
                raise WorkloadError(what, where=where, remedy=choice_hint(name, known))
        found = {name: spec.batched(self.batch) for name, spec in given.items()}
        for name, spec in found.items():
            _check_spec(known[name], spec, where)
        return found


def _check_spec(one: FileInput, spec: InputSpec, where: str) -> None:
    """Check that the file takes an input as it is described."""
    fits = len(spec.shape) == len(one.shape) and all(
        not isinstance(own, int) or own == size
        for own, size in zip(one.shape, spec.shape, strict=True)
    )
    if fits and spec.dtype == one.dtype:
        return
    asked = f"{spec.dtype} {'x'.join(map(str, spec.shape))}"
    own = f"{one.dtype} {'x'.join('?' if size is None else str(size) for size in one.shape)}"
    raise WorkloadError(
        f"the input {one.name!r} of the file is {own}, not {asked}",
        where=where,
        remedy=f"describe it as the file has it: {_example(one)}",
    )


def _example(one: FileInput) -> str:
    """How to describe an input on the command line."""
    sizes = [1 if place == 0 else 128 for place in range(len(one.shape))]
    shape = [
        own if isinstance(own, int) else size for own, size in zip(one.shape, sizes, strict=True)
    ]
    values = "" if one.dtype.startswith("float") else " zeros" if one.dtype == "bool" else " <1000"
    return f'--input "{one.name}={one.dtype} {"x".join(map(str, shape))}{values}"'


def concrete_shapes(
    inputs: Sequence[FileInput], wanted: WantedInputs, where: str
) -> dict[str, tuple[int, ...]]:
    """Input → its shape: as described, else ``batch`` and ``image`` fill dynamic dimensions.

    Raises:
        WorkloadError: the file has another size there, or a dimension that nothing fills.
    """
    specs, batch = wanted.specs(inputs, where), wanted.batch
    found = {
        one.name: specs[one.name].shape if one.name in specs else _filled(one, wanted, where)
        for one in inputs
    }
    if not specs and batch != 1 and not any(one.shape and one.shape[0] == batch for one in inputs):
        dynamic = [one for one in inputs if one.shape and not isinstance(one.shape[0], int)]
        if not dynamic:
            fixed = next((one.shape[0] for one in inputs if one.shape), 1)
            raise WorkloadError(
                f"a batch of {batch} does not match the file: its inputs have a fixed batch of "
                f"{fixed}",
                where=where,
                remedy="leave batch out, or export the network with a dynamic batch dimension",
            )
    return found


def _sides(one: FileInput) -> tuple[int, ...]:
    """The places of a picture's sides: the last two, or those before its channels."""
    if len(one.shape) != _PICTURE_DIMENSIONS:
        return ()
    channels_last = isinstance(one.shape[3], int) and not isinstance(one.shape[1], int)
    return (1, 2) if channels_last else (2, 3)


def _filled(one: FileInput, wanted: WantedInputs, where: str) -> tuple[int, ...]:
    shape: list[int] = []
    for place, size in enumerate(one.shape):
        side = place in _sides(one)
        if isinstance(size, int):
            shape.append(size)
        elif place == 0:
            shape.append(wanted.batch)
        elif side and wanted.image is not None:
            shape.append(wanted.image)
        else:
            raise WorkloadError(
                f"dimension {size or place} of the input {one.name!r} is dynamic, and nothing says "
                "how large it is",
                where=where,
                remedy=f"describe it: {_example(one)}{'; or --image 224' if side else ''}",
            )
    return tuple(shape)


def make_inputs(
    inputs: Sequence[FileInput], wanted: WantedInputs, seed: int, where: str
) -> dict[str, Any]:
    """Input → an array as it is described, the same for the same seed.

    Of others fractions lie between 0 and 1, whole numbers are 0 or 1.

    Raises:
        WorkloadError: an input of a type that can't be made up, as text.
    """
    import numpy as np

    shapes, specs = concrete_shapes(inputs, wanted, where), wanted.specs(inputs, where)
    made: dict[str, Any] = {}
    for number, one in enumerate(inputs):
        random = np.random.default_rng((seed, number))
        shape = shapes[one.name]
        kind = np.dtype(one.dtype).kind if one.dtype != "object" else "O"
        if one.name in specs:
            made[one.name] = _described_values(specs[one.name], random)
        elif kind == "f":
            made[one.name] = random.random(shape, dtype=np.float32).astype(one.dtype)
        elif kind in "iub":
            made[one.name] = random.integers(0, _INTEGERS_BELOW, shape).astype(one.dtype)
        else:
            raise WorkloadError(
                f"the input {one.name!r} is of a type that can't be made up: {one.dtype}",
                where=where,
                remedy="export the network without the part that reads it",
            )
    return made


def _described_values(spec: InputSpec, random: Any) -> Any:
    """An array as a person described it."""
    import numpy as np

    if spec.below is not None:
        return random.integers(0, spec.below, spec.shape).astype(spec.dtype)
    if spec.fill == "arange":
        return np.broadcast_to(np.arange(spec.shape[-1]), spec.shape).astype(spec.dtype)
    if spec.fill == "uniform":
        return random.random(spec.shape, dtype=np.float32).astype(spec.dtype)
    if spec.fill == "normal":
        return random.standard_normal(spec.shape, dtype=np.float32).astype(spec.dtype)
    return np.full(spec.shape, spec.fill == "ones", dtype=spec.dtype)
