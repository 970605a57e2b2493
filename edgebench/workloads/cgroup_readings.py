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
        self._fds = descriptors
        #: The mark's; None where the kernel can't reset it.
        self.peak_fd = descriptors["peak"] if descriptors["peak_resets"] else None
        #: As last read: bytes in use, bytes in swap, and the mark, bytes.
        self.usage_bytes: int | None = None
        self.swap_bytes: int | None = None
        self.peak_bytes: int | None = None
        self._faults = -1

    @property
    def mark_rests(self) -> bool:
        """Whether the mark is the usage: as if it had just been reset."""
        return self.peak_bytes == self.usage_bytes

    def read(self, faults: int | None) -> None:
        """Read what may have changed.

        Args:
            faults: of the process so far; None: read the mark in any case.
        """
        usage, swap = self._number("usage"), self._number("swap")
        if self._fds["swap_is_memsw"] and usage is not None and swap is not None:
            swap = max(0, swap - usage)
        moved = faults is None or faults != self._faults or usage != self.usage_bytes
        self.usage_bytes, self.swap_bytes = usage, swap
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
        usage = self._number("usage")
        return None if limit_bytes is None or usage is None else max(0, limit_bytes - usage)

    def _number(self, name: str) -> int | None:
        fd = self._fds[name]  # type: ignore[literal-required]
        return None if fd is None else int(os.pread(fd, 32, 0))
