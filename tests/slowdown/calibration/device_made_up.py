"""A device made up: pages replaced by a known rule, each byte and fault at a known cost."""

from __future__ import annotations

import mmap
import random
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace

from edgebench.slowdown.calibration.scans import FITS, WIDE, Block, Scan

PAGE = mmap.PAGESIZE
FRAMES = 1000
SHARES = (1.1, 1.25, 1.5, WIDE)


class LruMemory:
    """So many frames, of which the page used longest ago is dropped."""

    def __init__(self, frames: int) -> None:
        self._frames = frames
        self._pages: OrderedDict[int, None] = OrderedDict()

    def touch(self, page: int) -> bool:
        """Whether the page was missing."""
        missing = page not in self._pages
        if missing and len(self._pages) == self._frames:
            self._pages.popitem(last=False)
        self._pages[page] = None
        self._pages.move_to_end(page)
        return missing


class CyclicOptimalMemory:
    """Belady's rule where pages come in a cycle: the page just used comes back last of all."""

    def __init__(self, frames: int) -> None:
        self._frames = frames
        self._pages: set[int] = set()
        self._last = -1

    def touch(self, page: int) -> bool:
        """Whether the page was missing."""
        missing = page not in self._pages
        if missing and len(self._pages) == self._frames:
            self._pages.remove(self._last)
        self._pages.add(page)
        self._last = page
        return missing


Memory = LruMemory | CyclicOptimalMemory


@dataclass(frozen=True)
class Device:
    """What it costs. ``rho`` pages come in by a fault in order; by chance, 1."""

    make_memory: Callable[[int], Memory] = LruMemory
    in_s: float = 2e-9
    out_s: float = 3e-9
    fault_s: float = 80e-6
    rho: float = 8.0
    ram_s: float = 1e-10
    minor_s: float = 1e-6
    noise: float = 0.0
    keeps_slots: bool = True

    def block(self, number: int = 0) -> Block:
        """All passes of one block, as a calibration with swap makes them."""
        rng = random.Random(number)
        scans = self._anon(number, FITS, ["touch", "fill", "read", "read", "write", "random"])
        for share in SHARES:
            scans += self._anon(number, share, ["fill", "read", "read", "read", "write", "random"])
        scans += self._file(number)
        noisy = [
            replace(scan, seconds=scan.seconds * (1 + self.noise * rng.gauss(0, 1)))
            for scan in scans
        ]
        return Block(tuple(noisy))

    def _anon(self, block: int, share: float, names: list[str]) -> list[Scan]:
        pages, memory = int(share * FRAMES), self.make_memory(FRAMES)
        for page in range(pages):
            memory.touch(page)
        counts: dict[str, int] = {}
        made = []
        for name in names:
            order = list(range(pages))
            if name == "random":
                order = random.Random(block).sample(order, pages // 4)
            missed = sum(memory.touch(page) for page in order)
            came = 0 if name in ("touch", "fill") else missed
            faults = came / (1 if name == "random" else self.rho)
            dirty = name in ("write", "fill") or not self.keeps_slots
            out = max(0, pages - FRAMES) if name == "fill" else came * dirty
            if name == "touch":
                # One byte a page: the kernel's work alone.
                out, seconds = 0, pages * self.minor_s
            else:
                seconds = len(order) * PAGE * self.ram_s + came * PAGE * self.in_s
                seconds += out * PAGE * self.out_s + faults * self.fault_s
                seconds += pages * self.minor_s * (name == "fill" and share > FITS)
            sizes = (pages * PAGE, min(pages, FRAMES) * PAGE, len(order) * PAGE)
            number = counts[name] = counts.get(name, -1) + 1
            moved = (came * PAGE, out * PAGE, round(faults))
            made.append(Scan("0", block, "anon", share, name, number, *sizes, seconds, *moved))
        return made

    def _file(self, block: int) -> list[Scan]:
        """A file: 1 ns a byte read, 1.5 ns mapped, 32 pages and 50 µs a fault."""
        size = int(WIDE * FRAMES) * PAGE
        sizes = (size, FRAMES * PAGE, size)
        faults, few = int(WIDE * FRAMES) // 32, 250
        warm = (FRAMES * PAGE * self.ram_s, 0, 0, 0)
        fits = int(FITS * FRAMES) * PAGE
        by_chance = few * (PAGE * (1.5e-9 + self.ram_s) + 50e-6)
        mapped = size * (1.5e-9 + self.ram_s) + faults * 50e-6
        return [
            Scan("0", block, "file", FITS, "read", 1, fits, fits, FRAMES * PAGE, *warm),
            Scan("0", block, "file", WIDE, "copy", 0, *sizes, size * 1e-9, size, 0, 0),
            Scan("0", block, "file", WIDE, "map", 0, *sizes, mapped, size, 0, faults),
            Scan(
                *("0", block, "file", WIDE, "random", 0, size, few * PAGE, few * PAGE),
                *(by_chance, few * PAGE, 0, few),
            ),
            *(
                Scan(
                    "0",
                    block,
                    "file",
                    share,
                    "read",
                    n,
                    *_sizes(share),
                    0.1,
                    *_sizes(share)[:1],
                    0,
                    9,
                )
                for share in SHARES
                for n in (0, 1, 2)
            ),
        ]


def _sizes(share: float) -> tuple[int, int, int]:
    size = int(share * FRAMES) * PAGE
    return size, FRAMES * PAGE, size
