"""Fill memory with active pages only: ``python -I -S active_pages.py BYTES MORE_BYTES``.

Runs inside a small limit (see :mod:`edgebench.cgroups.kernel_checks`). Each page is marked accessed
twice, through ``process_vm_readv`` of the process's own memory (``mm/gup.c`` marks what it pins),
which moves it from the inactive to the active list. Touches BYTES so, and then MORE_BYTES page by
page. Exit code 0: all of it was there; 3: the system call is not allowed.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import sys

#: The kernel's largest number of pieces a call (IOV_MAX).
_MOST_PIECES = 1024


class _Piece(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def main(size: int, more: int) -> int:
    """Touch and activate; the exit code."""
    area = mmap.mmap(-1, size + more, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        # A kernel without huge pages has none to switch off.
        with contextlib.suppress(OSError):
            area.madvise(mmap.MADV_NOHUGEPAGE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(area))
    read = ctypes.CDLL(None, use_errno=True).process_vm_readv
    read.restype = ctypes.c_ssize_t
    bytes_read = ctypes.create_string_buffer(_MOST_PIECES)
    into, pages = _Piece(ctypes.addressof(bytes_read), 0), (_Piece * _MOST_PIECES)()
    process, target, pieces = os.getpid(), ctypes.byref(into), ctypes.byref(pages)

    def activate(first: int, count: int) -> bool:
        for piece in range(count):
            address = start + first + piece * mmap.PAGESIZE
            pages[piece].base, pages[piece].length = address, 1
        into.length = count
        return all(read(process, target, 1, pieces, count, 0) == count for _ in range(2))

    def touch(first: int, end: int, count: int) -> bool:
        for offset in range(first, end, count * mmap.PAGESIZE):
            for page in range(offset, min(end, offset + count * mmap.PAGESIZE), mmap.PAGESIZE):
                area[page] = 1
            if not activate(offset, min(count, (end - offset) // mmap.PAGESIZE)):
                return False
        return True

    return 0 if touch(0, size, _MOST_PIECES) and touch(size, size + more, 1) else 3


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
