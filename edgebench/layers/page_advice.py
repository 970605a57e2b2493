"""What a process tells the kernel about its pages: keep them, read them ahead, drop them.

By address, as madvise(2) and mlock(2) take it: a tensor knows where it lies, not in which mapping.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

_LIBC = ctypes.CDLL(None, use_errno=True)
_PAGE = mmap.PAGESIZE
#: Since Linux 5.4; the module ``mmap`` has no names for them.
_MADV_COLD, _MADV_PAGEOUT = 20, 21
_PAGE_TABLE = Path("/proc/self/pagemap")
#: So many of its bytes are for a page.
_ENTRY = 8
#: So much is locked at a time.
_PIECE = 4 << 20


@dataclass(frozen=True)
class PageRange:
    """Whole pages: their first address, and bytes."""

    address: int
    length: int

    @property
    def end(self) -> int:
        """The address after them."""
        return self.address + self.length

    def split(self, length: int) -> tuple[PageRange, PageRange]:
        """The whole pages in the first ``length`` bytes, and the rest."""
        first = min(self.length, max(0, length) // _PAGE * _PAGE)
        return PageRange(self.address, first), PageRange(self.address + first, self.length - first)

    def pieces(self, length: int) -> Iterator[PageRange]:
        """All of it, so many bytes at a time."""
        rest = self
        while rest.length:
            piece, rest = rest.split(length)
            yield piece


def pages_of(tensors: Iterable[torch.Tensor]) -> list[PageRange]:
    """The pages in which tensors lie, in the order of their addresses, each once."""
    found: list[PageRange] = []
    for start, end in sorted(_around(tensor) for tensor in tensors if tensor.nbytes):
        if found and start <= found[-1].end:
            start, end = found[-1].address, max(end, found.pop().end)
        found.append(PageRange(start, end - start))
    return found


def _around(tensor: torch.Tensor) -> tuple[int, int]:
    """Pages belong to a mapping as a whole, so a page with other bytes in it is a tensor's too."""
    first, after = tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes
    return first // _PAGE * _PAGE, -(-after // _PAGE) * _PAGE


def lock(pages: PageRange) -> int:
    """Read these pages of a file, and have the kernel keep them until they are unmapped.

    In pieces: what is read ahead of a large range may be evicted before its turn comes.

    Returns:
        How many of its bytes, from the first on: fewer than all where there are no more, or where
        RLIMIT_MEMLOCK allows this user no more.
    """
    done = 0
    while done < pages.length:
        piece, _ = pages.split(done)[1].split(_PIECE)
        _advise(piece, mmap.MADV_WILLNEED)
        if _LIBC.mlock(ctypes.c_void_p(piece.address), ctypes.c_size_t(piece.length)):
            break
        done += piece.length
    return done


def expect_in_sequence(pages: PageRange) -> None:
    """They will be read from first to last: the kernel reads more ahead at a fault."""
    _advise(pages, mmap.MADV_SEQUENTIAL)


def expect_no_order(pages: PageRange) -> None:
    """Read no more at a fault than the page that is missing: somebody else reads ahead."""
    _advise(pages, mmap.MADV_RANDOM)


def read_ahead(pages: PageRange) -> None:
    """Have the kernel begin to read these pages of a file."""
    _advise(pages, mmap.MADV_WILLNEED)


def let_go_first(pages: PageRange) -> None:
    """When memory is short, these pages go before those that were not used for longer."""
    _advise(pages, _MADV_COLD)


def drop(pages: PageRange) -> None:
    """Give these pages of a file back now; a kernel that can't drops them when it needs room."""
    if not _advise(pages, _MADV_PAGEOUT):
        _advise(pages, mmap.MADV_DONTNEED)


def _advise(pages: PageRange, advice: int) -> bool:
    place = (ctypes.c_void_p(pages.address), ctypes.c_size_t(pages.length))
    return not pages.length or not _LIBC.madvise(*place, advice)


class PageTable:
    """Which pages this process has in its page tables (/proc/self/pagemap)."""

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
        """Not of a kernel without CONFIG_PROC_PAGE_MONITOR."""
        return self._fd is not None

    def mapped_bytes(self, pages: PageRange, step: int) -> list[int]:
        """How much of these pages of a file: of each ``step`` bytes, which are whole pages."""
        if self._fd is None:
            return [0] * -(-pages.length // step)
        read = os.pread(self._fd, pages.length // _PAGE * _ENTRY, pages.address // _PAGE * _ENTRY)
        # The bit of a page that is there is among the highest; without one they are all zero.
        highest = read[_ENTRY - 1 :: _ENTRY]
        parts = (highest[n : n + step // _PAGE] for n in range(0, len(highest), step // _PAGE))
        return [(len(part) - part.count(0)) * _PAGE for part in parts]
