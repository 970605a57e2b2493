"""A device made up: pages replaced by a known rule, each byte and fault at a known cost."""

from __future__ import annotations

import mmap
import random
from collections import OrderedDict
from dataclasses import dataclass, replace

from edgebench.slowdown.calibration import FITS, WIDE, Scan

PAGE = mmap.PAGESIZE
FRAMES = 1000


class LruMemory:
    """So many frames, of which the page used longest ago is dropped."""

    def __init__(self, frames: int) -> None:
        self._frames = frames
        self._pages: OrderedDict[int, None] = OrderedDict()

    def touch(self, page: int) -> bool:
        missing = page not in self._pages
        if missing and len(self._pages) == self._frames:
            self._pages.popitem(last=False)
        self._pages[page] = None
        self._pages.move_to_end(page)
        return missing


@dataclass(frozen=True)
class Device:
    """What it costs. ``rho`` pages come in by a fault in order; by chance, 1."""

    in_s: float = 2e-9
    out_s: float = 3e-9
    fault_s: float = 80e-6
    rho: float = 8.0
    ram_s: float = 1e-10
    minor_s: float = 1e-6
    noise: float = 0.0
    keeps_slots: bool = True

    def scans(self, number: int = 0) -> list[Scan]:
        rng = random.Random(number)
        scans = self._anon(number, FITS, ["touch", "fill", "read", "read", "write", "random"])
        scans += self._anon(number, WIDE, ["fill", "read", "read", "write", "random"])
        scans += self._file(number)
        return [
            replace(scan, seconds=scan.seconds * (1 + self.noise * rng.gauss(0, 1)))
            for scan in scans
        ]

    def _anon(self, block: int, share: float, names: list[str]) -> list[Scan]:
        pages, memory = int(share * FRAMES), LruMemory(FRAMES)
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
            made.append(Scan(block, "anon", share, name, number, *sizes, seconds, *moved))
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
            Scan(block, "file", FITS, "read", 1, fits, fits, FRAMES * PAGE, *warm),
            Scan(block, "file", WIDE, "copy", 0, *sizes, size * 1e-9, size, 0, 0),
            Scan(block, "file", WIDE, "map", 0, *sizes, mapped, size, 0, faults),
            Scan(
                *(block, "file", WIDE, "random", 0, size, few * PAGE, few * PAGE),
                *(by_chance, few * PAGE, 0, few),
            ),
        ]
