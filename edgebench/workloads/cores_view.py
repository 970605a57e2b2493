"""On which cores the worker's threads spent their CPU time, read by the worker itself."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from edgebench.measures.inside import CORE_NS, LOOKED_NS

#: A thread's CPU clock as clock_gettime takes it: ``~TID << 3`` with these bits, "one thread,
#: as the scheduler counts" (Linux, include/linux/posix-timers_types.h).
_THREAD_CLOCK = 0b110
#: Its place in ``/proc/…/stat`` after the name, which may hold blanks: proc(5) counts it as 39.
_PROCESSOR = 39 - 3
_TASKS = Path("/proc/self/task")


class CoresView:
    """At each look, each thread's CPU time since the last goes to the core it is on.

    One that has moved since counts half for each of the two.
    """

    def __init__(self) -> None:
        self.gauges: dict[str, Callable[[], int]] = {}
        #: Thread → its CPU time, and its core.
        self._seen: dict[int, tuple[int, int]] = {}
        self._by_core: dict[int, int] = defaultdict(int)

    def mark(self) -> int | None:
        """It has none."""
        return None

    def look(self, whole: bool) -> dict[str, int]:
        """Nanoseconds on each core so far, by the core's number, and the moment."""
        own = threading.get_native_id()
        # Itself last: what looking takes is then least of all in the span that begins.
        threads = (int(folder.name) for folder in _TASKS.iterdir())
        for thread in sorted(threads, key=lambda one: one == own):
            self._add(thread)
        by_core = {f"{CORE_NS}{core}": used for core, used in self._by_core.items()}
        return {LOOKED_NS: time.monotonic_ns(), **by_core}

    def reset(self) -> None:
        """Nothing to set back."""

    def close(self) -> None:
        """Nothing to write: all of it is in the events."""

    def _add(self, thread: int) -> None:
        try:
            used = time.clock_gettime_ns(~thread << 3 | _THREAD_CLOCK)
            stat = (_TASKS / str(thread) / "stat").read_bytes()
        except OSError:
            # It ended meanwhile.
            return
        core = int(stat.rpartition(b")")[2].split()[_PROCESSOR])
        before, last = self._seen.get(thread, (0, core))
        # A smaller one is a new thread with a dead one's number.
        since = used - (before if before <= used else 0)
        self._by_core[last] += since // 2
        self._by_core[core] += since - since // 2
        self._seen[thread] = used, core
