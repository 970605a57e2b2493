"""Touching memory page by page without a numeric library, and asking the kernel where it is.

Everything is done a chunk at a time by ``memoryview``, which copies and strides in C: reading in
order runs at the speed of ``memcpy``, as reading weights does.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import random
from pathlib import Path

PAGE = mmap.PAGESIZE
CHUNK = 1 << 20
_BOTH = mmap.PROT_READ | mmap.PROT_WRITE


class Area:
    """So many bytes of memory: anonymous, or the tail of a file that is mapped.

    The tail, for the kernel reads ahead beyond what is scanned, and would take room for it.

    Args:
        size_bytes: a multiple of the page size.
        file: what to map, at least as large; None is anonymous memory.
    """

    def __init__(self, size_bytes: int, file: Path | None = None) -> None:
        fd = -1 if file is None else os.open(file, os.O_RDONLY)
        try:
            flags = mmap.MAP_PRIVATE | (mmap.MAP_ANONYMOUS if file is None else 0)
            # Private and writable, as the loaders map; a file's area is never written.
            offset = 0 if file is None else os.fstat(fd).st_size - size_bytes
            self._pages = mmap.mmap(fd, size_bytes, flags=flags, prot=_BOTH, offset=offset)
        finally:
            if fd >= 0:
                os.close(fd)
        self.size_bytes = size_bytes
        self._mapped = file is not None
        self._view = memoryview(self._pages)
        # Chunks differ by where in the pool they start, so that no two pages are the same.
        self._pool = os.urandom(CHUNK + PAGE)
        self._scratch = bytearray(CHUNK)

    def touch(self) -> int:
        """Write one byte to each page; returns the bytes that were touched, as all of these do."""
        for start in range(0, self.size_bytes, CHUNK):
            part = self._view[start : start + CHUNK : PAGE]
            part[:] = self._pool[: len(part)]
        return self.size_bytes

    def fill(self) -> int:
        """Write every byte, with what can't be compressed."""
        for number, start in enumerate(range(0, self.size_bytes, CHUNK)):
            part = self._view[start : start + CHUNK]
            offset = number * 61 % PAGE
            part[:] = self._pool[offset : offset + len(part)]
        return self.size_bytes

    def read(self) -> int:
        """Copy every byte out, in order."""
        for start in range(0, self.size_bytes, CHUNK):
            part = self._view[start : start + CHUNK]
            self._scratch[: len(part)] = part
        return self.size_bytes

    def read_anyhow(self, pages: int, seed: int) -> int:
        """Read a byte of each of so many pages, none of them twice, in an order by chance."""
        if self._mapped:
            # Or the kernel reads ahead around each page, and a fault can't be told from a transfer.
            self._pages.madvise(mmap.MADV_RANDOM)
        view = self._view
        count = self.size_bytes // PAGE
        for page in random.Random(seed).sample(range(count), min(pages, count)):
            view[page * PAGE]
        return min(pages, count) * PAGE

    def resident_bytes(self) -> int:
        """What of it is in RAM; of a file, in the page cache."""
        pages = self.size_bytes // PAGE
        vector = ctypes.create_string_buffer(pages)
        libc = ctypes.CDLL(None, use_errno=True)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._pages))
        if libc.mincore(ctypes.c_void_p(address), ctypes.c_size_t(self.size_bytes), vector):
            number = ctypes.get_errno()
            raise OSError(number, f"mincore: {os.strerror(number)}")
        # Bit 0 alone tells; the others are reserved.
        return sum(byte & 1 for byte in vector.raw) * PAGE

    def close(self) -> None:
        """Give the memory back."""
        self._view.release()
        self._pages.close()


def read_file(file: Path, size_bytes: int) -> int:
    """Read the tail of a file with ``read(2)``, in order."""
    scratch, done = bytearray(CHUNK), 0
    fd = os.open(file, os.O_RDONLY)
    try:
        os.lseek(fd, -size_bytes, os.SEEK_END)
        while got := os.readv(fd, [scratch]):
            done += got
    finally:
        os.close(fd)
    return done
