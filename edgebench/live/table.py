"""The sampler's raw rows, read while they grow."""

from __future__ import annotations

import os
from array import array
from collections.abc import Sequence
from pathlib import Path

#: Read at most so much at once: what lies there already must not stall who watches.
_MOST_BYTES = 1 << 20


class RawTable:
    """A file of int64 rows that somebody appends to; -1 in a row is "not told".

    Args:
        path: the file; it may not be there yet, or not any more.
        columns: the names of a row's values, in order.
    """

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self.columns = tuple(columns)
        self._path = path
        self._at = 0

    def is_there(self) -> bool:
        """Whether the file is there, and for us to see."""
        try:
            self._path.lstat()
        except OSError:
            return False
        return True

    def fresh(self) -> array[int]:
        """The whole rows that came since the last call, one after the other."""
        step = 8 * len(self.columns)
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return array("q")
        try:
            data = os.pread(descriptor, _MOST_BYTES // step * step, self._at)
        except OSError:
            return array("q")
        finally:
            os.close(descriptor)
        whole = len(data) // step * step
        self._at += whole
        rows = array("q")
        rows.frombytes(data[:whole])
        return rows

    def newest(self, rows: array[int]) -> dict[str, int]:
        """Column → value of the last of these rows; without what the kernel doesn't tell."""
        last = rows[-len(self.columns) :]
        return {n: v for n, v in zip(self.columns, last, strict=False) if v >= 0 and n != "t_ns"}
