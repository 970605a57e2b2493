"""The worker's half of the strategy ``categories``: torch's allocations, and who holds each.

The profiler records each allocation with its address. The workload reports which category lies at
which address (:meth:`edgebench.workloads.recorder.Recorder.holds`), and a marker puts that among
the allocations, on the profiler's own clock. A thread also records what the process and its cgroup
held when usage was highest.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from edgebench.measures.process_figures import (
    charged,
    glibc_heap,
    of_process,
    python_arenas,
    split_by_mapping,
)
from edgebench.measures.torch_profiler import ALLOCATIONS, MARKER, ProfilerView
from edgebench.measures.view import Descriptors

#: In the view's figures: the beginning of the names of those at the highest usage; the moment.
HIGHEST, MARKED = "highest_", "marked_ns"
#: What its file has: allocations, boundaries, what is held where, what lies past the allocator.
PROFILED = ("allocations", "boundaries", "held", "itself")
#: Between two readings of usage; the workload goes on meanwhile.
_PAUSE_S = 0.0001
_HELD, _ITSELF = "edgebench-held-", "edgebench-itself-"


class HighestUsage:
    """What the worker held when its cgroup's usage was highest between two boundaries.

    The kernel's mark says how high usage was, not when. So a thread of its own reads usage all the
    time, and whenever it is higher than before, what the process and the C library's allocator
    hold. That costs time, so it belongs in a trial that is not timed.

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
        """Start to look for the highest usage again."""
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


class CategoriesView(ProfilerView):
    """Runs torch's profiler over the whole workload, with each allocation's address."""

    with_memory = True
    wants_holders = True

    def __init__(self, folder: Path, descriptors: Descriptors) -> None:
        super().__init__(folder, descriptors)
        self._file = folder / ALLOCATIONS
        usage = descriptors["usage"]
        watched = (descriptors["stat"], descriptors["kernel"])
        self._highest = None if usage is None else HighestUsage(usage, *watched)

    def look(self, whole: bool) -> dict[str, int]:
        """The boundary, its moment, what is held there and was at the highest usage before it."""
        figures: dict[str, int] = {}
        if self._highest:
            seen = self._highest.taken()
            figures |= {f"{HIGHEST}{name}": size for name, size in seen.items()}
            figures |= self._highest.now()
        if whole:
            figures |= split_by_mapping() | python_arenas()
        figures |= super().look(whole)
        return {**figures, MARKED: time.monotonic_ns()}

    def reset(self) -> None:
        """Start to look for the highest usage again, as with the kernel's mark."""
        if self._highest:
            self._highest.begin()

    def holds(self, category: str, addresses: Iterable[int]) -> None:
        """Mark in the profile what lies at these addresses."""
        for address in addresses if self.running else ():
            self._mark(f"{_HELD}{category}-{address}")

    def holds_itself(self, category: str, size_bytes: int) -> None:
        """Mark in the profile that so much lies past torch's allocator."""
        if self.running:
            self._mark(f"{_ITSELF}{category}-{size_bytes}")

    def close(self) -> None:
        """Write every allocation, boundary and category with its time, on one clock in ns."""
        if self._highest:
            self._highest.stop()
        if not self.running:
            return
        results = self.stopped().profiler.kineto_results
        told: dict[str, list[Any]] = {name: [] for name in PROFILED}
        for event in _all(results.experimental_event_tree()):
            self._sort(event, told)
        self._file.write_text(json.dumps({name: sorted(rows) for name, rows in told.items()}))

    @staticmethod
    def _mark(name: str) -> None:
        from torch.profiler import record_function

        with record_function(name):
            pass

    def _sort(self, event: Any, told: dict[str, list[Any]]) -> None:
        from torch._C._profiler import _EventType

        t_ns = event.start_time_ns
        if event.tag == _EventType.Allocation:
            fields = event.extra_fields
            told["allocations"].append((t_ns, fields.ptr, fields.alloc_size))
        elif event.name.startswith(MARKER):
            told["boundaries"].append((t_ns, int(event.name.removeprefix(MARKER))))
        elif event.name.startswith(_HELD):
            category, address = event.name.removeprefix(_HELD).split("-")
            told["held"].append((t_ns, category, int(address)))
        elif event.name.startswith(_ITSELF):
            category, size = event.name.removeprefix(_ITSELF).split("-")
            told["itself"].append((t_ns, category, int(size)))


def _all(events: Iterable[Any]) -> Iterator[Any]:
    # A stack, since layers of a network nest deeper than Python may call.
    waiting = list(events)
    while waiting:
        event = waiting.pop()
        yield event
        waiting += event.children
