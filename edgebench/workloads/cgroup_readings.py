"""The cgroup's counters, read by the worker at the boundaries of its spans."""

from __future__ import annotations

import os

from edgebench.measures.view import Descriptors


class CgroupReadings:
    """Usage, swap and the high-water mark, read from descriptors that stay open.

    The mark is left unread where nothing can have moved it: the process has had no page fault since
    the boundary before, and usage is the same to the byte. Each charge of anonymous or mapped
    memory is a fault of a thread of the process. What else is charged (page cache, kernel memory,
    a process that it started) shows in usage; if it came and went in between, the mark is not
    reset, and the next boundary that reads it finds it.

    Args:
        descriptors: what the harness opened.
    """

    def __init__(self, descriptors: Descriptors) -> None:
        self._usage_fd, self._swap_fd = descriptors["usage"], descriptors["swap"]
        self._swap_is_memsw = descriptors["swap_is_memsw"]
        #: The mark's; None where the kernel can't reset it.
        self.peak_fd = descriptors["peak"] if descriptors["peak_resets"] else None
        #: As last read: bytes in use and in swap, the first of them alone, and the mark, bytes.
        self.seen: tuple[int | None, int | None] = (None, None)
        self.usage_bytes: int | None = None
        self.peak_bytes: int | None = None
        self._faults = -1

    def read(self, faults: int | None) -> None:
        """Read what may have changed.

        Args:
            faults: of the process so far; None: read the mark in any case.
        """
        usage = None if self._usage_fd is None else int(os.pread(self._usage_fd, 32, 0))
        swap = None if self._swap_fd is None else int(os.pread(self._swap_fd, 32, 0))
        if self._swap_is_memsw and usage is not None and swap is not None:
            swap = swap - usage if swap > usage else 0
        moved = faults is None or faults != self._faults or usage != self.usage_bytes
        self.seen, self.usage_bytes = (usage, swap), usage
        self._faults = -1 if faults is None else faults
        if self.peak_fd is None:
            self.peak_bytes = None
        elif moved or self.peak_bytes is None:
            self.peak_bytes = int(os.pread(self.peak_fd, 32, 0))

    def reset_mark(self) -> None:
        """Set the mark to the usage, where the kernel can."""
        if self.peak_fd is not None:
            os.pwrite(self.peak_fd, b"0", 0)
            self.peak_bytes = self.usage_bytes

    def free_bytes(self, limit_bytes: int | None) -> int | None:
        """What a limit leaves beside what is in use now; None without a limit or its counter."""
        usage = None if self._usage_fd is None else int(os.pread(self._usage_fd, 32, 0))
        return None if limit_bytes is None or usage is None else max(0, limit_bytes - usage)
