"""Reclaim page by page, in the kernel's own loops: what certifies the simulator's runs of pages.

Written from ``mm/vmscan.c`` and ``mm/workingset.c``: priorities, batches, one page at a time. It
shares with the simulator only the constants and the string of references.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field

from edgebench.slowdown.simulator import page_lists
from edgebench.slowdown.simulator.references import References

#: SWAP_CLUSTER_MAX, and DEF_PRIORITY.
BATCH, PRIORITIES = 32, range(12, -1, -1)
ANON, FILE = 0, 1
INACTIVE, ACTIVE = 0, 1


@dataclass
class Page:
    """One page, in memory or not."""

    kind: int
    mapped: bool
    busy: bool
    young: bool = False
    seen: bool = False
    in_swap: bool = False
    was_active: bool = False
    shadow: int | None = None
    place: int | None = None


@dataclass
class Counted:
    """Pages that tasks read back from swap and from files; all that went out and was reclaimed."""

    back: dict[int, int] = field(default_factory=dict)
    read: dict[int, int] = field(default_factory=dict)
    out: int = 0
    reclaimed: int = 0


class KernelByPage:
    """A group of so many frames."""

    def __init__(self, references: References, page: int, frames: int) -> None:
        self.references, self.page, self.frames = references, page, frames
        self.pages: dict[tuple[int, int], Page] = {}
        self.lists = [[OrderedDict(), OrderedDict()], [OrderedDict(), OrderedDict()]]
        self.cost, self.refaulted = [0.0, 0.0], [False, False]
        self.age = 0
        self.counted = Counted()

    def run(self) -> Counted:
        """Every reference, page by page."""
        string, freed = self.references, {}
        for piece, at in enumerate(string.freed.tolist()):
            freed.setdefault(at, []).append(piece)
        for at, piece in enumerate(string.piece.tolist()):
            for number in range(self._count(piece)):
                key, task = (piece, number), int(string.task[at])
                if string.ahead[at]:
                    self._read_ahead(key, task)
                else:
                    self._touch(key, task, bool(string.write[at]))
            for gone in freed.get(at, ()):
                for number in range(self._count(gone)):
                    self._free((gone, number))
        return self.counted

    def _count(self, piece: int) -> int:
        return round(self.references.bytes[piece] / self.page)

    def _page(self, key: tuple[int, int]) -> Page:
        string, piece = self.references, key[0]
        if key not in self.pages:
            kind = FILE if string.is_file[piece] else ANON
            self.pages[key] = Page(kind, bool(string.mapped[piece]), bool(string.is_busy[piece]))
        return self.pages[key]

    def _read_ahead(self, key: tuple[int, int], task: int) -> None:
        page = self._page(key)
        if page.place is None:
            self._fault(key, page, task)
            page.young = page.seen = False

    def _touch(self, key: tuple[int, int], task: int, write: bool) -> None:
        page = self._page(key)
        if page.place is None:
            self._fault(key, page, task)
        elif page.mapped:
            page.young = True
        else:
            if page.seen and page.place == INACTIVE:
                self._move(key, page, ACTIVE)
                self.age += 1
            page.seen = True
        if write:
            page.in_swap = False

    def _fault(self, key: tuple[int, int], page: Page, task: int) -> None:
        active = False
        if page.shadow is not None:
            counts = self.counted.read if page.kind == FILE else self.counted.back
            counts[task] = counts.get(task, 0) + 1
            active = self.age - page.shadow <= self._working_set(page.kind)
        if sum(map(len, self._all())) >= self.frames:
            self._reclaim()
        if active:
            self.age += 1
            self.refaulted[page.kind] = True
            if page.was_active:
                self._note(page.kind, BATCH)
        else:
            page.was_active = False
        self._move(key, page, ACTIVE if active else INACTIVE)
        page.young, page.seen = page.mapped, not page.mapped

    def _working_set(self, kind: int) -> int:
        (anon, active_anon), (file, active_file) = self.lists
        if kind == FILE:
            return len(active_file) + len(anon) + len(active_anon)
        return len(active_anon) + len(file) + len(active_file)

    def _reclaim(self) -> None:
        target = self.counted.reclaimed + BATCH
        for priority in PRIORITIES:
            ages = [
                r or len(i) < len(a) for r, (i, a) in zip(self.refaulted, self.lists, strict=True)
            ]
            self._shrink(self._to_scan(priority, ages), target)
            if self.counted.reclaimed >= target:
                break
        self.refaulted = [False, False]

    def _to_scan(self, priority: int, ages: list[bool]) -> dict[tuple[int, int], int]:
        kept = page_lists.CACHE_KEPT_BYTES // self.page
        share = [1.0, 1.0]
        if len(self.lists[FILE][INACTIVE]) > kept and not ages[FILE]:
            share = [0.0, 1.0]
        else:
            total = sum(self.cost)
            share = [60 / (total + self.cost[ANON] + 1), 140 / (total + self.cost[FILE] + 1)]
            if sum(map(len, self.lists[FILE])) > kept:
                share[ANON] *= page_lists._ANON_TURN_BESIDE_FILES
            share = [one / sum(share) for one in share]
        return {
            (kind, place): int((len(self.lists[kind][place]) >> priority) * share[kind])
            for kind in (ANON, FILE)
            for place in ((INACTIVE, ACTIVE) if ages[kind] else (INACTIVE,))
        }

    def _shrink(self, left: dict[tuple[int, int], int], target: int) -> None:
        while any(left.values()) and self.counted.reclaimed < target:
            for (kind, place), pages in left.items():
                for _ in range(min(pages, BATCH)):
                    (self._look if place == INACTIVE else self._deactivate)(kind)
                left[kind, place] -= min(pages, BATCH)

    def _look(self, kind: int) -> None:
        if not self.lists[kind][INACTIVE]:
            return
        key = next(iter(self.lists[kind][INACTIVE]))
        page = self.pages[key]
        if page.young or page.busy:
            self._move(key, page, ACTIVE if page.seen else INACTIVE)
            page.young, page.seen = False, True
            self._note(kind, 1)
            return
        self._move(key, page, None)
        page.shadow = self.age
        self.age += 1
        self.counted.reclaimed += 1
        if kind == ANON and not page.in_swap:
            page.in_swap = True
            self.counted.out += 1
            self._note(kind, BATCH)

    def _deactivate(self, kind: int) -> None:
        if self.lists[kind][ACTIVE]:
            key = next(iter(self.lists[kind][ACTIVE]))
            page = self.pages[key]
            self._move(key, page, INACTIVE)
            page.young, page.was_active = False, True
            page.seen = page.seen and kind == FILE

    def _note(self, kind: int, cost: float) -> None:
        self.cost[kind] += cost
        while sum(self.cost) > sum(map(len, self._all())) / 4 > 0:
            self.cost = [one / 2 for one in self.cost]

    def _move(self, key: tuple[int, int], page: Page, place: int | None) -> None:
        if page.place is not None:
            del self.lists[page.kind][page.place][key]
        if place is not None:
            self.lists[page.kind][place][key] = None
        page.place = place

    def _free(self, key: tuple[int, int]) -> None:
        if key in self.pages:
            self._move(key, self.pages[key], None)
            del self.pages[key]

    def _all(self) -> Iterator[OrderedDict[tuple[int, int], None]]:
        return (one for kind in self.lists for one in kind)
