"""What this process tells the kernel about pages of memory: keep, read ahead or drop them.

Pages are given by address, as madvise(2) and mlock(2) take them: a tensor knows its address, not
its mapping.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

#: Pages will be read from first to last: the kernel reads more ahead at a fault.
SEQUENTIAL = mmap.MADV_SEQUENTIAL
#: The kernel reads only the missing page at a fault: somebody else reads ahead.
RANDOM = mmap.MADV_RANDOM
#: The kernel starts to read these pages of a file now; the call doesn't wait for them.
READ_AHEAD = mmap.MADV_WILLNEED
#: The kernel takes these pages at once. Linux 5.4 has it; ``mmap`` does not.
_PAGEOUT = 21
_LIBC = ctypes.CDLL(None, use_errno=True)
_PAGE = mmap.PAGESIZE
_PAGE_TABLE = Path("/proc/self/pagemap")
#: Bytes of the page table for one page.
_ENTRY = 8
#: Bytes that are locked at a time.
_PIECE = 4 << 20


@dataclass(frozen=True)
class PageRange:
    """Whole pages: the address of the first, and their bytes."""

    address: int
    length: int

    @property
    def end(self) -> int:
        """The address after them."""
        return self.address + self.length

    def split(self, length: int) -> tuple[PageRange, PageRange]:
        """Split off the whole pages in the first ``length`` bytes; returns them and the rest."""
        first = min(self.length, max(0, length) // _PAGE * _PAGE)
        return PageRange(self.address, first), PageRange(self.address + first, self.length - first)

    def pieces(self, length: int) -> Iterator[PageRange]:
        """All of it, in pieces of ``length`` bytes."""
        rest = self
        while rest.length:
            piece, rest = rest.split(length)
            yield piece


def pages_of(tensors: Iterable[torch.Tensor]) -> list[PageRange]:
    """Find the pages that hold these tensors, by address, each once.

    A page belongs to one mapping, so a page with other bytes in it counts as the tensor's too.
    """
    bounds = sorted(
        (start // _PAGE * _PAGE, -(-(start + tensor.nbytes) // _PAGE) * _PAGE)
        for tensor in tensors
        if tensor.nbytes
        for start in [tensor.data_ptr()]
    )
    ranges: list[PageRange] = []
    for start, end in bounds:
        if ranges and start <= ranges[-1].end:
            start, end = ranges[-1].address, max(end, ranges.pop().end)
        ranges.append(PageRange(start, end - start))
    return ranges


def advise(pages: PageRange, advice: int) -> bool:
    """Give the kernel this advice; whether it took it."""
    place = (ctypes.c_void_p(pages.address), ctypes.c_size_t(pages.length))
    return not pages.length or not _LIBC.madvise(*place, advice)


def drop(pages: PageRange) -> None:
    """Give back these pages of a file now; an older kernel drops them when it needs room."""
    if not advise(pages, _PAGEOUT):
        advise(pages, mmap.MADV_DONTNEED)


def lock(pages: PageRange) -> int:
    """Read these pages of a file, and have the kernel keep them until they are unmapped.

    In pieces: pages that are read ahead of a large range may be evicted before their turn.

    Returns:
        How many bytes, from the first on, are locked: fewer where RLIMIT_MEMLOCK allows no more.
    """
    done = 0
    while done < pages.length:
        piece, _ = pages.split(done)[1].split(_PIECE)
        advise(piece, READ_AHEAD)
        if _LIBC.mlock(ctypes.c_void_p(piece.address), ctypes.c_size_t(piece.length)):
            break
        done += piece.length
    return done


class PageTable:
    """Which pages this process has in its page table (/proc/self/pagemap)."""

    def __init__(self) -> None:
        try:
            self._fd: int | None = os.open(_PAGE_TABLE, os.O_RDONLY)
        except OSError:
            self._fd = None

    def __enter__(self) -> PageTable:
        return self

    def __exit__(self, *error: object) -> None:
        if self._fd is not None:
            os.close(self._fd)

    @property
    def is_readable(self) -> bool:
        """False on a kernel without CONFIG_PROC_PAGE_MONITOR."""
        return self._fd is not None

    def mapped_bytes(self, pages: PageRange, step: int) -> list[int]:
        """How many bytes are mapped of each ``step`` bytes; a step is whole pages."""
        if self._fd is None:
            return [0] * -(-pages.length // step)
        read = os.pread(self._fd, pages.length // _PAGE * _ENTRY, pages.address // _PAGE * _ENTRY)
        # The bit of a mapped page is in the highest byte, which is zero for the others.
        highest = read[_ENTRY - 1 :: _ENTRY]
        parts = (highest[n : n + step // _PAGE] for n in range(0, len(highest), step // _PAGE))
        return [(len(part) - part.count(0)) * _PAGE for part in parts]
