"""The sampler's raw rows, read while they grow."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path

#: Read in pieces: large ones would stay with the process when they have been read. At most so many
#: at a time: what lies there already must not stall who watches.
_PIECE_BYTES, _MOST_PIECES = 1 << 16, 16


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

    def pieces(self) -> Iterator[array[int]]:
        """The whole rows that came since the last call, some at a time."""
        for _ in range(_MOST_PIECES):
            rows = self.fresh()
            if not rows:
                return
            yield rows

    def fresh(self) -> array[int]:
        """The next whole rows, one after the other; none where no more came."""
        step = 8 * len(self.columns)
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return array("q")
        try:
            data = os.pread(descriptor, _PIECE_BYTES // step * step, self._at)
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
