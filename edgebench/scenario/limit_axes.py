"""The ``[limits]`` table of a scenario: every axis of limits, expanded."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator

from edgebench.choices import SWAP_KINDS
from edgebench.records.records import LimitSetting
from edgebench.scenario.keys import Axis, Count, LimitLabel, Size, Table, distinct, one_of, tag_of
from edgebench.units import parse_share, parse_size

if TYPE_CHECKING:
    from typing_extensions import Self

MIB = 1024**2
#: Kinds of swap that are made for a sweep, so somebody must say how large.
_SIZED_SWAP = ("file", "zram")
SPACINGS = ("log", "linear")
PLANS = ("grid", "adaptive")
#: How well an adaptive plan wants to know slowdown, where a scenario doesn't say.
TARGET_ERROR = 0.05


def _by_shape(value: object) -> str:
    return tag_of(MemoryRange) if isinstance(value, (dict, MemoryRange)) else "<list>"


def _distinct_limits(labels: tuple[str, ...]) -> tuple[str, ...]:
    distinct(labels)
    seen: dict[object, str] = {}
    for label in labels:
        meaning = parse_share(label), parse_size(label) if parse_share(label) is None else None
        if meaning in seen:
            raise ValueError(f"{seen[meaning]!r} and {label!r} are the same limit; leave one out")
        seen[meaning] = label
    return labels


class MemoryRange(Table):
    """Limits from one to another, all sizes or all shares: ``{from = "100%", to = "25%", …}``."""

    start: LimitLabel = Field(alias="from", examples=['"100%"'])
    stop: LimitLabel = Field(alias="to", examples=['"25%"'])
    steps: Annotated[int, Field(ge=2, le=100)] = Field(examples=["6"])
    spacing: Annotated[str, one_of("spacing", SPACINGS)] = Field(default="log", examples=['"log"'])

    @model_validator(mode="after")
    def _ends_fit(self) -> Self:
        if "max" in (self.start, self.stop):
            raise ValueError('a range runs between sizes or shares; "max" is added by itself')
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


class Swap(Table):
    """Which swap a trial may use; several kinds are an axis."""

    kind: Axis[Annotated[str, one_of("swap kind", SWAP_KINDS)]] = Field(
        examples=['"file"', '["none", "file"]']
    )
    size: Size | None = Field(default=None, examples=['"2G"'])

    @model_validator(mode="after")
    def _sized(self) -> Self:
        kinds = [kind for kind in self.kind if kind in _SIZED_SWAP]
        if kinds and self.size is None:
            raise ValueError(
                f"swap of kind {kinds[0]!r} needs a size; "
                f'write {{kind = "{kinds[0]}", size = "2G"}}'
            )
        if self.size is not None and not kinds:
            raise ValueError(f"a size means nothing to swap of kind {self.kind[0]!r}; leave it out")
        return self

    def settings(self) -> list[tuple[str, int | None]]:
        """Kind and bytes of each value of the axis."""
        return [(kind, self.size if kind in _SIZED_SWAP else None) for kind in self.kind]


def _swap_in_short(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if value in _SIZED_SWAP:
        raise ValueError(f'how large? write {{kind = "{value}", size = "2G"}}')
    if value in SWAP_KINDS:
        return {"kind": value}
    if value[:1].isdigit():
        return {"kind": "file", "size": value}
    raise ValueError(
        f'{value!r} is no swap; write "2G" (a temporary swap file), "none", "system" '
        'or {kind = "zram", size = "2G"}'
    )


MemoryAxis = Annotated[
    Annotated[MemoryRange, Tag(tag_of(MemoryRange))]
    | Annotated[Axis[LimitLabel], AfterValidator(_distinct_limits), Tag("<list>")],
    Discriminator(_by_shape),
]


class LimitAxes(Table):
    """Memory, swap and CPU limits; every combination is tried."""

    memory: MemoryAxis = Field(default=("max",), examples=['["max", "75%", "150M"]'])
    swap: Annotated[Swap, BeforeValidator(_swap_in_short)] = Field(
        default=Swap.model_validate({"kind": "none"}),
        examples=['"2G"', '{kind = ["none", "file"], size = "2G"}'],
    )
    cores: Axis[Count] | None = Field(default=None, examples=["2", "[1, 2]"])
    cpu_quota: Axis[Annotated[float, Field(ge=0.01, le=4096)]] | None = Field(
        default=None, examples=["1.5"]
    )
    plan: Annotated[str, one_of("plan", PLANS)] = Field(default="grid", examples=['"adaptive"'])
    target_error: Annotated[float, Field(ge=0.005, le=1)] | None = Field(
        default=None, examples=["0.05"]
    )

    @model_validator(mode="after")
    def _planned(self) -> Self:
        if self.plan == "grid" and self.target_error is not None:
            raise ValueError(
                'target_error means nothing to a grid; leave it out, or write plan = "adaptive"'
            )
        return self

    @property
    def wanted_error(self) -> float:
        """How well an adaptive plan shall know slowdown, as a share of the time."""
        return TARGET_ERROR if self.target_error is None else self.target_error

    def memory_labels(self) -> tuple[str, ...]:
        """Every memory limit as written; ``max`` is always the first."""
        given = self.memory.labels() if isinstance(self.memory, MemoryRange) else self.memory
        return ("max", *(label for label in given if label != "max"))

    def settings(self) -> Iterator[LimitSetting]:
        """Every combination; a share's bytes are still unknown (None)."""
        axes = itertools.product(
            self.swap.settings(),
            self.cores or (None,),
            self.cpu_quota or (None,),
            self.memory_labels(),
        )
        for (kind, swap_bytes), cores, quota, label in axes:
            size = parse_size(label) if parse_share(label) is None else None
            yield LimitSetting(label, size, kind, swap_bytes, cores, quota)
