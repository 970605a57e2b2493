"""The ``[limits]`` table of a scenario: every axis of limits, expanded."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator

from edgebench.boards import Board, find_board, parse_storage, storage_of
from edgebench.records import WRITTEN, LimitSetting
from edgebench.scenario.keys import (
    Axis,
    Count,
    KeysError,
    LimitLabel,
    Named,
    Size,
    TomlTable,
    distinct,
    key,
    one_of,
    tag_of,
    worded,
)
from edgebench.text import AS_IS, MIB, SWAP_KINDS, parse_share, parse_size, parse_swap

if TYPE_CHECKING:
    from typing_extensions import Self

#: Plans: fresh trials at all limits; a living process that is moved through them.
GRID, WALK = "grid", "walk"
#: The keys that only this plan has.
PLAN_KEYS = {"target": WALK, "starts": WALK}
SPACINGS = ("log", "linear")
#: Kinds of swap that are made for a sweep, so somebody must say how large.
_SIZED_SWAP = ("file", "zram")
#: How well a walk is to know the knee, as a share of the limit.
KNEE_TARGET = 0.03
#: CUDA's allocator takes pieces of 2 MiB: with less nothing at all can be held.
_LEAST_ACCELERATOR_BYTES = 2 * MIB


class MemoryRange(TomlTable):
    """Limits from one to another, all sizes or all shares: ``{from = "100%", to = "25%", …}``.

    Args:
        from: size or share.
        to: size or share.
        steps: number of limits, 2 to 100, both ends included.
        spacing: ``log``: equal ratios; ``linear``: equal differences.
    """

    start: LimitLabel = key(..., '"100%"', alias="from")
    stop: LimitLabel = key(..., '"25%"', alias="to")
    steps: Annotated[int, Field(ge=2, le=100)] = key(..., "6")
    spacing: Annotated[str, one_of("spacing", SPACINGS)] = key("log", '"log"')

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


def _by_shape(value: object) -> str:
    return tag_of(MemoryRange) if isinstance(value, (dict, MemoryRange)) else "<list>"


#: The limits that a combination of the axes gives besides swap, in their order.
_AXES = ("cores", "cpu_quota", "storage", "accelerator_bytes", "memory_high", "label")


def _size(label: str | None) -> int | None:
    """Bytes of a limit as written; None for ``max`` and for a share, which is not known yet."""
    return None if label is None or parse_share(label) is not None else parse_size(label)


def _distinct_limits(labels: tuple[str, ...]) -> tuple[str, ...]:
    distinct(labels)
    seen: dict[object, str] = {}
    for label in labels:
        meaning = parse_share(label), _size(label)
        if meaning in seen:
            raise ValueError(f"{seen[meaning]!r} and {label!r} are the same limit; leave one out")
        seen[meaning] = label
    return labels


class SwapKeys(TomlTable):
    """Which swap a trial may use; several kinds are an axis.

    Args:
        kind: ``none``, ``file``, ``zram``, or ``system`` (what the machine has).
        size: of ``file`` and ``zram``.
    """

    kind: Axis[Annotated[str, one_of("swap kind", SWAP_KINDS)]] = key(
        ..., '"file"', '["none", "file"]'
    )
    size: Size | None = key(None, '"2G"')

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
    with worded():
        kind, size = parse_swap(value)
    return {"kind": kind} if size is None else {"kind": kind, "size": size}


def storage_label(value: object) -> str:
    """Return the one spelling of a storage speed, of text or of a table."""
    with worded():
        speed = storage_of(value) if isinstance(value, Mapping) else parse_storage(str(value))
        return speed.label


def _board_name(value: object) -> str:
    with worded():
        find_board(str(value))
    return str(value)


def _accelerator_limit(value: object) -> int | None:
    """Bytes; None for ``max``."""
    if not isinstance(value, (int, str)) or isinstance(value, bool):
        raise ValueError(f'{value!r} is no size; write "4G", or "max"')
    text = str(value).strip()
    with worded():
        share = parse_share(text)
        size = parse_size(text) if share is None else None
    if share is not None:
        raise ValueError(
            f"{text!r}: shares are of the host's demand, and an accelerator's is another one; "
            'write a size, as "4G"'
        )
    if size is not None and size < _LEAST_ACCELERATOR_BYTES:
        raise ValueError(f'{text!r} is {size} bytes, less than CUDA takes at once; write "64M"')
    return size


#: A board's name, or the path of its file.
BoardName = Annotated[str, BeforeValidator(_board_name)]
#: Storage as it is, or held to speeds; kept in its one spelling.
StorageLabel = Annotated[str, BeforeValidator(storage_label)]
#: The most that torch's allocator may take of an accelerator's memory; None for ``max``.
AcceleratorLimit = Annotated[int | None, BeforeValidator(_accelerator_limit)]
MemoryAxis = Annotated[
    Annotated[MemoryRange, Tag(tag_of(MemoryRange))]
    | Annotated[Axis[LimitLabel], AfterValidator(_distinct_limits), Tag("<list>")],
    Discriminator(_by_shape),
]


class LimitAxes(TomlTable):
    """Memory, swap, storage and CPU limits; every combination is tried.

    A board sets those of them that are not given.

    Args:
        board: boards to emulate, by name or file; a board sets what of ``memory``, ``swap``,
            ``storage`` and ``cores`` is not given.
        memory: sizes and shares, or a range; ``max`` is always added.
        swap: a size (a temporary swap file), ``"none"``, ``"system"``, or a table. Default:
            ``"none"``.
        cores: processor cores that the trial may use. Default: all.
        cpu_quota: CPU time in cores.
        storage: ``"as-is"``, a kind of storage, or a table of speeds that swap and weights are held
            to.
        accelerator_memory: most of an accelerator's memory that torch's allocator may take.
            Default: ``"max"``.
        memory_high: sizes and shares from which on the kernel throttles and reclaims
            (``memory.high``; refused on cgroup version 1); not with a walk. Default: ``"max"``.
        plan: every limit ``repeats`` times, or a walk.
        target: a walk ends when it knows the knee to this share of the limit, 0.002 to 0.5.
            Default: 0.03.
        starts: limits where fresh trials beside a walk measure the start; ``["max"]``: none.
            Default: all of ``memory``.
    """

    board: Axis[BoardName] | None = key(
        None, '"raspberry-pi-4-4g"', '["raspberry-pi-4-4g", "jetson-nano-4g"]'
    )
    memory: MemoryAxis = key(("max",), '["max", "75%", "150M"]')
    swap: Annotated[SwapKeys, BeforeValidator(_swap_in_short)] = key(
        SwapKeys.model_validate({"kind": "none"}), '"2G"', '{kind = ["none", "file"], size = "2G"}'
    )
    cores: Axis[Count] | None = key(None, "2", "[1, 2]")
    cpu_quota: Axis[Annotated[float, Field(ge=0.01, le=4096)]] | None = key(None, "1.5")
    storage: Axis[StorageLabel] = key(
        (AS_IS,),
        '{read = "90MB/s", write = "30MB/s", read_iops = 2000, write_iops = 500}',
        '["as-is", "sd-a1"]',
    )
    accelerator_memory: Axis[AcceleratorLimit] | None = key(None, '["max", "4G"]')
    memory_high: Annotated[Axis[LimitLabel], AfterValidator(_distinct_limits)] | None = key(
        None, '["80%", "200M"]'
    )
    plan: Annotated[str, one_of("plan", (GRID, WALK))] = key(GRID, '"walk"')
    target: Annotated[float, Field(ge=0.002, le=0.5)] | None = key(None, "0.03")
    starts: Axis[LimitLabel] | None = key(None, '["60%"]')

    @model_validator(mode="after")
    def _planned(self) -> Self:
        for name, plan in PLAN_KEYS.items():
            if getattr(self, name) is not None and self.plan != plan:
                words = f'a plan of kind "{self.plan}" has no {name}; leave it out, or write '
                raise KeysError(words, Named("plan", plan))
        if self.walks and len(self.memory_labels()) == 1:
            words = "a walk needs limits to go to; write "
            raise KeysError(words, Named("memory", ["80%", "60%", "40%"]))
        if self.walks and self.memory_high:
            words = "a walk moves the limit of memory alone; leave memory_high out, or write "
            raise KeysError(words, Named("plan", GRID))
        if unknown := [label for label in self.starts or () if label not in self.memory_labels()]:
            known = ", ".join(self.memory_labels()[1:])
            raise ValueError(f"starts names {unknown[0]}, which is none of memory's: {known}")
        return self

    @property
    def walks(self) -> bool:
        """Whether a living process is moved through the limits."""
        return self.plan == WALK

    @property
    def knee_target(self) -> float:
        """How well a walk is to know where rounds begin to read again, as a share of the limit."""
        return KNEE_TARGET if self.target is None else self.target

    def memory_labels(self, board: Board | None = None) -> tuple[str, ...]:
        """Every memory limit as written, or what a board has; ``max`` is always the first."""
        given = self.memory.labels() if isinstance(self.memory, MemoryRange) else self.memory
        if board and "memory" not in self.model_fields_set:
            given = (board.memory_label,)
        return ("max", *(label for label in given if label != "max"))

    def settings(self) -> Iterator[LimitSetting]:
        """Every combination, of a board where no key says otherwise; a share's bytes are None."""
        for name in self.board or (None,):
            board = find_board(name) if name else None
            swaps, speeds = self.swap.settings(), self.storage
            if board and "swap" not in self.model_fields_set:
                swaps = [parse_swap(board.used_swap)]
            if board and "storage" not in self.model_fields_set:
                speeds = (board.speed.label,)
            axes: Iterator[Any] = itertools.product(
                swaps,
                self.cores or (board.cores_here if board else None,),
                self.cpu_quota or (None,),
                speeds,
                self.accelerator_memory or (None,),
                (None, *(label for label in self.memory_high or () if label != "max")),
                self.memory_labels(board),
            )
            for (kind, swap_bytes), *others in axes:
                asked = dict(zip(_AXES, others, strict=True))
                sizes: dict[str, Any] = {
                    size: _size(asked.get(label)) for size, label in WRITTEN.items()
                }
                yield LimitSetting(
                    swap_kind=kind, swap_bytes=swap_bytes, board=name, **asked, **sizes
                )
