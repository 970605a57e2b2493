"""Reuse distances: how much memory a piece needs to stay from one use to the next.

The reuse distance of a stay is the most memory that must fit for its piece to be there still at
the end: distinct bytes touched since its last use, less what was given back meanwhile (Mattson
and others, 1970, who had no frees).
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from edgebench.slowdown.references import FloatArray, IntArray, References

#: What reclaim leaves to the page cache before it turns to anonymous memory: ``inactive file >>
#: DEF_PRIORITY``, with DEF_PRIORITY 12, is 0 below 4096 pages of 4 KiB (``mm/vmscan.c``).
CACHE_KEPT_BYTES = 4096 * 4096


@dataclass(frozen=True)
class Reuse:
    """Every stay of a piece in memory: from one reference to its next, or to where it is freed.

    All arrays have one entry a reference, for the stay that *begins* there.

    Attributes:
        end: the reference that the stay ends with; the last one before it is freed, or ``n``.
        is_used: whether it ends with a reference to the same piece.
        distance: most bytes of its own kind that must fit for it to stay, itself among them; of
            anonymous memory with what the page cache keeps beside it. 0 for a file's piece that
            nobody misses.
        beside: for a file's piece, most anonymous bytes alive meanwhile; else 0.
        idle: of these, what nothing touched meanwhile.
        crowding: for anonymous memory, what ``distance`` was at each later reference, never
            falling; for a file empty.
    """

    end: IntArray
    is_used: FloatArray
    distance: FloatArray
    beside: FloatArray
    idle: FloatArray
    crowding: tuple[FloatArray, ...]


def reuse_of(references: References) -> Reuse:
    """Every stay of a string; independent of any limit."""
    string = _String(references)
    stays = [string.stay(start) for start in range(len(references))]
    return Reuse(
        end=np.array([stay.end for stay in stays], dtype=np.int64),
        is_used=np.array([stay.is_used for stay in stays], dtype=np.float64),
        distance=np.array([stay.distance for stay in stays]),
        beside=np.array([stay.beside for stay in stays]),
        idle=np.array([stay.idle for stay in stays]),
        crowding=tuple(stay.crowding for stay in stays),
    )


class _Stay(NamedTuple):
    end: int
    is_used: bool
    distance: float = 0.0
    beside: float = 0.0
    idle: float = 0.0
    crowding: FloatArray = np.empty(0)


class _String:
    """A string made ready to tell what is touched between any two references."""

    def __init__(self, references: References) -> None:
        before, after, last = _neighbours(references)
        touched, of_file = references.touched, references.is_file[references.piece]
        self._count = len(references)
        self._before = before
        self._anon = np.where(of_file, 0.0, touched)
        self._file = np.where(of_file, touched, 0.0)
        self._files_before = [0, *np.cumsum(of_file).tolist()]
        # As lists: single entries of an array are slow to reach.
        self._after, self._touched = after.tolist(), touched.tolist()
        self._is_file = of_file.tolist()
        self._freed = np.minimum(references.freed, self._count - 1)[references.piece].tolist()
        gone = np.argsort(references.freed, kind="stable")
        gone = gone[references.freed[gone] < self._count]
        self._gone_at, self._gone_last = references.freed[gone], last[gone]
        self._gone_in_order = self._gone_at.tolist()
        self._gone_anon = np.where(references.is_file[gone], 0.0, references.bytes[gone])
        self._gone_file = references.bytes[gone] - self._gone_anon
        self._alive = references.alive

    def stay(self, start: int) -> _Stay:
        is_used = self._after[start] < self._count
        end = self._after[start] if is_used else self._freed[start]
        own = self._touched[start]
        if not is_used and self._is_file[start]:
            return _Stay(end, is_used)
        stop = end if is_used else end + 1
        if stop == start + 1 and not self._is_file[start]:
            return _Stay(end, is_used, own, crowding=np.array([own]))
        anon, file = self._between(start, stop)
        if self._is_file[start]:
            return self._of_file(start, stop, anon, file)
        needed = anon if file is None else anon + np.minimum(file, CACHE_KEPT_BYTES)
        crowding = np.maximum.accumulate(needed) + own
        return _Stay(end, is_used, float(crowding[-1]), crowding=crowding)

    def _of_file(self, start: int, stop: int, anon: FloatArray, others: FloatArray | None) -> _Stay:
        own, file = self._touched[start], np.zeros_like(anon) if others is None else others
        needed = float(np.max(own + file + self._alive[start + 1 : stop], initial=own))
        distance = own + float(np.max(file, initial=0.0))
        beside = max(0.0, needed - distance)
        idle = max(0.0, beside - float(np.max(anon, initial=0.0)))
        return _Stay(stop, True, distance, beside, idle)

    def _between(self, start: int, stop: int) -> tuple[FloatArray, FloatArray | None]:
        """Distinct anonymous and file bytes touched after ``start``, up to each reference.

        None for the file's where there are none.
        """
        inside = slice(start + 1, stop)
        is_new = self._before[inside] <= start
        anon, file = self._anon[inside] * is_new, None
        if self._files_before[stop] > self._files_before[start + 1]:
            file = self._file[inside] * is_new
        low = bisect_left(self._gone_in_order, start)
        high = bisect_left(self._gone_in_order, stop - 1, low)
        if high > low:
            counted = self._gone_last[low:high] > start
            at = self._gone_at[low:high][counted] - start
            length = stop - start - 1
            anon -= np.bincount(at, self._gone_anon[low:high][counted], length)[:length]
            if file is not None:
                file -= np.bincount(at, self._gone_file[low:high][counted], length)[:length]
        return anon.cumsum(), None if file is None else file.cumsum()


def _neighbours(references: References) -> tuple[IntArray, IntArray, IntArray]:
    """For each reference the one before and after to its piece (-1, n); each piece's last."""
    count = len(references)
    before = np.full(count, -1, dtype=np.int64)
    after = np.full(count, count, dtype=np.int64)
    last = np.full(len(references.bytes), -1, dtype=np.int64)
    for at, piece in enumerate(references.piece):
        if last[piece] >= 0:
            before[at], after[last[piece]] = last[piece], at
        last[piece] = at
    return before, after, last
