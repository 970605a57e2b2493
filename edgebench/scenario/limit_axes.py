"""The ``[limits]`` table of a scenario: every axis of limits, expanded."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator

from edgebench.boards.board import Board, find_board
from edgebench.errors import UsageError
from edgebench.records import LimitSetting
from edgebench.scenario.accelerator_keys import AcceleratorLimit
from edgebench.scenario.keys import (
    Axis,
    Count,
    LimitLabel,
    Size,
    TomlTable,
    distinct,
    one_of,
    tag_of,
)
from edgebench.scenario.memory_range import MemoryRange
from edgebench.scenario.plans import PLAN_KEYS, PLANS, WALK
from edgebench.storage_speed import AS_IS, parse_storage, storage_of
from edgebench.units import SWAP_KINDS, parse_share, parse_size, parse_swap

if TYPE_CHECKING:
    from typing_extensions import Self

#: Kinds of swap that are made for a sweep, so somebody must say how large.
_SIZED_SWAP = ("file", "zram")
#: How well a walk is to know where slowdown changes most, as a share of the limit.
CLIFF_TARGET = 0.02


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


def _no_swap_in_words(value: Any) -> Any:
    """``"none"`` where an axis of kinds says it as ``"off"``, ``0`` and the like."""
    try:
        return "none" if parse_swap(value)[0] == "none" else value
    except UsageError:
        return value


class SwapKeys(TomlTable):
    """Which swap a trial may use; several kinds are an axis."""

    kind: Axis[
        Annotated[str, one_of("swap kind", SWAP_KINDS), BeforeValidator(_no_swap_in_words)]
    ] = Field(examples=['"file"', '["none", "file"]'])
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
            raise ValueError(f"swap of kind {self.kind[0]!r} has no size; leave it out")
        return self

    def settings(self) -> list[tuple[str, int | None]]:
        """Kind and bytes of each value of the axis."""
        return [(kind, self.size if kind in _SIZED_SWAP else None) for kind in self.kind]


def _swap_in_short(value: Any) -> Any:
    if value in _SIZED_SWAP:
        raise ValueError(f'it needs a size; write "{value}:2G"')
    if not isinstance(value, (str, int)):
        return value
    try:
        kind, size = parse_swap(value)
    except UsageError as error:
        raise ValueError(f"{error.what}; {error.remedy}") from error
    return {"kind": kind} if size is None else {"kind": kind, "size": size}


def _storage_label(value: object) -> str:
    """The one spelling of a storage speed, of text or of a table."""
    try:
        if isinstance(value, Mapping):
            return storage_of(value).label
        return parse_storage(str(value)).label
    except UsageError as error:
        raise ValueError(f"{error.what}; {error.remedy}") from error


def _board_name(value: object) -> str:
    try:
        find_board(str(value))
    except UsageError as error:
        raise ValueError(f"{error.what}; {error.remedy}") from error
    return str(value)


#: A board's name, or the path of its file.
BoardName = Annotated[str, BeforeValidator(_board_name)]
#: Storage as it is, or held to speeds; kept in its one spelling.
StorageLabel = Annotated[str, BeforeValidator(_storage_label)]
MemoryAxis = Annotated[
    Annotated[MemoryRange, Tag(tag_of(MemoryRange))]
    | Annotated[Axis[LimitLabel], AfterValidator(_distinct_limits), Tag("<list>")],
    Discriminator(_by_shape),
]


class LimitAxes(TomlTable):
    """Memory, swap, storage and CPU limits; every combination is tried.

    A board sets those of them that are not given.
    """

    board: Axis[BoardName] | None = Field(
        default=None, examples=['"raspberry-pi-4-4g"', '["raspberry-pi-4-4g", "jetson-nano-4g"]']
    )
    memory: MemoryAxis = Field(default=("max",), examples=['["max", "75%", "150M"]'])
    swap: Annotated[SwapKeys, BeforeValidator(_swap_in_short)] = Field(
        default=SwapKeys.model_validate({"kind": "none"}),
        examples=['"2G"', '{kind = ["none", "file"], size = "2G"}'],
    )
    cores: Axis[Count] | None = Field(default=None, examples=["2", "[1, 2]"])
    cpu_quota: Axis[Annotated[float, Field(ge=0.01, le=4096)]] | None = Field(
        default=None, examples=["1.5"]
    )
    storage: Axis[StorageLabel] = Field(
        default=(AS_IS,),
        examples=[
            '{read = "90MB/s", write = "30MB/s", read_iops = 2000, write_iops = 500}',
            '["as-is", "sd-a1"]',
        ],
    )
    accelerator_memory: Axis[AcceleratorLimit] | None = Field(
        default=None, examples=['["max", "4G"]']
    )
    plan: Annotated[str, one_of("plan", PLANS)] = Field(default="grid", examples=['"walk"'])
    target: Annotated[float, Field(ge=0.002, le=0.5)] | None = Field(
        default=None, examples=["0.02"]
    )
    starts: Axis[LimitLabel] | None = Field(default=None, examples=['["60%"]'])

    @model_validator(mode="after")
    def _planned(self) -> Self:
        for key, plan in PLAN_KEYS.items():
            if getattr(self, key) is not None and self.plan != plan:
                raise ValueError(
                    f'a plan of kind "{self.plan}" has no {key}; leave it out, or write '
                    f'plan = "{plan}"'
                )
        if self.plan == WALK and len(self.memory_labels()) == 1:
            raise ValueError('a walk needs limits to go to; write memory = ["80%", "60%", "40%"]')
        if unknown := [label for label in self.starts or () if label not in self.memory_labels()]:
            known = ", ".join(self.memory_labels()[1:])
            raise ValueError(f"starts names {unknown[0]}, which is none of memory's: {known}")
        return self

    @property
    def cliff_target(self) -> float:
        """How well a walk is to know where slowdown changes most, as a share of the limit."""
        return CLIFF_TARGET if self.target is None else self.target

    def unsaid(self) -> set[str]:
        """Later keys that say nothing here, so that a scenario means what it meant before them."""
        later = {"plan"} if self.plan == "grid" else set()
        later |= {key for key in ("target", "starts") if getattr(self, key) is None}
        later |= set() if self.accelerator_memory else {"accelerator_memory"}
        later |= {"storage"} if self.storage == (AS_IS,) else set()
        return later | ({"board"} - self.model_fields_set)

    def memory_labels(self, board: Board | None = None) -> tuple[str, ...]:
        """Every memory limit as written, or what a board has; ``max`` is always the first."""
        given = self.memory.labels() if isinstance(self.memory, MemoryRange) else self.memory
        if board and not self._says("memory"):
            given = (board.memory_label,)
        return ("max", *(label for label in given if label != "max"))

    def settings(self) -> Iterator[LimitSetting]:
        """Every combination; a share's bytes are still unknown (None)."""
        for name in self.board or (None,):
            board = find_board(name) if name else None
            for (kind, swap_bytes), cores, quota, storage, most, label in self._axes(board):
                size = parse_size(label) if parse_share(label) is None else None
                own = label, size, kind, swap_bytes, cores, quota, storage, name, most
                yield LimitSetting(*own)

    def _axes(self, board: Board | None) -> Iterator[tuple[Any, ...]]:
        """Every combination of what the axes say; where they say nothing, of what the board has."""
        cores = board.cores_here if board else None
        return itertools.product(
            [parse_swap(board.used_swap)]
            if board and not self._says("swap")
            else self.swap.settings(),
            self.cores or (cores,),
            self.cpu_quota or (None,),
            (board.speed.label,) if board and not self._says("storage") else self.storage,
            self.accelerator_memory or (None,),
            self.memory_labels(board),
        )

    def _says(self, key: str) -> bool:
        return key in self.model_fields_set
