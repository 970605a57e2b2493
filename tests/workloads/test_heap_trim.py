"""Free pages of the heap go back to the kernel where a workload asks for it, and only there."""

from __future__ import annotations

import ctypes
import platform

import psutil
import pytest

from edgebench.workloads.memory_settings import heap_trimmer

MIB = 1 << 20
#: Below what glibc maps by itself, so that it comes from the heap.
BLOCK, BLOCKS = 16 << 10, 4096


def resident_bytes() -> int:
    return int(psutil.Process().memory_info().rss)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has malloc_trim")
def test_freed_blocks_are_given_back_when_it_is_asked_for():
    """64 MiB of freed blocks below one in use: kept without the setting, given back with it."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.free.argtypes = [ctypes.c_void_p]
    blocks = [libc.malloc(BLOCK) for _ in range(BLOCKS)]
    for block in blocks:
        ctypes.memset(block, 1, BLOCK)
    last = libc.malloc(BLOCK)
    try:
        for block in blocks:
            libc.free(block)
        kept = resident_bytes()
        heap_trimmer({})()
        heap_trimmer({"malloc_trim": False})()
        assert resident_bytes() > kept - 16 * MIB
        heap_trimmer({"malloc_trim": True})()
        assert resident_bytes() < kept - 32 * MIB
    finally:
        libc.free(last)
