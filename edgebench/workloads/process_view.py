"""The worker's own process, and what its cgroup is charged for, at each boundary.

All of one look is read within milliseconds while the workload waits, so its figures may be
subtracted from each other. They are the kernel's own, in bytes; what it doesn't tell is left out.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from edgebench.workloads.kernel_figures import SELF, charged, lines, named, of_process
from edgebench.workloads.private_memory import (
    code_areas,
    glibc_heap,
    python_arenas,
    split_by_mapping,
)

#: Figure → its line in ``smaps_rollup``.
_ROLLUP = {
    "pss_bytes": "Pss",
    "private_clean_bytes": "Private_Clean",
    "private_dirty_bytes": "Private_Dirty",
}


class ProcessView:
    """Reads VmHWM, RSS and swap, PSS, ``memory.stat`` and the C library's own heap counters.

    Args:
        stat: descriptor of the cgroup's ``memory.stat``.
        kernel: descriptor of the kernel's memory on version 1.
    """

    def __init__(self, stat: int | None, kernel: int | None) -> None:
        self.gauges: dict[str, Callable[[], int]] = {}
        self._stat, self._kernel = stat, kernel
        self._others = Path(f"/proc/{os.getppid()}")
        self._clear = _opened(SELF / "clear_refs")

    def mark(self) -> int | None:
        """VmHWM: the most that was resident since the last reset; None if it can't be reset."""
        return None if self._clear is None else lines(SELF / "status").get("VmHWM")

    def reset(self) -> None:
        """Set VmHWM back to what is resident (``clear_refs`` ← 5, Linux 4.0)."""
        if self._clear is not None:
            os.pwrite(self._clear, b"5", 0)

    def look(self, whole: bool) -> dict[str, int]:
        """Everything it tells; the split by mapping, which takes longest, only of a phase."""
        figures = of_process() | charged(self._stat, self._kernel)
        figures |= named(lines(SELF / "smaps_rollup"), _ROLLUP)
        # GNU time waits in the same cgroup.
        others = of_process(self._others)
        figures |= {f"other_{name}": size for name, size in others.items()}
        figures |= glibc_heap() | code_areas()
        figures |= {name: read() for name, read in self.gauges.items()}
        if whole:
            figures |= split_by_mapping() | python_arenas()
        return figures

    def close(self) -> None:
        """Nothing more is read."""
        if self._clear is not None:
            os.close(self._clear)


def _opened(path: Path) -> int | None:
    """A descriptor to write to; None where the kernel was built without such a file."""
    try:
        return os.open(path, os.O_WRONLY)
    except OSError:
        return None
