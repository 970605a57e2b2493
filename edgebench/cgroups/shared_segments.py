"""Shared segments of System V: which there are, and the removal of what a trial left.

A segment stays in memory until it is removed, also when no process has it attached any more. One
with the private key can be found by its number alone, so no other run of a program can use it.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
#: sys/ipc.h: the key of a segment that nobody else can ask for, and the command that removes one.
_PRIVATE, _REMOVE = 0, 0


@dataclass(frozen=True)
class Segment:
    """One segment.

    Args:
        key: by which programs find it.
        creator: the process that made it.
        attached: how many have it attached now.
        size_bytes: what of it lies in memory.
    """

    key: int
    creator: int
    attached: int
    size_bytes: int


def read_segments(proc: Path = _PROC) -> dict[int, Segment]:
    """All of them by their numbers; none where the kernel doesn't show them."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        head, *lines = (proc / "sysvipc" / "shm").read_text().splitlines()
        names = head.split()
        rows = [dict(zip(names, line.split(), strict=True)) for line in lines]
        return {int(row["shmid"]): _segment(row) for row in rows}
    return {}


def _segment(row: Mapping[str, str]) -> Segment:
    return Segment(*(int(row[name]) for name in ("key", "cpid", "nattch", "rss")))


def remove_left(before: Collection[int], creators: Collection[int]) -> list[int]:
    """Remove private segments that nobody has attached; the numbers of those that are gone.

    Args:
        before: the numbers of those that were there before the trial.
        creators: the trial's processes, all of which have ended.
    """
    removed = []
    for number, one in read_segments().items():
        is_ours = number not in before and one.creator in creators
        if is_ours and one.key == _PRIVATE and not one.attached and _remove(number):
            removed.append(number)
    return removed


def _remove(number: int) -> bool:
    return bool(ctypes.CDLL(None).shmctl(number, _REMOVE, None) == 0)
