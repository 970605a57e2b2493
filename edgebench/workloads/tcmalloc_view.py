"""gperftools' heap profiler from inside the worker: a dump of the heap at each boundary."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from edgebench.measures.inside import DUMP

#: A dump takes a good part of a second: where less than this has changed, the last one serves.
_CHANGE_BYTES = 64 << 10


class TcmallocView:
    """Has the preloaded profiler dump the heap at each boundary, whose number is the dump's."""

    def __init__(self, folder: Path) -> None:
        self.gauges: dict[str, Callable[[], int]] = {}
        self._folder = folder
        # Not there if the preload had no effect: then nothing is dumped, and the reader says why.
        self._dump: Any = getattr(ctypes.CDLL(None), "HeapProfilerDump", None)
        self._number: int | None = None
        self._live = (0, 0)

    def mark(self) -> int | None:
        """It has none: its peak is read from the dumps."""
        return None

    def reset(self) -> None:
        """Nothing to set back."""

    def look(self, whole: bool) -> dict[str, int]:
        """Dump the heap, unless it is as it was; dumps are numbered in the order of allocation."""
        if self._dump is None:
            return {}
        live = (_allocated(), sum(read() for read in self.gauges.values()))
        changed = abs(live[0] - self._live[0]) >= _CHANGE_BYTES or live[1] != self._live[1]
        if changed or self._number is None:
            self._dump(b"boundary")
            self._number, self._live = self._latest(), live
        return {} if self._number is None else {"boundary": self._number}

    def _latest(self) -> int | None:
        names = (DUMP.fullmatch(path.name) for path in self._folder.iterdir())
        mine = (name for name in names if name and name[1] in (None, str(os.getpid())))
        return max((int(name[2]) for name in mine), default=None)

    def close(self) -> None:
        """Nothing to write: each dump is whole."""


def _allocated() -> int:
    """Bytes that tcmalloc has given out and not got back, its rounding included."""
    size = ctypes.c_size_t()
    ctypes.CDLL(None).MallocExtension_GetNumericProperty(
        b"generic.current_allocated_bytes", ctypes.byref(size)
    )
    return size.value
