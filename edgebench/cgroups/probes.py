"""Programs that run inside a cgroup and show what it, or a disk held for it, does.

``python -I -S probes.py pages BYTES MORE_BYTES`` fills memory with active pages only (see
:mod:`edgebench.cgroups.kernel_checks`). Each page is marked accessed twice, through
``process_vm_readv`` of the process's own memory (``mm/gup.c`` marks what it pins), which moves it
from the inactive to the active list. It touches BYTES, then MORE_BYTES page by page. Exit code 0:
all of it was there; 3: the system call is not allowed.

``python -I -S probes.py disk DESCRIPTOR DIRECTION WAY…`` reads or writes a file past the page
cache, and prints how fast, as JSON. Each way is ``PATTERN:REQUEST_BYTES:DEPTH:SECONDS``. The
descriptor is of the file, opened by the harness: a name could lead elsewhere by now.

Both import nothing of edgebench, and only what they need: the first fills a small limit.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: The kernel's largest number of pieces a call (IOV_MAX).
_MOST_PIECES = 1024


class _Piece(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def fill_with_active_pages(size: int, more: int) -> int:
    """Touch and activate the pages; return the exit code."""
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


def measure_disk(file: str, direction: str, way: str) -> dict[str, float | None]:
    """Make requests one way for its time, from ``depth`` threads at once.

    The kernel lets the first requests of an idle cgroup pass at once, so a tenth of the time goes
    before they count.
    """
    import threading

    pattern, *numbers = way.split(":")
    request_bytes, depth, seconds = int(numbers[0]), int(numbers[1]), float(numbers[2])
    flags = os.O_RDONLY if direction == "read" else os.O_RDWR
    descriptor = os.open(f"/proc/self/fd/{file}", flags | os.O_DIRECT)
    # A block device has no size in its status.
    size_bytes = os.lseek(descriptor, 0, os.SEEK_END)
    next_offset = _offsets(pattern, size_bytes // request_bytes, request_bytes)
    request = os.preadv if direction == "read" else os.pwritev
    counted_s = time.monotonic() + seconds / 10
    end_s = counted_s + seconds
    #: When each request ended, and how long it took.
    done: list[tuple[float, float]] = []

    def work() -> None:
        # Direct I/O needs memory at a page's start.
        area = mmap.mmap(-1, request_bytes)
        if direction == "write":
            area.write(os.urandom(request_bytes))
        while (began := time.monotonic()) < end_s:
            request(descriptor, [area], next_offset())
            ended = time.monotonic()
            done.append((ended, ended - began))

    threads = [threading.Thread(target=work) for _ in range(depth)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    os.close(descriptor)
    ends = sorted(ended for ended, _ in done if ended >= counted_s)
    latencies = sorted(latency for ended, latency in done if ended >= counted_s)
    iops = _rate(ends)
    latency_s = latencies[len(latencies) // 2] if latencies else None
    return {"bps": iops * request_bytes, "iops": iops, "latency_s": latency_s}


def _offsets(pattern: str, count: int, request_bytes: int) -> Callable[[], int]:
    import itertools
    import random

    if pattern == "random":
        anywhere = random.Random()
        return lambda: anywhere.randrange(count) * request_bytes
    # One call of C: no two threads get the same number.
    numbers = itertools.count()
    return lambda: next(numbers) % count * request_bytes


def _rate(ends: list[float]) -> float:
    """Fit requests a second: the slope of their number over time, by least squares.

    Held requests end in bursts; between the first one's end and the last one's, one burst too
    many would count.
    """
    if len(ends) < 2:
        return 0.0
    mean_s, mean = sum(ends) / len(ends), (len(ends) - 1) / 2
    spread = sum((end - mean_s) ** 2 for end in ends)
    both = sum((end - mean_s) * (number - mean) for number, end in enumerate(ends))
    return both / spread if spread else 0.0


def main(words: list[str]) -> int:
    """Run the program of that name; return the exit code."""
    if words[0] == "pages":
        return fill_with_active_pages(int(words[1]), int(words[2]))
    import json

    _, file, direction, *ways = words
    results = [measure_disk(file, direction, way) for way in ways]
    os.write(1, json.dumps(results).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
