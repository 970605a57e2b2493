"""Keys of a scenario: the checks that its tables share, and the faults that are reported of them.

A check raises ``ValueError`` with a sentence that says what is wrong and how to correct it. A
:class:`Fault` adds the key, and its line in the file or the flag that sets it.
"""

from __future__ import annotations

import itertools
import json
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
)
from pydantic_core import ErrorDetails

from edgebench.errors import UsageError
from edgebench.layers.input_specs import parse_inputs
from edgebench.layers.names import ACCELERATORS, NETWORKS, NO_ACCELERATOR
from edgebench.layers.references import CODE, parse_reference, portable_text
from edgebench.safe_files import real_path
from edgebench.scenario.flags import TYPED
from edgebench.text import did_you_mean, parse_duration, parse_share, parse_size
from edgebench.workloads.recorder import COLLECTORS
from edgebench.workloads.training.names import DATA_SETS, SCRATCH, checked_part

KINDS = ("inference", "command", "convolution", "training")
#: What a file with a network's parameters ends in.
CHECKPOINT_SUFFIXES = (".safetensors", ".pt", ".pth")
#: Units people mean when they write others. Sizes, shares, durations.
_SIZE_UNITS = ("K", "M", "G", "T", "KiB", "MiB", "GiB", "TiB", "kB", "MB", "GB", "TB", "%")
_TIME_UNITS = ("us", "ms", "s", "min", "h")
_UNIT = re.compile(r"^\s*([0-9.]+)\s*([A-Za-z%]+)\s*$")
_SHAPE = re.compile(r"[1-9][0-9]{0,3}(x[1-9][0-9]{0,3}){2}")
#: Not even a page table and a stack fit in less: who writes less forgot the unit.
_SMALLEST_LIMIT = 64 * 1024

T = TypeVar("T")


class TomlTable(BaseModel):
    """A TOML table: unknown keys are faults, types are what they look like, nothing changes."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def key(default: Any, *examples: str, alias: str | None = None) -> Any:
    """Return a key of a table; ``...`` is no default. Examples are written as in TOML."""
    return Field(default, alias=alias, examples=list(examples))


def tag_of(table: type[BaseModel]) -> str:
    """Return what a fault's location calls this table where a key may have several shapes."""
    return f"<{table.__name__}>"


@contextmanager
def worded() -> Iterator[None]:
    """Turn a parser's error into a fault of the key that is read.

    Raises:
        ValueError: the parser refused the value.
    """
    try:
        yield
    except UsageError as error:
        raise ValueError(f"{error.what}; {error.remedy}") from error


def _folder(info: ValidationInfo) -> Path:
    """Return the folder of the scenario's file, where relative paths start."""
    return Path((info.context or {}).get("folder", "."))


class OneOf:
    """Checks that a text is one of some choices, and can tell them.

    ``reference`` returns what a text that is none of them refers to; None: nothing.
    """

    def __init__(
        self,
        noun: str,
        choices: Sequence[str] | Callable[[], Sequence[str]],
        reference: Callable[[str, ValidationInfo], str | None] | None = None,
    ) -> None:
        self._noun, self._choices, self._reference = noun, choices, reference

    @property
    def choices(self) -> Sequence[str]:
        """What it may be."""
        return self._choices() if callable(self._choices) else self._choices

    def __call__(self, word: object, info: ValidationInfo) -> str:
        """Return the word itself, or what it refers to.

        Raises:
            ValueError: it is neither; names the nearest.
        """
        if isinstance(word, str):
            if word in self.choices:
                return word
            if self._reference and (text := self._reference(word, info)):
                return text
        raise ValueError(f"no {self._noun} {word!r}; {hint(str(word), self.choices, 'one of')}")


def network_reference(word: str, info: ValidationInfo) -> str | None:
    """Return a network that is not known by name: its file's path, or the same from any folder.

    Raises:
        ValueError: it looks like a reference, and names no network.
    """
    # A folder may be a SavedModel, which has a way of its own.
    is_path = set(":.") & set(word) or (word and Path(_folder(info), word).is_dir())
    if "\0" in word or not is_path:
        return None
    with worded():
        return portable_text(parse_reference(word, _folder(info)))


def one_of(noun: str, choices: Sequence[str] | Callable[[], Sequence[str]]) -> Any:
    """Return a check that the text is one of the choices (given, or asked for when needed)."""
    return BeforeValidator(OneOf(noun, choices))


def hint(word: str, known: Iterable[str], otherwise: str) -> str:
    """Return the name that was probably meant; else all or some, after the words ``otherwise``."""
    if guess := did_you_mean(word, names := list(known)):
        return f"did you mean {guess!r}?"
    listed = (
        f"{', '.join(names[:12])} … ({len(names)} in all)" if len(names) > 40 else ", ".join(names)
    )
    return f"{otherwise} {listed}"


def distinct(values: tuple[T, ...]) -> tuple[T, ...]:
    """Return the values themselves.

    Raises:
        ValueError: there are none, or one of them is listed twice.
    """
    if not values:
        raise ValueError("is an empty list; give at least one value, or leave the key out")
    twice = next((value for n, value in enumerate(values) if value in values[:n]), None)
    if twice is not None:
        raise ValueError(f"{twice!r} is listed twice; leave one out")
    return values


#: One value, or a list of them that is an axis of the matrix.
Axis = Annotated[
    tuple[T, ...],
    BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else (value,)),
    AfterValidator(distinct),
]


def _only_number_or_text(value: object) -> str:
    if isinstance(value, (int, float, str)) and not isinstance(value, bool):
        return str(value)
    raise ValueError(f"{value!r} is neither text in quotes nor a number")


def _parsed(parse: Callable[[str], T], text: str, units: Sequence[str]) -> T:
    """Return the text's value; an unknown unit is answered with the one that was probably meant."""
    try:
        return parse(text)
    except UsageError as error:
        match = _UNIT.match(text)
        guess = did_you_mean(match[2], units) if match and match[2] not in units else None
        words = f"did you mean '{match[1]}{guess}'?" if match and guess else error.remedy
        raise ValueError(f"{error.what}; {words}") from error


def _seconds(value: object) -> float:
    return _parsed(parse_duration, _only_number_or_text(value), _TIME_UNITS)


def _size(value: object) -> int:
    size = _parsed(parse_size, _only_number_or_text(value), _SIZE_UNITS)
    if size is None:
        raise ValueError("'max' is no size here; write it as \"2G\"")
    return size


def _limit_label(value: object) -> str:
    text = _only_number_or_text(value).strip()
    if _parsed(parse_share, text, _SIZE_UNITS) is not None:
        return text
    size = _parsed(parse_size, text, _SIZE_UNITS)
    if size is not None and size < _SMALLEST_LIMIT:
        raise ValueError(
            f'{text!r} is {size} bytes, which holds no process; did you mean "{text}M"?'
        )
    return text


def network_name(network: str) -> str:
    """Return what results call a network: a file's path is no part of it."""
    try:
        return parse_reference(network, Path()).name
    except UsageError:
        # Whoever checks it says what is wrong.
        return network


def _checked_inputs(given: object) -> object:
    """Return what a network is called with, as it was given."""
    if not isinstance(given, str) and not (
        isinstance(given, dict) and all(isinstance(text, str) for text in given.values())
    ):
        raise ValueError('write a text, "float32 1x3x224x224", or a table of names and texts')
    with worded():
        parse_inputs(given)
    return given


def scenario_path(text: object, info: ValidationInfo) -> Path:
    """Return a path of a scenario: a relative one starts at the folder of the scenario's file.

    Raises:
        ValueError: it is not a path.
    """
    if not isinstance(text, str) or not text or "\0" in text:
        raise ValueError(f"{text!r} is not a path; write it in quotes")
    return real_path(Path(_folder(info), Path(text).expanduser()))


def _checkpoint_path(text: object, info: ValidationInfo) -> str:
    """Return the path of a checkpoint that is there."""
    path = scenario_path(text, info)
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    if path.suffix not in CHECKPOINT_SUFFIXES:
        raise ValueError(f"{path.name} is not a checkpoint; it must end in .safetensors or .pt")
    return str(path)


def _scratch_or_checkpoint(text: object, info: ValidationInfo) -> str:
    if text == SCRATCH:
        return SCRATCH
    try:
        return _checkpoint_path(text, info)
    except ValueError as error:
        raise ValueError(f'{error}; or write "{SCRATCH}"') from error


def _channels_height_width(text: object) -> str:
    if isinstance(text, str) and _SHAPE.fullmatch(text):
        return text
    raise ValueError(f'{text!r} is not a shape; write channels, height and width: "3x224x224"')


def _own_code(text: str, info: ValidationInfo) -> str:
    """Return a function of the user's own, the same from any folder."""
    with worded():
        found = parse_reference(text, _folder(info)) if ":" in text else None
    if found is None or found.kind != CODE:
        raise ValueError(f'{text!r} names no function; write "file.py:function"')
    return portable_text(found)


#: Seconds, written as a duration.
Seconds = Annotated[float, BeforeValidator(_seconds)]
#: Bytes, written as a size.
Size = Annotated[int, BeforeValidator(_size)]
#: A memory limit as written: a size, a share of demand, or ``max``.
LimitLabel = Annotated[str, BeforeValidator(_limit_label)]
#: A whole number of at least one.
Count = Annotated[int, Field(ge=1)]
BatchAxis = Axis[Annotated[int, Field(ge=1, le=65536)]]
#: A network by its name, or the path of its file.
NetworkName = Annotated[str, BeforeValidator(OneOf("network", NETWORKS, network_reference))]
#: What a network is called with: one input, or several by name.
InputKey = Annotated[str | dict[str, str], BeforeValidator(_checked_inputs)] | None
Checkpoint = Annotated[str, BeforeValidator(_checkpoint_path)]
#: What parameters come from: the seed, or a checkpoint.
StartName = Annotated[str, BeforeValidator(_scratch_or_checkpoint)]
#: A data set, or a function of the user's own that returns arrays.
DataName = Annotated[
    str,
    BeforeValidator(
        OneOf(
            "data set", DATA_SETS, lambda word, info: _own_code(word, info) if ":" in word else None
        )
    ),
]
#: A folder whose files are looked for later.
DataFolder = Annotated[str, BeforeValidator(lambda text, info: str(scenario_path(text, info)))]
#: A loss of the user's own.
LossName = Annotated[str, AfterValidator(_own_code)]
#: One image, as text: channels, height and width.
ShapeLabel = Annotated[str, BeforeValidator(_channels_height_width)]
#: Which part is trained, as text.
PartLabel = Annotated[str, AfterValidator(checked_part)]
#: When Python's garbage collector runs in the worker.
CollectorAxis = Axis[Annotated[str, one_of("use of the garbage collector", COLLECTORS)]]
#: How many threads torch may use; None leaves torch's own choice.
Threads = Annotated[int, Field(ge=1, le=1024)] | None
#: Where torch computes; None: on the processor.
AcceleratorAxis = Axis[Annotated[str, one_of("accelerator", ACCELERATORS)]]


def asks_for_accelerator(accelerator: Sequence[str] | None) -> bool:
    """Whether an axis has one."""
    return any(name != NO_ACCELERATOR for name in accelerator or ())


def accelerator_settings(accelerator: Sequence[str] | None) -> Iterator[dict[str, Any]]:
    """Each value's settings; without an accelerator there are none."""
    for name in accelerator or (NO_ACCELERATOR,):
        yield {} if name == NO_ACCELERATOR else {"accelerator": name}


def process_settings(table: BaseModel) -> dict[str, Any]:
    """Return the settings of the worker's process that change it; None leaves it as it is."""
    as_it_is = {"malloc_trim": False, "interop_threads": None, "huge_pages": True}
    given = table.model_dump(include=set(as_it_is))
    return {name: value for name, value in given.items() if value not in (None, as_it_is[name])}


def combinations(axes: Mapping[str, Iterable[Any]]) -> Iterator[dict[str, Any]]:
    """One value of each axis, in every combination; the last axis changes fastest."""
    for values in itertools.product(*axes.values()):
        yield dict(zip(axes, values, strict=True))


#: pydantic's error type → what the value should have been, in words.
_SHOULD_BE = {
    "int_type": "should be a whole number",
    "int_from_float": "should be a whole number",
    "float_type": "should be a number",
    "string_type": "should be text in quotes",
    "bool_type": "should be true or false",
    "dict_type": "should be a table",
    "model_type": "should be a table",
    "model_attributes_type": "should be a table",
    "string_pattern_mismatch": "names folders: only a-z, 0-9 and '-', 64 at most",
    "finite_number": "should be a finite number",
}
#: Where a fault of several keys is: on the command line there is no such place.
_TABLES = ("the file", "workload", "limits")
_HEADER = re.compile(r"^\s*\[{1,2}\s*([^\[\]]+?)\s*\]{1,2}\s*(?:#.*)?$")
_KEY = re.compile(r"""^\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*[A-Za-z0-9_"'-]+)*)\s*=""")


@dataclass(frozen=True)
class Named:
    """A key that a sentence names; with a value, how to write it."""

    key: str
    value: object = None

    def __str__(self) -> str:
        shown = json.dumps(self.value)
        return self.key if self.value is None else f"{self.key} = {shown}"

    def typed(self, flags: Mapping[str, str]) -> str:
        """Return the same on the command line, with the flags by the keys' names."""
        if (flag := flags.get(self.key)) is None or self.value is None:
            return flag or str(self)
        values = self.value if isinstance(self.value, list) else [self.value]
        return " ".join(f"{flag} {shlex.quote(str(word))}" for word in values)


class KeysError(ValueError):
    """What is wrong with several keys together, in words and the keys that they name."""

    def __init__(self, *parts: str | Named) -> None:
        super().__init__("".join(map(str, parts)))
        self.parts = parts


def refuse_both(one: str, other: str) -> KeysError:
    """Two keys of which only one can be given."""
    return KeysError(Named(one), " and ", Named(other), " can't both be given; leave one out")


@dataclass(frozen=True)
class Fault:
    """One thing wrong. ``key`` is its path in the file, as ``limits.memory[2]``.

    ``corrected``: whether the sentence says what to write instead.
    """

    key: str
    line: int | None
    parts: tuple[str | Named, ...]
    corrected: bool

    @property
    def says(self) -> str:
        """The sentence, in the words of a file."""
        return "".join(map(str, self.parts))

    def __str__(self) -> str:
        line = f"line {self.line}, " if self.line else ""
        return f"{line}{self.key}: {self.says}"

    def typed(self, flags: Mapping[str, str] = TYPED) -> str:
        """Return the sentence with the flags that set the keys."""
        names = {key.rpartition(".")[2]: flag for key, flag in flags.items() if flag[0] == "-"}
        says = "".join(p.typed(names) if isinstance(p, Named) else p for p in self.parts)
        # Of a list's item the list's flag.
        place = flags.get(self.key.partition("[")[0], self.key)
        return says if place in _TABLES else f"{place}: {says}"


def flag_error(faults: Sequence[Fault], verb: str, flags: Mapping[str, str] = TYPED) -> UsageError:
    """Return the error in words of flags; its remedy is the help unless each says what to write."""
    remedy = None if all(fault.corrected for fault in faults) else f"edgebench {verb} --help"
    return UsageError("\n".join(fault.typed(flags) for fault in faults), remedy=remedy)


def file_error_words(faults: Sequence[Fault], path: object) -> str:
    """All faults of a file, a line each."""
    count = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
    return "\n".join([f"{count} in {path}", *(f"  {fault}" for fault in faults)])


def faults_of(error: ValidationError, model: type[BaseModel], data: Any, text: str) -> list[Fault]:
    """Every fault of a refused scenario, in the file's order."""
    lines, faults = _key_lines(text), []
    for details in error.errors(include_url=False):
        # Without tags of unions, nor the index into a lone value.
        path: list[str | int] = []
        table = data
        for part in details["loc"]:
            tag = isinstance(part, str) and part.startswith("<")
            lone = isinstance(part, int) and not isinstance(table, list)
            if tag or lone or part == "[key]":
                continue
            path.append(part)
            try:
                table = table[part]
            except (KeyError, IndexError, TypeError):
                table = None
        words = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
        # The line of the last part, or of the nearest key that holds it.
        keys = (tuple(map(str, path[:length])) for length in range(len(path), 0, -1))
        line = next((lines[key] for key in keys if key in lines), None)
        faults.append(Fault(words.lstrip(".") or "the file", line, *_says(details, model)))
    return sorted(faults, key=lambda fault: fault.line or 0)


def _says(details: ErrorDetails, model: type[BaseModel]) -> tuple[tuple[str | Named, ...], bool]:
    """Return the parts of the sentence, and whether it says what to write."""
    kind, value = details["type"], details.get("input")
    fields = _fields_of(model, details["loc"])
    name = str(details["loc"][-1]) if details["loc"] else ""
    if kind == "value_error":
        error = details["ctx"]["error"]
        return error.parts if isinstance(error, KeysError) else (str(error),), True
    if kind == "extra_forbidden":
        return (f"no such key; {hint(name, fields, 'the keys here are')}",), True
    if kind == "missing":
        wanted = f"{name} = {fields[name]}" if fields.get(name) else f"a [{name}] table"
        return (f"is missing; write {wanted}",), True
    should = _SHOULD_BE.get(kind) or details["msg"].replace("Input should", "should", 1)
    example = fields.get(next((p for p in reversed(details["loc"]) if p in fields), ""))
    return (f"{value!r} {should}" + (f"; for example {example}" if example else ""),), bool(example)


def message_of(details: ErrorDetails) -> str:
    """Return what is wrong, in the words of a check of ours, else of pydantic."""
    ours = details["type"] == "value_error"
    return str(details["ctx"]["error"] if ours else details["msg"])


def _fields_of(model: type[BaseModel], loc: Sequence[str | int]) -> dict[str, str]:
    """Return key → example of the table that holds the location's last key."""
    tables = [model]
    for part in loc[:-1]:
        # A location's part is the tag of one table of a union, or a key.
        tagged = [table for table in tables if part == tag_of(table)]
        inner = [
            held
            for table in tables
            for name, info in table.model_fields.items()
            if part == (info.alias or name)
            for held in tables_in(info.annotation)
        ]
        tables = tagged or inner or tables
    fields = [item for table in tables for item in table.model_fields.items()]
    return {info.alias or name: str((info.examples or [""])[0]) for name, info in fields}


def tables_in(annotation: Any) -> list[type[BaseModel]]:
    """Return the tables that a key of this type can hold."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [table for part in get_args(annotation) for table in tables_in(part)]


def _key_lines(text: str) -> dict[tuple[str, ...], int]:
    """Return where each key of a TOML text stands; good enough to point at, not a parser."""

    def parts(dotted: str) -> tuple[str, ...]:
        return tuple(part.strip().strip("\"'") for part in dotted.split("."))

    lines: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            table = parts(header[1])
            lines.setdefault(table, number)
        elif key := _KEY.match(line):
            lines.setdefault((*table, *parts(key[1])), number)
    return lines
