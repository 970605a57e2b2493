"""What torch's allocator hands out, where, and which part of training holds it.

As the view of torch's allocations, with addresses: the workload says which category lies where
(:meth:`edgebench.workloads.recorder.Recorder.holds`), and a marker puts that among the
allocations, on the profiler's own clock. Beside it, what else the process and its cgroup held when
usage was highest.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from edgebench.measures.inside import ALLOCATIONS, HIGHEST, MARKED, PROFILED
from edgebench.workloads.events import Descriptors
from edgebench.workloads.highest import Highest
from edgebench.workloads.private_memory import python_arenas, split_by_mapping
from edgebench.workloads.profiled_view import MARKER, ProfiledView

_HELD, _ITSELF = "edgebench-held-", "edgebench-itself-"


class CategoriesView(ProfiledView):
    """Runs torch's profiler over the whole workload, with each allocation's address.

    Args:
        folder: where its file goes.
        descriptors: what the harness opened.
    """

    def __init__(self, folder: Path, descriptors: Descriptors) -> None:
        super().__init__(with_memory=True)
        self._file = folder / ALLOCATIONS
        usage = descriptors["usage"]
        watched = (descriptors["stat"], descriptors["kernel"])
        self._highest = None if usage is None else Highest(usage, *watched)

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
        """The highest usage is looked for anew, as the kernel's mark is."""
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
