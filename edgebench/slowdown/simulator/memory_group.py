"""What the kernel does with a control group's memory at one limit, page list by page list.

The rules are those of Linux since 5.9 without multi-generation lists (``mm/vmscan.c``,
``mm/workingset.c``, ``mm/swap_state.c``), for runs of pages that are used together:

- Anonymous memory and files have an inactive and an active list each. What is new starts on the
  inactive list, anonymous memory too.
- Reclaim takes the oldest of an inactive list. What was used since reclaim last looked gets a
  second chance, and is activated if it was used again by the next look.
- What comes back soon enough (a refault distance within what the lists hold) is activated at once,
  and the next reclaim lets active pages age beside inactive ones; as it does where the active list
  is the longer one.
- While the page cache has unused pages and no working set, only they are taken. Otherwise both
  kinds are scanned, the less the more that costs.
- A page that is read back keeps its place in swap until it is written to, so it goes again for
  nothing. zram keeps no second copy.

A group has no kswapd: all of this happens where memory is charged, so it is counted for the task
that charges it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from edgebench.slowdown.simulator.page_lists import IO_COST, Balance, PageLists
from edgebench.slowdown.simulator.references import FloatArray, References, ReferenceStep

#: Reclaim gives up after it has looked at everything so many times.
_MOST_LOOKS = 6


@dataclass(frozen=True)
class Memory:
    """What the kind of swap and the disk's read-ahead decide.

    Attributes:
        swaps: whether anonymous memory can go to swap; if not, what does not fit is killed.
        rewrites: whether what came back from swap must be written anew to go there again (zram
            gives its copy up, a disk keeps it).
        ahead_bytes: what is read of a file at once.
    """

    swaps: bool = True
    rewrites: bool = False
    ahead_bytes: float = 0.0


class MemoryGroup:
    """One control group while a string of references goes through it.

    ``counts`` holds, for each task and last for what comes before them, bytes that came back from
    swap, those of them that lie apart, bytes that went there, that were read from their file again,
    and that were reclaimed.
    """

    def __init__(
        self, references: References, tasks: int, limit_bytes: float, memory: Memory
    ) -> None:
        self._limit, self._memory = limit_bytes, memory
        self._size = references.bytes.tolist()
        self._is_file, self._is_busy = references.is_file.tolist(), references.is_busy.tolist()
        self._mapped, self._scattered = references.mapped.tolist(), references.scattered.tolist()
        count = len(self._size)
        #: The lists that hold it; none if it is not in memory.
        self._where: list[PageLists | None] = [None] * count
        #: Used since reclaim last looked; used when it looked; has a copy in swap; was active once.
        self._young, self._seen = bytearray(count), bytearray(count)
        self._in_swap, self._was_active = bytearray(count), bytearray(count)
        #: The age at which it was evicted; below 0 if it was not.
        self._shadow = [-1.0] * count
        self._balance = Balance(memory.swaps)
        self._anon, self._file = self._balance.anon, self._balance.file
        self._used = self._age = 0.0
        rows = np.zeros((5, tasks + 1)).tolist()
        self._back, self._apart, self._out, self._read, self._reclaimed = rows

    @property
    def counts(self) -> FloatArray:
        """Of shape (5, tasks + 1), in the order of the class's description."""
        return np.array([self._back, self._apart, self._out, self._read, self._reclaimed])

    def run(self, steps: Iterable[ReferenceStep]) -> None:
        """Let all references pass, as :meth:`References.steps` has them."""
        where, young, mapped = self._where, self._young, self._mapped
        in_swap, bring, free = self._in_swap, self._bring, self._free
        for piece, task, write, ahead, freed in steps:
            if where[piece] is None:
                bring(piece, task, not ahead)
            elif ahead:
                pass
            elif mapped[piece]:
                young[piece] = 1
            else:
                self._read_by_call(piece)
            if write:
                in_swap[piece] = 0
            if freed:
                for gone in freed:
                    free(gone)

    def _read_by_call(self, piece: int) -> None:
        """A file's pages are activated by a second read; no page table has seen the first."""
        lists = self._file
        if self._seen[piece] and piece in lists.inactive:
            lists.take(piece, self._size[piece])
            lists.put(piece, self._size[piece], active=True)
            self._age += self._size[piece]
        self._seen[piece] = 1

    def _bring(self, piece: int, task: int, used: bool) -> None:
        # Called for nearly each reference, so what it would call by the way stands here in full.
        size = self._size[piece]
        lists = self._file if self._is_file[piece] else self._anon
        active = False
        if self._shadow[piece] >= 0:
            self._count_back(piece, task)
            active = self._age - self._shadow[piece] <= self._working_set(piece)
        if self._used + size > self._limit:
            self._reclaim(task, size)
        self._used += size
        if active:
            lists.ages = True
            self._age += size
            if self._was_active[piece]:
                self._balance.note(lists, IO_COST * size)
            lists.active[piece] = None
            lists.active_bytes += size
        else:
            self._was_active[piece] = 0
            lists.inactive[piece] = None
            lists.inactive_bytes += size
        self._where[piece] = lists
        if self._mapped[piece]:
            self._young[piece], self._seen[piece] = used, 0
        else:
            self._young[piece], self._seen[piece] = 0, used

    def _count_back(self, piece: int, task: int) -> None:
        if self._is_file[piece]:
            self._read[task] += self._size[piece]
            return
        self._back[task] += self._size[piece]
        self._apart[task] += self._scattered[piece] * self._size[piece]
        if self._memory.rewrites:
            self._in_swap[piece] = 0

    def _working_set(self, piece: int) -> float:
        """How far away what comes back may have been to count as a part of the working set."""
        anon, file = self._anon, self._file
        if self._is_file[piece]:
            other = anon.active_bytes + anon.inactive_bytes if self._memory.swaps else 0.0
            return file.active_bytes + other
        return anon.active_bytes + file.active_bytes + file.inactive_bytes

    def _free(self, piece: int) -> None:
        lists = self._where[piece]
        if lists is not None:
            size = self._size[piece]
            lists.take(piece, size)
            self._where[piece] = None
            self._used -= size
        self._shadow[piece] = -1.0
        self._in_swap[piece] = self._was_active[piece] = 0

    def _reclaim(self, task: int, size: float) -> None:
        """Make room for what is charged, as far as anything can go."""
        looks, limit, sizes = _MOST_LOOKS * self._used, self._limit, self._size
        next_kind, look = self._balance.next_kind, self._look
        while self._used + size > limit and looks > 0:
            lists = next_kind()
            inactive, before = lists.inactive, lists.inactive_bytes
            if inactive:
                oldest, _ = inactive.popitem(False)
                looked = sizes[oldest]
                lists.inactive_bytes = before - looked
                look(lists, oldest, looked, task)
            elif lists.active:
                looked = sizes[next(iter(lists.active))]
            else:
                break
            looks -= looked
            if lists.ages or not inactive:
                lists.due += looked * (lists.active_bytes / before if before else 1.0)
                self._let_age(lists)
        self._anon.ages = self._file.ages = False

    def _look(self, lists: PageLists, piece: int, size: float, task: int) -> None:
        """Reclaim's look at what was the oldest inactive piece: it goes, or has another chance."""
        if self._young[piece] or self._is_busy[piece]:
            if self._seen[piece]:
                lists.active[piece] = None
                lists.active_bytes += size
            else:
                lists.inactive[piece] = None
                lists.inactive_bytes += size
            self._young[piece], self._seen[piece] = 0, 1
            self._balance.note(lists, size)
            return
        self._where[piece] = None
        self._used -= size
        self._shadow[piece] = age = self._age
        self._age = age + size
        self._reclaimed[task] += size
        if not self._is_file[piece] and not self._in_swap[piece]:
            self._out[task] += size
            self._in_swap[piece] = 1
            self._balance.note(lists, IO_COST * size)

    def _let_age(self, lists: PageLists) -> None:
        while lists.due > 0 and lists.active:
            piece = next(iter(lists.active))
            size = self._size[piece]
            lists.due -= size
            lists.take(piece, size)
            lists.put(piece, size, active=False)
            self._young[piece] = 0
            self._was_active[piece] = 1
            if not self._is_file[piece]:
                self._seen[piece] = 0
