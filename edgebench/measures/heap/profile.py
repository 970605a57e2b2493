"""What every heap profiler's output becomes: the heap at moments, on the events' clock."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Stack:
    """Bytes that one path of calls holds; ``frames`` innermost first, as the tool names them."""

    live_bytes: int
    frames: tuple[str, ...]


@dataclass(frozen=True)
class Point:
    """The heap at one moment.

    Attributes:
        t_ns: ``CLOCK_MONOTONIC``, as far as the profiler's clock can tell.
        live_bytes: requested by the program and not yet freed.
        peak_bytes: the most that was live since the point before; None if the tool doesn't tell.
        boundary: the worker's number for the boundary of a span at which this was seen; None of
            a point between boundaries.
        stacks: who held the heap when it was largest since the point before, largest first;
            empty if the tool didn't tell.
    """

    t_ns: int
    live_bytes: int
    peak_bytes: int | None = None
    boundary: int | None = None
    stacks: tuple[Stack, ...] = ()

    @property
    def highest_bytes(self) -> int:
        """The most known to have been live since the point before."""
        return max(self.live_bytes, self.peak_bytes or 0)


@dataclass(frozen=True)
class HeapProfile:
    """One trial's heap.

    Attributes:
        points: in the order in which the program allocated.
        unseen_bytes: the most that the heap can have risen between two points, unseen; None if
            nothing bounds it.
        counts_mapped: whether what the program maps, such as weights, is counted.
        error: where that, and what the times are worth, comes from.
        notes: what a reader must know: a dump cut short, a clock that was set.
        line: (``t_ns``, live bytes) where the profiler tells more moments than points.
    """

    points: tuple[Point, ...]
    unseen_bytes: int | None
    counts_mapped: bool
    error: str
    notes: tuple[str, ...] = ()
    line: tuple[tuple[int, int], ...] = ()

    @property
    def peak_bytes(self) -> int | None:
        """The most that was live at or between the points, as far as the profiler saw."""
        return max((point.highest_bytes for point in self.points), default=None)


def largest(stacks: Iterable[Stack], most: int = 8) -> tuple[Stack, ...]:
    """Stacks of the same path added up; those that hold most, largest first."""
    sums: dict[tuple[str, ...], int] = {}
    for stack in stacks:
        sums[stack.frames] = sums.get(stack.frames, 0) + stack.live_bytes
    ordered = sorted(sums.items(), key=lambda item: (-item[1], item[0]))
    return tuple(Stack(size, frames) for frames, size in ordered[:most] if size > 0)
