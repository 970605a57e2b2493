"""What the worker reads at the borders of its rounds: bytes in and out so far.

Nothing here makes the kernel flush the statistics by which it reclaims, as ``memory.stat`` does.
``/proc/self/io`` counts in ``read_bytes`` what the process had read from any block device, swap and
zram among them (Documentation/filesystems/proc.rst; ``submit_bio`` in block/blk-core.c). A page
that was in memory, or in the swap cache, is not counted. A reading takes some microseconds and no
memory that lasts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import NamedTuple

from edgebench.measures.view import Descriptors

#: Kinds of the descriptor ``swap_io``: the statistics of a device that holds swap alone; of one
#: whose writes alone are all swap's; the whole machine's counters.
ONLY_SWAP, SWAP_WRITES, VMSTAT = "device", "writes", "vmstat"
_OWN = "/proc/self/io"
#: Of ``/sys/block/NAME/stat`` (Documentation/block/stat.rst): sectors read and written.
_READ, _WRITTEN, _SECTOR = 2, 6, 512
_PAGE = os.sysconf("SC_PAGE_SIZE")
_MOST = 1 << 14
_READ_BYTES = re.compile(rb"^read_bytes: (\d+)", re.MULTILINE)
_SWAPPED = re.compile(rb"^pswpin (\d+)\npswpout (\d+)", re.MULTILINE)


class RoundCount(NamedTuple):
    """So far: read in all, of it from swap, written to swap; None: not told."""

    in_bytes: int | None
    swap_in_bytes: int | None
    out_bytes: int | None

    def since(self, before: RoundCount) -> RoundCount:
        """What came after an earlier reading."""
        return RoundCount(
            _more(self.in_bytes, before.in_bytes),
            _more(self.swap_in_bytes, before.swap_in_bytes),
            _more(self.out_bytes, before.out_bytes),
        )


class RoundCounters:
    """Reads them from descriptors that stay open.

    Args:
        descriptors: what the harness opened.
    """

    def __init__(self, descriptors: Descriptors) -> None:
        self._swap_fd, self._parse = descriptors["swap_io"], _PARSERS.get(descriptors["swap_kind"])
        try:
            self._own_fd: int | None = os.open(_OWN, os.O_RDONLY)
        except OSError:
            # A kernel without CONFIG_TASK_IO_ACCOUNTING.
            self._own_fd = None

    def read(self) -> RoundCount:
        """As they stand now."""
        swapped: tuple[int | None, int | None] = (None, None)
        if self._swap_fd is not None and self._parse is not None:
            swapped = self._parse(os.pread(self._swap_fd, _MOST, 0))
        return RoundCount(self._own(), *swapped)

    def _own(self) -> int | None:
        if self._own_fd is None:
            return None
        found = _READ_BYTES.search(os.pread(self._own_fd, _MOST, 0))
        return int(found[1]) if found else None


def _more(now: int | None, before: int | None) -> int | None:
    return None if now is None or before is None else now - before


def _of_device(text: bytes) -> tuple[int | None, int | None]:
    words = text.split()
    return int(words[_READ]) * _SECTOR, int(words[_WRITTEN]) * _SECTOR


def _of_writes(text: bytes) -> tuple[int | None, int | None]:
    return None, _of_device(text)[1]


def _of_machine(text: bytes) -> tuple[int | None, int | None]:
    found = _SWAPPED.search(text)
    return (int(found[1]) * _PAGE, int(found[2]) * _PAGE) if found else (None, None)


_PARSERS: dict[str, Callable[[bytes], tuple[int | None, int | None]]] = {
    ONLY_SWAP: _of_device,
    SWAP_WRITES: _of_writes,
    VMSTAT: _of_machine,
}
