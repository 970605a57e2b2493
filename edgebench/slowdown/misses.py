"""What does not stay in memory between two uses: miss shares and missed bytes.

Two kernel rules part anonymous memory from the page cache:

- While the page cache holds more than :data:`~edgebench.slowdown.reuse.CACHE_KEPT_BYTES` that is
  not in active use, reclaim takes from it alone (``cache_trim_mode`` in the kernel's
  ``mm/vmscan.c``). So anonymous memory sees no more of the cache than that, however much is read,
  and the page cache has only what anonymous memory leaves to it.
- When the cache's pages come back again and again, anonymous memory that is idle gives way, slowly:
  about as much for each whole scan that missed as the cache keeps at least, and only if the scan
  would fit then (a page that comes back from farther away than there is anonymous memory counts
  for nothing in ``mm/workingset.c``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from edgebench.slowdown.references import FloatArray, IntArray, References
from edgebench.slowdown.reuse import CACHE_KEPT_BYTES, Reuse

#: From above Newton's method comes to the share steadily, slowest where it is near 0.
_NEWTON_STEPS = 60


def lru(distance: FloatArray, room: FloatArray, knee: float = 0.0) -> FloatArray:
    """Miss share under least recently used: all or nothing, M being enough for D or not.

    Real kernels keep a part of a scan that hardly exceeds memory. With a ``knee`` of κ bytes the
    share rises as 1 − exp(−(D − M)/κ).
    """
    beyond = np.maximum(distance - room, 0.0)
    if knee <= 0:
        return np.asarray(beyond > 0, dtype=np.float64)
    return np.asarray(-np.expm1(-beyond / knee))


def optimal(distance: FloatArray, room: FloatArray) -> FloatArray:
    """Miss share of a cyclic scan under optimal replacement (Belady, 1966): max(0, 1 − M/D)."""
    return np.asarray(1 - np.minimum(1.0, room / np.maximum(distance, 1.0)))


def at_random(distance: FloatArray, room: FloatArray) -> FloatArray:
    """Miss share m of a cyclic scan under random replacement: m = 1 − exp(−m·D/M)."""
    ratio = np.maximum(distance, 1.0) / np.maximum(room, 1e-9)
    above = np.maximum(ratio, 1.0)
    share = np.ones_like(above)
    for _ in range(_NEWTON_STEPS):
        gone = np.exp(-above * share)
        share = share - (share - 1 + gone) / np.maximum(1 - above * gone, 1e-12)
    return np.asarray(np.where(ratio > 1, share, 0.0))


def mixed(
    distance: FloatArray, room: FloatArray, lru_share: float, knee: float = 0.0
) -> FloatArray:
    """Miss share θ·LRU + (1 − θ)·optimal; θ is the device's ``lru_share``."""
    worst, best = lru(distance, room, knee), optimal(distance, room)
    return lru_share * worst + (1 - lru_share) * best


@dataclass(frozen=True)
class Missed:
    """Bytes that move because they did not stay, for each task and limit.

    Arrays of shape (tasks, limits): ``in_bytes`` come back from swap, ``scattered_bytes`` of them
    not helped by read-ahead; ``out_bytes`` go there; ``file_bytes`` are read from their file again.
    """

    in_bytes: FloatArray
    scattered_bytes: FloatArray
    out_bytes: FloatArray
    file_bytes: FloatArray


@dataclass(frozen=True)
class Memory:
    """How a device replaces what does not fit.

    Attributes:
        lru_share: θ, 1 for LRU and 0 for optimal replacement.
        knee: κ of anonymous memory, by how many bytes a scan must exceed memory to be missed for
            the most part. Mapped files show none.
        swaps: whether anonymous memory can go to swap; if not, what does not fit is killed.
        rewrites: whether what came back from swap must be written anew to go there again (zram
            gives its copy up, a disk keeps it).
    """

    lru_share: float
    knee: float = 0.0
    swaps: bool = True
    rewrites: bool = False


def missed(
    references: References, reuse: Reuse, tasks: int, room: FloatArray, memory: Memory
) -> Missed:
    """What each task misses.

    Args:
        references: the string.
        reuse: its stays.
        tasks: how many tasks there are.
        room: bytes that the limit leaves to the string, one a limit.
        memory: how the device replaces what does not fit.
    """
    # What the runtime's import misses is counted in a last row, and left out.
    found = Missed(*(np.zeros((tasks + 1, len(room))) for _ in range(4)))
    if memory.swaps:
        _swapped(references, reuse, room, memory, found)
    _read_again(references, reuse, room, memory, found)
    return Missed(*(table[:tasks] for table in vars(found).values()))


def _swapped(
    references: References,
    reuse: Reuse,
    room: FloatArray,
    memory: Memory,
    found: Missed,
) -> None:
    """Anonymous memory: read back where it is used again, written where it is crowded out."""
    crowded = reuse.distance > room.min()
    anon = np.flatnonzero(~references.is_file[references.piece] & (crowded | references.write))
    lost = mixed(reuse.distance[anon, None], room, memory.lru_share, memory.knee)
    lost_bytes = lost * references.touched[anon, None]
    back, by = lost_bytes * reuse.is_used[anon, None], references.task[reuse.end[anon]]
    np.add.at(found.in_bytes, by, back)
    apart = references.scattered[references.piece[anon]]
    np.add.at(found.scattered_bytes, by[apart], back[apart])
    columns, clean = np.arange(len(room)), dict[int, Any]()
    for start, share, size in zip(anon, lost, lost_bytes, strict=True):
        piece = references.piece[start]
        if references.write[start]:
            clean[piece] = np.zeros(len(room))
        if crowded[start]:
            at = np.minimum(start + 1 + _later(reuse.crowding[start], room), len(references) - 1)
            out = size * (1 - clean.get(piece, 1.0))
            found.out_bytes[references.task[at], columns] += out
            if not memory.rewrites:
                # What was written once is on the disk until it is changed.
                clean[piece] = 1 - (1 - clean.get(piece, 1.0)) * (1 - share)


def _later(crowding: FloatArray, room: FloatArray) -> IntArray:
    """How many references after its start a stay is crowded out, one a limit."""
    return np.minimum(np.searchsorted(crowding, room, "right"), len(crowding) - 1)


def _read_again(
    references: References,
    reuse: Reuse,
    room: FloatArray,
    memory: Memory,
    found: Missed,
) -> None:
    """The page cache: read again from the file, while idle anonymous memory gives way to it."""
    given, touched = np.zeros(len(room)), references.touched
    used = references.is_file[references.piece] & (reuse.is_used > 0)
    for start in np.flatnonzero(used):
        distance, idle = reuse.distance[start], reuse.idle[start]
        left = np.maximum(room - reuse.beside[start], CACHE_KEPT_BYTES) + np.minimum(given, idle)
        share = mixed(np.full(len(room), distance), left, memory.lru_share)
        size, task = touched[start], references.task[reuse.end[start]]
        found.file_bytes[task] += share * size
        if memory.swaps:
            gives = np.where(distance <= room, share * size / distance * CACHE_KEPT_BYTES, 0.0)
            gives = np.minimum(gives, np.maximum(idle - given, 0.0))
            given += gives
            found.out_bytes[task] += gives
