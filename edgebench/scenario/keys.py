"""What the keys of a scenario may hold: the checks and wordings that its tables share.

A check raises ``ValueError`` with a sentence that says what is wrong and how to mend it;
:mod:`edgebench.scenario.faults` adds file, key and line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from edgebench.errors import UsageError
from edgebench.suggest import did_you_mean
from edgebench.units import parse_duration, parse_share, parse_size

#: Units people mean when they write others. Sizes, shares, durations.
_SIZE_UNITS = ("K", "M", "G", "T", "KiB", "MiB", "GiB", "TiB", "kB", "MB", "GB", "TB", "%")
_TIME_UNITS = ("us", "ms", "s", "min", "h")
_UNIT = re.compile(r"^\s*([0-9.]+)\s*([A-Za-z%]+)\s*$")
#: Not even a page table and a stack fit in less: who writes less forgot the unit.
_SMALLEST_LIMIT = 64 * 1024

T = TypeVar("T")


class Table(BaseModel):
    """A TOML table: unknown keys are faults, types are what they look like, nothing changes."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def tag_of(table: type[BaseModel]) -> str:
    """What a fault's location calls this table where a key may hold one of several shapes."""
    return f"<{table.__name__}>"


class OneOf:
    """Checks that a text is one of some choices, and can tell them."""

    def __init__(self, noun: str, choices: Sequence[str] | Callable[[], Sequence[str]]) -> None:
        self._noun = noun
        self._choices = choices

    @property
    def choices(self) -> Sequence[str]:
        """What it may be."""
        return self._choices() if callable(self._choices) else self._choices

    def __call__(self, word: object) -> str:
        """The word itself.

        Raises:
            ValueError: it is none of them; names the nearest.
        """
        if isinstance(word, str) and word in self.choices:
            return word
        raise ValueError(f"no {self._noun} {word!r}; {_hint(str(word), self.choices)}")


def one_of(noun: str, choices: Sequence[str] | Callable[[], Sequence[str]]) -> Any:
    """A check that the text is one of the choices (given, or asked for when needed)."""
    return BeforeValidator(OneOf(noun, choices))


def _hint(word: str, known: Sequence[str]) -> str:
    if guess := did_you_mean(word, known):
        return f"did you mean {guess!r}?"
    shown = ", ".join(known[:12])
    return f"one of {shown}" + (f" … ({len(known)} in all)" if len(known) > 12 else "")


def _as_tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else (value,)


def distinct(values: tuple[T, ...]) -> tuple[T, ...]:
    """The values themselves.

    Raises:
        ValueError: there are none, or one of them stands there twice.
    """
    if not values:
        raise ValueError("is an empty list; give at least one value, or leave the key out")
    twice = next((value for n, value in enumerate(values) if value in values[:n]), None)
    if twice is not None:
        raise ValueError(f"{twice!r} stands there twice; leave one out")
    return values


#: One value, or a list of them that is an axis of the matrix.
Axis = Annotated[tuple[T, ...], BeforeValidator(_as_tuple), AfterValidator(distinct)]


def _only_number_or_text(value: object) -> str:
    if isinstance(value, (int, float, str)) and not isinstance(value, bool):
        return str(value)
    raise ValueError(f"{value!r} is neither text in quotes nor a number")


def _worded(error: UsageError, text: str, units: Sequence[str]) -> ValueError:
    match = _UNIT.match(text)
    guess = did_you_mean(match[2], units) if match and match[2] not in units else None
    hint = f"did you mean '{match[1]}{guess}'?" if match and guess else error.remedy
    return ValueError(f"{error.what}; {hint}")


def _seconds(value: object) -> float:
    text = _only_number_or_text(value)
    try:
        return parse_duration(text)
    except UsageError as error:
        raise _worded(error, text, _TIME_UNITS) from error


def _size(value: object) -> int:
    text = _only_number_or_text(value)
    try:
        size = parse_size(text)
    except UsageError as error:
        raise _worded(error, text, _SIZE_UNITS) from error
    if size is None:
        raise ValueError("'max' is no size here; write it as \"2G\"")
    return size


def _limit_label(value: object) -> str:
    text = _only_number_or_text(value).strip()
    try:
        if parse_share(text) is not None:
            return text
        size = parse_size(text)
    except UsageError as error:
        raise _worded(error, text, _SIZE_UNITS) from error
    if size is not None and size < _SMALLEST_LIMIT:
        raise ValueError(
            f'{text!r} is {size} bytes, which holds no process; did you mean "{text}M"?'
        )
    return text


#: Seconds, written as a duration.
Seconds = Annotated[float, BeforeValidator(_seconds)]
#: Bytes, written as a size.
Size = Annotated[int, BeforeValidator(_size)]
#: A memory limit as written: a size, a share of demand, or ``max``.
LimitLabel = Annotated[str, BeforeValidator(_limit_label)]
#: A whole number of at least one.
Count = Annotated[int, Field(ge=1)]
