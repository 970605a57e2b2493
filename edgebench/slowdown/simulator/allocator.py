"""What glibc's ``malloc`` does with memory that is freed, in its main arena.

The rules are those of glibc 2.36 for blocks of a page and more:

- What is freed stays in the heap, merged with free neighbours. A new block takes the smallest free
  piece that is large enough, else the heap's end (its *top*), else the heap grows.
- A block of at least the *mmap threshold* for which nothing is free gets a mapping of its own. It
  goes back to the kernel when it is freed. That raises the threshold to the block's size, up to
  32 MiB, and the trim threshold to twice that.
- When a large block is freed and the top is at least the *trim threshold*, the top goes back to the
  kernel, less a pad.
- Memory aligned to 64 bytes, as torch asks for it, is looked for with room to align it: what fits
  exactly is not found.

Blocks that are smaller than a page are not simulated: they come from lists of their own.
"""

from __future__ import annotations

import mmap
from bisect import bisect_left, insort
from collections.abc import Mapping
from dataclasses import dataclass

#: Both thresholds, and what is added whenever the heap grows, at first.
_DEFAULT_BYTES = 128 << 10
#: The mmap threshold rises to this at most (``DEFAULT_MMAP_THRESHOLD_MAX`` on 64 bits).
_MOST_THRESHOLD = 32 << 20
#: Mappings at once (``DEFAULT_MMAP_MAX``).
_MOST_MAPPINGS = 65536
#: Merged free pieces below this never cause a trim (``FASTBIN_CONSOLIDATION_THRESHOLD``).
_TRIMS_FROM = 64 << 10
#: A block's header, the least block, and what torch aligns to.
_HEADER, _LEAST_BLOCK, _ALIGNMENT = 16, 32, 64
#: What an aligned block is looked for with, beside its size.
_TO_ALIGN = _ALIGNMENT + _LEAST_BLOCK


@dataclass(frozen=True)
class MallocSettings:
    """glibc's parameters (``man 3 mallopt``), in bytes; ``adapts``: the mmap threshold rises."""

    mmap_threshold: int = _DEFAULT_BYTES
    trim_threshold: int = _DEFAULT_BYTES
    top_pad: int = _DEFAULT_BYTES
    mmap_max: int = _MOST_MAPPINGS
    adapts: bool = True


#: What a process has that sets none of them.
DEFAULTS = MallocSettings()
#: Among the settings of a workload: the variables of the allocator, where its trials had any.
MALLOC = "malloc"
#: Environment variable → the parameter that it sets.
_VARIABLES = {
    "MALLOC_MMAP_THRESHOLD_": "mmap_threshold",
    "MALLOC_TRIM_THRESHOLD_": "trim_threshold",
    "MALLOC_TOP_PAD_": "top_pad",
    "MALLOC_MMAP_MAX_": "mmap_max",
}


def malloc_settings(variables: Mapping[str, str]) -> MallocSettings:
    """The parameters of a process with these environment variables.

    Any of them keeps the mmap threshold where it is. What is no number is passed over, and a
    threshold above 32 MiB is refused, as glibc does.
    """
    told = {
        name: int(variables[variable])
        for variable, name in _VARIABLES.items()
        if variables.get(variable, "").strip().isdecimal()
    }
    adapts = not told
    if told.get("mmap_threshold", 0) > _MOST_THRESHOLD:
        del told["mmap_threshold"]
    return MallocSettings(**told, adapts=adapts)


def malloc_of(settings: Mapping[str, object]) -> MallocSettings:
    """The parameters that a workload's trials had."""
    return malloc_settings(parse_variables(str(settings.get(MALLOC) or "")))


def parse_variables(text: str) -> dict[str, str]:
    """Variables from ``NAME=value NAME=value``, as a curve's settings have them."""
    return dict(word.split("=", 1) for word in text.split() if "=" in word)


@dataclass(eq=False)
class HeapBlock:
    """Memory that was allocated: ``start`` in the heap, None if it has a mapping of its own.

    ``size`` is what it takes with its header, in bytes.
    """

    start: int | None
    size: int


class Heap:
    """The main arena of one process, and its mappings; addresses begin at 0."""

    def __init__(self, settings: MallocSettings) -> None:
        self._settings = settings
        self._mmap_threshold = settings.mmap_threshold
        self._trim_threshold = settings.trim_threshold
        #: Where the last block ends, and the heap.
        self._top = self._end = 0
        #: Free pieces below the top: sorted by size; by start; start by end.
        self._sizes: list[tuple[int, int]] = []
        self._free_at: dict[int, int] = {}
        self._free_before: dict[int, int] = {}
        self._mapped_bytes = self._mappings = 0

    @property
    def end(self) -> int:
        """Bytes from the heap's beginning to its end, free pieces and all."""
        return self._end

    @property
    def held_bytes(self) -> int:
        """What the process has from the kernel: heap and mappings."""
        return self._end + self._mapped_bytes

    def allocate(self, size: int) -> HeapBlock:
        """A block of so many bytes, aligned as torch asks for it."""
        wanted = _aligned(size + _HEADER, _ALIGNMENT)
        looked_for = _aligned(size + _HEADER // 2, _HEADER) + _TO_ALIGN
        place = bisect_left(self._sizes, (looked_for, 0))
        if place < len(self._sizes):
            found, start = self._sizes[place]
            self._take(start)
            if found - wanted >= _LEAST_BLOCK:
                self._put(start + wanted, found - wanted)
                return HeapBlock(start, wanted)
            return HeapBlock(start, found)
        if self._end - self._top < looked_for + _LEAST_BLOCK:
            if looked_for >= self._mmap_threshold and self._mappings < self._settings.mmap_max:
                return self._map(looked_for)
            grown = self._top + looked_for + self._settings.top_pad + _LEAST_BLOCK
            self._end = _aligned(grown, mmap.PAGESIZE)
        start, self._top = self._top, self._top + wanted
        return HeapBlock(start, wanted)

    def free(self, block: HeapBlock) -> None:
        """Give a block back to the allocator."""
        if block.start is None:
            self._unmap(block)
            return
        start, size = block.start, block.size
        if (after := start + size) in self._free_at:
            size += self._take(after)
        if start in self._free_before:
            start = self._free_before[start]
            size += self._take(start)
        if start + size == self._top:
            self._top = start
            size = self._end - start
        else:
            self._put(start, size)
        if size >= _TRIMS_FROM:
            self._trim()

    def _map(self, looked_for: int) -> HeapBlock:
        size = _aligned(looked_for + _HEADER // 2, mmap.PAGESIZE)
        self._mapped_bytes += size
        self._mappings += 1
        return HeapBlock(None, size)

    def _unmap(self, block: HeapBlock) -> None:
        self._mapped_bytes -= block.size
        self._mappings -= 1
        # Without what is before the aligned address.
        size = block.size - (_ALIGNMENT - _HEADER)
        if self._settings.adapts and self._mmap_threshold < size <= _MOST_THRESHOLD:
            self._mmap_threshold, self._trim_threshold = size, 2 * size

    def _trim(self) -> None:
        free = self._end - self._top
        to_spare = free - _LEAST_BLOCK - 1 - self._settings.top_pad
        if free >= self._trim_threshold and to_spare >= mmap.PAGESIZE:
            self._end -= to_spare // mmap.PAGESIZE * mmap.PAGESIZE

    def _put(self, start: int, size: int) -> None:
        insort(self._sizes, (size, start))
        self._free_at[start] = size
        self._free_before[start + size] = start

    def _take(self, start: int) -> int:
        size = self._free_at.pop(start)
        del self._free_before[start + size]
        del self._sizes[bisect_left(self._sizes, (size, start))]
        return size


def _aligned(size: int, to: int) -> int:
    return -(-size // to) * to
