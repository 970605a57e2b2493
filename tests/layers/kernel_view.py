"""What the kernel tells about pages, for the tests of advice to it."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable
from pathlib import Path

from edgebench.layers.stream import PageRange

PAGE = os.sysconf("SC_PAGE_SIZE")


def resident_bytes(pages: PageRange) -> int:
    inside, found = False, 0
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first = line.split()[0]
        if "-" in first:
            start, end = (int(word, 16) for word in first.split("-"))
            inside = start < pages.end and pages.address < end
        elif inside and first == "Rss:":
            found += int(line.split()[1]) * 1024
    return found


def cached_bytes(pages: PageRange) -> int:
    found = ctypes.create_string_buffer(pages.length // PAGE)
    place = ctypes.c_void_p(pages.address), ctypes.c_size_t(pages.length)
    assert ctypes.CDLL(None, use_errno=True).mincore(*place, found) == 0
    return sum(byte & 1 for byte in found.raw) * PAGE


def becomes(is_so: Callable[[], bool]) -> bool:
    """Whether it becomes so within some minutes."""
    end = time.monotonic() + 200
    while not is_so():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True
