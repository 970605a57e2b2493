"""What a TorchScript program is called with: its schema names types, and has no shapes."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from edgebench.errors import UsageError, WorkloadError
from edgebench.layers.input_specs import ONLY, STRING, InputSpec, parse_inputs
from edgebench.text import choice_hint, joined_words
from edgebench.workloads.engines.file_inputs import WantedInputs

TENSOR, TENSORS = "Tensor", "List[Tensor]"
#: Types of TorchScript → how a value of theirs is described.
_VALUES = {"int": "int64", "float": "float64", "bool": "bool", "str": STRING}
#: What a person writes for an argument of each type.
_EXAMPLES = {TENSOR: "float32 1x3x224x224", "bool": "true", "str": f'{STRING} "hello"'}
_GUESSED = "its file has no shapes, so these are guesses"
#: The side of a picture where nobody describes the input.
_SIDE = 224


@dataclass(frozen=True)
class ScriptArgument:
    """One argument of ``forward``; ``kind`` is TorchScript's name of its type."""

    name: str
    kind: str
    optional: bool = False

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def script_arguments(schema: Any) -> list[ScriptArgument]:
    """The arguments of a schema, without ``self``."""
    return [
        ScriptArgument(one.name, str(one.type), one.has_default_value())
        for one in schema.arguments[1:]
    ]


def call_arguments(
    arguments: Sequence[ScriptArgument], wanted: WantedInputs, seed: int, where: str
) -> dict[str, Any]:
    """Argument → its value, the same for the same seed; a single tensor is one batch of images.

    Raises:
        WorkloadError: there is no such argument, one has another type, or nothing describes one;
            all of them in one message.
    """
    import torch

    from edgebench.layers.samples import made_value

    needed = [one for one in arguments if not one.optional]
    specs = _specs(arguments, needed, wanted, where)
    if not specs and [one.kind for one in needed] in ([TENSOR], [TENSORS]):
        side = wanted.image or _SIDE
        first = () if needed[0].kind == TENSORS else (wanted.batch,)
        specs = {needed[0].name: InputSpec("float32", (*first, 3, side, side), "uniform")}
    if lacking := [one for one in needed if one.name not in specs]:
        raise WorkloadError(
            "nothing says what its inputs are: "
            + joined_words(f"{one.name!r} is {_kind_words(one)}" for one in lacking),
            where=where,
            remedy=f"describe them: {script_example(needed)} ({_GUESSED})",
        )
    generator = torch.Generator().manual_seed(seed)
    made: dict[str, Any] = {}
    for one in arguments:
        if one.name in specs:
            value = made_value(specs[one.name], generator)
            if one.kind in (TENSOR, TENSORS, f"Optional[{TENSOR}]"):
                value = value if isinstance(value, torch.Tensor) else torch.tensor(value)
            made[one.name] = [value] if one.kind == TENSORS else value
    return made


def script_example(arguments: Sequence[ScriptArgument]) -> str:
    """How to describe arguments on the command line."""
    words = (f"{one.name}={_EXAMPLES.get(one.kind, _other_example(one))}" for one in arguments)
    return " ".join(f"--input {_quoted(text)}" for text in words)


def _other_example(one: ScriptArgument) -> str:
    return "1" if one.kind in _VALUES else _EXAMPLES[TENSOR]


def _quoted(text: str) -> str:
    return f'"{text}"' if " " in text and '"' not in text else shlex.quote(text)


def _kind_words(one: ScriptArgument) -> str:
    return "a tensor" if one.kind == TENSOR else f"of type {one.kind}"


def _specs(
    arguments: Sequence[ScriptArgument],
    needed: Sequence[ScriptArgument],
    wanted: WantedInputs,
    where: str,
) -> dict[str, InputSpec]:
    given = {} if wanted.described is None else parse_inputs(wanted.described)
    known = {one.name: one for one in arguments}
    if ONLY in given:
        if len(needed) != 1:
            names = ", ".join(one.name for one in needed)
            raise WorkloadError(
                f"it takes {len(needed)} inputs, so each needs its name: {names}",
                where=where,
                remedy=script_example(needed),
            )
        given = {needed[0].name: given[ONLY]}
    for name in given:
        if name not in known:
            what = f"its forward has no input {name!r}"
            raise WorkloadError(what, where=where, remedy=choice_hint(name, known))
    return {
        name: _checked(known[name], spec.batched(wanted.batch), where)
        for name, spec in given.items()
    }


def _checked(one: ScriptArgument, spec: InputSpec, where: str) -> InputSpec:
    """The description as a plain value where the program takes one."""
    dtype = _VALUES.get(one.kind.removeprefix("Optional[").removesuffix("]"))
    if dtype is None:
        return spec
    if spec.value is None:
        raise WorkloadError(
            f"the input {one.name!r} is {_kind_words(one)}, no tensor",
            where=where,
            remedy=script_example([one]),
        )
    try:
        return replace(spec, dtype=None, shape=None, value=spec.value_as(dtype, one.name))
    except UsageError as error:
        raise WorkloadError(error.what, where=where, remedy=error.remedy) from error


def value_words(values: Mapping[str, Any]) -> str:
    """Arguments as a message names them: types and shapes of tensors, and plain values."""
    import torch

    def words(value: Any) -> str:
        if isinstance(value, list):
            return " and ".join(map(words, value))
        if not isinstance(value, torch.Tensor):
            return f"= {value!r}"
        return f"{str(value.dtype).removeprefix('torch.')} {'x'.join(map(str, value.shape))}"

    return ", ".join(f"{name} {words(value)}" for name, value in values.items())
