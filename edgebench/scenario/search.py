"""The ``[search]`` table of a scenario: settings of its workload drawn at random, seeded."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import BaseModel, Discriminator, Field, Tag, ValidationError, model_validator

from edgebench.scenario.faults import message_of
from edgebench.scenario.keys import Count, TomlTable, key, one_of, tag_of
from edgebench.text import did_you_mean

if TYPE_CHECKING:
    from typing_extensions import Self

SCALES = ("linear", "log")
WorkloadT = TypeVar("WorkloadT", bound=BaseModel)


class Range(TomlTable):
    """Any number between two; a whole one if both are whole.

    Args:
        low: smallest number; with a whole ``low`` and ``high``, whole numbers are drawn.
        high: largest number.
        scale: ``log``: each order of magnitude is equally likely.
    """

    low: int | float = key(..., "0.0001")
    high: int | float = key(..., "0.1")
    scale: Annotated[str, one_of("scale", SCALES)] = key("linear", '"log"')

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.low >= self.high:
            raise ValueError(f"low {self.low:g} is not below high {self.high:g}; exchange them")
        if self.scale == "log" and self.low <= 0:
            raise ValueError(f"low {self.low:g} has no logarithm; start above 0, or scale linear")
        return self

    def draw(self, chance: random.Random) -> int | float:
        """One number, each as likely as any other on its scale."""
        whole = isinstance(self.low, int) and isinstance(self.high, int)
        if whole and self.scale == "linear":
            return chance.randint(int(self.low), int(self.high))
        if self.scale == "linear":
            return chance.uniform(self.low, self.high)
        value = math.exp(chance.uniform(math.log(self.low), math.log(self.high)))
        return round(value) if whole else value


class Choices(TomlTable):
    """One of these values, each as likely as any other.

    Args:
        choices: values, each as likely as any other.
    """

    choices: tuple[Any, ...] = key(..., '["sgd", "adam"]')

    @model_validator(mode="before")
    @classmethod
    def _as_tuple(cls, table: Any) -> Any:
        chosen = table.get("choices") if isinstance(table, dict) else None
        if isinstance(chosen, list) and not chosen:
            raise ValueError("is an empty list; give at least one value")
        return {**table, "choices": tuple(chosen)} if isinstance(chosen, list) else table

    def draw(self, chance: random.Random) -> Any:
        """One of them."""
        return chance.choice(self.choices)


def _by_shape(table: Any) -> str:
    chosen = "choices" in table if isinstance(table, dict) else isinstance(table, Choices)
    return tag_of(Choices if chosen else Range)


Drawn = Annotated[
    Annotated[Range, Tag(tag_of(Range))] | Annotated[Choices, Tag(tag_of(Choices))],
    Discriminator(_by_shape),
]


class Search(TomlTable):
    """So many random draws of these settings; each draw's settings are points like any other.

    Args:
        draws: number of draws.
        axes: key of the workload → its range, or its choices.
    """

    draws: Annotated[Count, Field(le=10_000)] = key(..., "11")
    axes: Annotated[dict[str, Drawn], Field(min_length=1)] = key(
        ..., '{batch = {low = 16, high = 256, scale = "log"}}'
    )

    def workloads(self, workload: WorkloadT, seed: int) -> Iterator[WorkloadT]:
        """Yield the workload as each draw has it: the same ones from the same seed.

        Raises:
            ValueError: it has no such key, or a value that was drawn is none for its key.
        """
        self._check_keys(workload)
        chance = random.Random(seed)
        given = workload.model_dump(mode="json", by_alias=True, exclude_unset=True)
        for _ in range(self.draws):
            drawn = {key: axis.draw(chance) for key, axis in self.axes.items()}
            try:
                yield type(workload).model_validate({**given, **drawn})
            except ValidationError as error:
                says = message_of(error.errors(include_url=False)[0])
                words = ", ".join(f"{key} = {value!r}" for key, value in drawn.items())
                raise ValueError(f"with {words}: {says}") from None

    def _check_keys(self, workload: BaseModel) -> None:
        known = [info.alias or name for name, info in type(workload).model_fields.items()]
        for name in self.axes:
            if name not in known:
                guess = did_you_mean(name, known)
                hint = f"did you mean {guess!r}?" if guess else f"it has {', '.join(known)}"
                raise ValueError(f"the workload has no key {name!r} to draw; {hint}")
