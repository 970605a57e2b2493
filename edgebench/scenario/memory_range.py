"""Many memory limits as a range: ``{from = "100%", to = "25%", steps = 6}``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, model_validator

from edgebench.scenario.keys import LimitLabel, TomlTable, one_of
from edgebench.units import MIB, parse_share, parse_size

if TYPE_CHECKING:
    from typing_extensions import Self

SPACINGS = ("log", "linear")


class MemoryRange(TomlTable):
    """Limits from one to another, all sizes or all shares: ``{from = "100%", to = "25%", …}``."""

    start: LimitLabel = Field(alias="from", examples=['"100%"'])
    stop: LimitLabel = Field(alias="to", examples=['"25%"'])
    steps: Annotated[int, Field(ge=2, le=100)] = Field(examples=["6"])
    spacing: Annotated[str, one_of("spacing", SPACINGS)] = Field(default="log", examples=['"log"'])

    @model_validator(mode="after")
    def _ends_fit(self) -> Self:
        if "max" in (self.start, self.stop):
            raise ValueError(
                'a range goes from one size or share to another; "max" is always added'
            )
        if (parse_share(self.start) is None) != (parse_share(self.stop) is None):
            raise ValueError("from and to must both be sizes or both be shares")
        if self._number(self.start) == self._number(self.stop):
            raise ValueError("from and to are the same limit; give two that differ")
        labels = self.labels()
        if len(set(labels)) < len(labels):
            raise ValueError(f"{self.steps} steps lie too close together; ask for fewer steps")
        return self

    @staticmethod
    def _number(label: str) -> float:
        share = parse_share(label)
        return share if share is not None else float(parse_size(label) or 0)

    def labels(self) -> tuple[str, ...]:
        """Every limit of the range, ends included, as a scenario would write it."""
        first, last = self._number(self.start), self._number(self.stop)
        parts = [n / (self.steps - 1) for n in range(self.steps)]
        if self.spacing == "log":
            values = [first * math.exp(part * math.log(last / first)) for part in parts]
        else:
            values = [first + part * (last - first) for part in parts]
        inner = [self._label(value) for value in values[1:-1]]
        return (self.start, *inner, self.stop)

    def _label(self, value: float) -> str:
        if parse_share(self.start) is not None:
            return f"{value * 100:.1f}".removesuffix(".0") + "%"
        if value >= 16 * MIB:
            return f"{round(value / MIB)}M"
        # Small limits step by 64 KiB, the largest page that Linux machines use.
        return f"{round(value / 65536) * 64}K"
