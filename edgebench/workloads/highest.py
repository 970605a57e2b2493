"""What the worker held when its cgroup's usage was highest between two boundaries.

The kernel's mark says how high, not when. So a thread reads usage all the time, and each time it is
higher than before, what the process and the C library's allocator hold at that moment. It costs
time, and belongs into a trial that is not timed.
"""

from __future__ import annotations

import os
import threading
import time

from edgebench.workloads.kernel_figures import charged, of_process
from edgebench.workloads.private_memory import glibc_heap

#: Between two readings of usage; the workload goes on meanwhile.
_PAUSE_S = 0.0001


class Highest:
    """Watches usage from a thread of its own.

    Args:
        usage: descriptor of the cgroup's usage.
        stat: of its ``memory.stat``.
        kernel: of the kernel's memory on version 1.
    """

    def __init__(self, usage: int, stat: int | None, kernel: int | None) -> None:
        self._usage, self._stat, self._kernel = usage, stat, kernel
        self._lock = threading.Lock()
        self._seen: dict[str, int] = {}
        self._through = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def begin(self) -> None:
        """From now on the highest is looked for anew."""
        with self._lock:
            self._seen = {}
        if not self._thread.is_alive():
            self._thread.start()

    def taken(self) -> dict[str, int]:
        """Moment, usage and figures when usage was highest, until now."""
        with self._lock:
            self._look()
            return self._seen

    def now(self) -> dict[str, int]:
        """What the process, its allocator and its cgroup hold at this moment."""
        return glibc_heap() | of_process() | charged(self._stat, self._kernel)

    def stop(self) -> None:
        """Watch no longer."""
        self._through.set()
        if self._thread.is_alive():
            self._thread.join()

    def _watch(self) -> None:
        while not self._through.wait(_PAUSE_S):
            with self._lock:
                self._look()

    def _look(self) -> None:
        usage = int(os.pread(self._usage, 32, 0))
        if usage > self._seen.get("usage_bytes", 0):
            moment = {"t_ns": time.monotonic_ns(), "usage_bytes": usage}
            self._seen = moment | self.now()
