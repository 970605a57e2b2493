"""What the keys of a scenario may hold: the checks and wordings that its tables share.

A check raises ``ValueError`` with a sentence that says what is wrong and how to correct it;
:mod:`edgebench.scenario.faults` adds file, key and line.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Protocol, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
)

from edgebench.errors import UsageError
from edgebench.layers.input_specs import parse_inputs
from edgebench.layers.names import ACCELERATORS, NETWORKS, NO_ACCELERATOR
from edgebench.layers.references import CODE, FILE_KINDS, KNOWN, parse_reference, portable_text
from edgebench.safe_folders import real_path
from edgebench.text import did_you_mean, parse_duration, parse_share, parse_size
from edgebench.workloads.memory_settings import COLLECTORS
from edgebench.workloads.training.names import DATA_SETS, SCRATCH, TRAINED, checked_part

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
    """Yield a parser's error becomes a fault of the key that is read.

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
    """Checks that a text is one of some choices, and can tell them."""

    def __init__(self, noun: str, choices: Sequence[str] | Callable[[], Sequence[str]]) -> None:
        self._noun = noun
        self._choices = choices

    @property
    def choices(self) -> Sequence[str]:
        """What it may be."""
        return self._choices() if callable(self._choices) else self._choices

    def __call__(self, word: object, info: ValidationInfo) -> str:
        """Return the word itself.

        Raises:
            ValueError: it is none of them; names the nearest.
        """
        if isinstance(word, str) and word in self.choices:
            return word
        raise ValueError(f"no {self._noun} {word!r}; {_hint(str(word), self.choices)}")


class OneOfNetworks(OneOf):
    """Checks that a text is one of some networks, or a reference to another one."""

    def __call__(self, word: object, info: ValidationInfo) -> str:
        """Return the name; of a file its path, of another reference the same from any folder.

        Raises:
            ValueError: it names no network.
        """
        named = isinstance(word, str) and word not in self.choices and "\0" not in word
        # A folder may be a SavedModel, which has a way of its own.
        if not named or not (
            set(":.") & set(str(word)) or (word and Path(_folder(info), str(word)).is_dir())
        ):
            # The nearest of these choices, which may be more than the known networks.
            return super().__call__(word, info)
        with worded():
            return portable_text(parse_reference(str(word), _folder(info)))


class OneOfDataSets(OneOf):
    """Checks that a text is a data set's name, or a function of the user's own."""

    def __call__(self, word: object, info: ValidationInfo) -> str:
        """Return the name itself; of a function the same from any folder.

        Raises:
            ValueError: it is neither.
        """
        own = isinstance(word, str) and ":" in word
        return _own_code(str(word), info) if own else super().__call__(word, info)


def one_of(noun: str, choices: Sequence[str] | Callable[[], Sequence[str]]) -> Any:
    """Return a check that the text is one of the choices (given, or asked for when needed)."""
    return BeforeValidator(OneOf(noun, choices))


def _hint(word: str, known: Sequence[str]) -> str:
    if guess := did_you_mean(word, known):
        return f"did you mean {guess!r}?"
    shown = ", ".join(known[:12])
    return f"one of {shown}" + (f" … ({len(known)} in all)" if len(known) > 12 else "")


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


def as_axis(value: object) -> tuple[Any, ...]:
    """Return a list's values, or the one value."""
    return tuple(value) if isinstance(value, list) else (value,)


#: One value, or a list of them that is an axis of the matrix.
Axis = Annotated[
    tuple[T, ...],
    BeforeValidator(as_axis),
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
        hint = f"did you mean '{match[1]}{guess}'?" if match and guess else error.remedy
        raise ValueError(f"{error.what}; {hint}") from error


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


def _rate(rate: float) -> float:
    if rate > 0:
        return rate
    raise ValueError(f"{rate:g} is not a learning rate; write a number above 0, as 0.01")


def _trainable(text: str) -> str:
    """Return the text itself, unless it is a file that is only executed."""
    kind = parse_reference(text, Path()).kind if text not in TRAINED else KNOWN
    if kind in FILE_KINDS.values():
        raise ValueError(
            f"{Path(text).name} is made for execution and can't be trained; name the code that "
            f'makes the network: network = "mymodel.py:Net"'
        )
    return text


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
NetworkName = Annotated[str, BeforeValidator(OneOfNetworks("network", NETWORKS))]
#: A network that is trained: of those known by name, or the user's own.
TrainedName = Annotated[
    str, BeforeValidator(OneOfNetworks("network", TRAINED)), AfterValidator(_trainable)
]
#: What a network is called with: one input, or several by name.
InputKey = Annotated[str | dict[str, str], BeforeValidator(_checked_inputs)] | None
Checkpoint = Annotated[str, BeforeValidator(_checkpoint_path)]
#: What parameters come from: the seed, or a checkpoint.
StartName = Annotated[str, BeforeValidator(_scratch_or_checkpoint)]
#: A data set, or a function of the user's own that returns arrays.
DataName = Annotated[str, BeforeValidator(OneOfDataSets("data set", DATA_SETS))]
#: A folder whose files are looked for later.
DataFolder = Annotated[str, BeforeValidator(lambda text, info: str(scenario_path(text, info)))]
#: A loss of the user's own.
LossName = Annotated[str, AfterValidator(_own_code)]
#: One image, as text: channels, height and width.
ShapeLabel = Annotated[str, BeforeValidator(_channels_height_width)]
#: Which part is trained, as text.
PartLabel = Annotated[str, AfterValidator(checked_part)]
#: A number above 0.
LearningRate = Annotated[float, Field(le=1e6), AfterValidator(_rate)]
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


class HasProcessKeys(Protocol):
    """A table with keys of the worker's process; None leaves the process as it is."""

    malloc_trim: bool | None
    interop_threads: Threads
    huge_pages: bool | None


def process_settings(table: HasProcessKeys) -> dict[str, Any]:
    """Return what a worker is told of its process; only what is asked for."""
    found: dict[str, Any] = {"malloc_trim": True} if table.malloc_trim else {}
    if table.interop_threads is not None:
        found["interop_threads"] = table.interop_threads
    return found | ({"huge_pages": False} if table.huge_pages is False else {})


def combinations(axes: Mapping[str, Iterable[Any]]) -> Iterator[dict[str, Any]]:
    """One value of each axis, in every combination; the last axis changes fastest."""
    for values in itertools.product(*axes.values()):
        yield dict(zip(axes, values, strict=True))
