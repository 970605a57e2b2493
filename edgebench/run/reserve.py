"""The size to reserve: one recommendation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from edgebench.run.search import TriedLimit
from edgebench.units import MIB

#: A limit at which it takes this many times as long is no limit to recommend, nor so much longer.
SLOW_FACTOR, SLOW_S = 1.5, 0.2


@dataclass(frozen=True)
class Reserve:
    """How much memory to give.

    Args:
        size_bytes: so much, rounded up to a size that can be written down.
        finished: how many trials finished with at most that, and with more than any that did not.
        spread_bytes: how much of it is there since runs differ.
    """

    size_bytes: int
    finished: int
    spread_bytes: int


def reserve_for(
    tried: Sequence[TriedLimit],
    demands_bytes: Sequence[int],
    *,
    is_proved: bool = True,
    factor: float | None = None,
    unlimited_s: float | None = None,
) -> Reserve:
    """The least limit at which all trials finished, not slowly, and how much runs differ.

    Args:
        tried: all limits that were tried.
        demands_bytes: what each trial without a limit needed.
        is_proved: whether trials at limits show what it needs: not if only the first run without
            a limit needed so much, nor if files of it were charged to another cgroup.
        factor: how many times as long it may take; None: it should not be slower.
        unlimited_s: what it takes without a limit.
    """
    failed = max((one.limit_bytes for one in tried if one.outcome != "ok"), default=0.0)
    fine = [one for one in tried if one.limit_bytes > failed and _is_fine(one, unlimited_s, factor)]
    spread = max(demands_bytes) - min(demands_bytes)
    if not is_proved:
        fine = [one for one in fine if one.limit_bytes >= max(demands_bytes)]
        spread = 0
    best = min((one.limit_bytes for one in fine), default=None)
    if best is None:
        # Slow at every limit: what it needs; killed even with that: what it finished with.
        needed = max(demands_bytes)
        fine = [one for one in tried if one.outcome == "ok" and one.limit_bytes > failed >= needed]
        size = _written(max(needed, min((one.limit_bytes for one in fine), default=0.0)))
    else:
        size = _written(best + spread)
    finished = sum(one.trials for one in fine if one.limit_bytes <= size)
    return Reserve(size, finished, spread)


def _is_fine(one: TriedLimit, unlimited_s: float | None, factor: float | None) -> bool:
    if factor is None:
        return not is_slow(one, unlimited_s)
    return one.slowdown is not None and one.slowdown <= factor


def is_slow(one: TriedLimit, unlimited_s: float | None) -> bool:
    """Whether it takes clearly longer at a limit, by more than noise."""
    if one.slowdown is None or one.slowdown < SLOW_FACTOR:
        return False
    return unlimited_s is None or (one.slowdown - 1) * unlimited_s >= SLOW_S


def _written(size_bytes: float) -> int:
    """Rounded up to what a sentence shows of it: a tenth of a MiB, a MiB, a hundredth of a GiB."""
    unit = MIB / 10 if size_bytes < 10 * MIB else MIB if size_bytes < 1024 * MIB else 10.24 * MIB
    found = math.ceil(size_bytes / unit) * unit
    return math.ceil(found / MIB) * MIB if size_bytes >= 10 * MIB else math.ceil(found)
