"""What a process tells the kernel about its pages: keep them, read them ahead, drop them.

By address, as madvise(2) and mlock(2) take it: a tensor knows where it lies, not in which mapping.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

_LIBC = ctypes.CDLL(None, use_errno=True)
_PAGE = mmap.PAGESIZE
#: Since Linux 5.4; the module ``mmap`` has no name for it.
_MADV_PAGEOUT = 21
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
    """They will be read from first to last, and not soon again: more is read ahead at a fault."""
    _advise(pages, mmap.MADV_SEQUENTIAL)


def read_ahead(pages: PageRange) -> None:
    """Have the kernel begin to read these pages of a file."""
    _advise(pages, mmap.MADV_WILLNEED)


def drop(pages: PageRange) -> None:
    """Give these pages of a file back now; a kernel that can't drops them when it needs room."""
    if not _advise(pages, _MADV_PAGEOUT):
        _advise(pages, mmap.MADV_DONTNEED)


def _advise(pages: PageRange, advice: int) -> bool:
    place = (ctypes.c_void_p(pages.address), ctypes.c_size_t(pages.length))
    return not pages.length or not _LIBC.madvise(*place, advice)


def total_bytes(pages: Sequence[PageRange]) -> int:
    """Their length together."""
    return sum(one.length for one in pages)
