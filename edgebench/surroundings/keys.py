"""The ``[around]`` table of a scenario: what goes on around its trials, outside their cgroups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import Field, ValidatorFunctionWrapHandler, WrapValidator

from edgebench.scenario.keys import Axis, Seconds, Size, Table
from edgebench.surroundings.around import BACKGROUND, INTERVALS


def _none_or_size(value: object, size: ValidatorFunctionWrapHandler) -> Any:
    return 0 if value == "none" else size(value)


class Surroundings(Table):
    """A neighbour that takes and gives back memory, and how often the system's is read."""

    background: Axis[Annotated[Size, WrapValidator(_none_or_size)]] = Field(
        default=(0,), examples=['["none", "512M"]']
    )
    system_intervals_s: Axis[Annotated[Seconds, Field(ge=0.01, le=3600)]] | None = Field(
        default=None, alias="system_memory", examples=['["5s", "100ms"]']
    )

    def settings(self) -> Iterator[dict[str, Any]]:
        """What each value of its axis adds to a point's settings; nothing where none is asked."""
        reads = {INTERVALS: list(self.system_intervals_s)} if self.system_intervals_s else {}
        for size in self.background:
            quiet = size == 0 and len(self.background) == 1
            yield reads if quiet else {**reads, BACKGROUND: size}
