"""memray inside the worker: it records every allocation, and a mark at each boundary."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from pathlib import Path

from edgebench.measures.inside import MARK_BYTES, RECORD

#: How often memray notes its time and the heap's size.
INTERVAL_MS = 5


class MemrayView:
    """Tracks the worker with memray from before the runtime's import to the workload's end."""

    def __init__(self, folder: Path) -> None:
        import memray

        self.gauges: dict[str, Callable[[], int]] = {}
        self._boundaries = 0
        self._tracker = memray.Tracker(
            folder / RECORD, native_traces=True, memory_interval_ms=INTERVAL_MS
        )
        self._tracker.__enter__()

    def mark(self) -> int | None:
        """It has none: its peak is counted afterwards."""
        return None

    def reset(self) -> None:
        """Nothing to set back."""

    def look(self, whole: bool) -> dict[str, int]:
        """Mark this boundary among the allocations; its number."""
        self._boundaries += 1
        size = MARK_BYTES + self._boundaries * mmap.PAGESIZE
        # Private and read-only: the kernel reserves nothing for it.
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        mmap.mmap(-1, size, flags=flags, prot=mmap.PROT_READ).close()
        return {"boundary": self._boundaries}

    def close(self) -> None:
        """Write out what is recorded."""
        self._tracker.__exit__(None, None, None)
