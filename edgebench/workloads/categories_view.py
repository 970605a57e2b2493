"""What torch's allocator hands out, where, and which part of training holds it.

As the view of torch's allocations, with addresses: the workload says which category lies where
(:meth:`edgebench.workloads.recorder.Recorder.holds`), and a marker puts that among the
allocations, on the profiler's own clock.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from edgebench.measures.inside import ALLOCATIONS
from edgebench.workloads.profiled_view import MARKER, ProfiledView

_HELD = "edgebench-held-"


class CategoriesView(ProfiledView):
    """Runs torch's profiler over the whole workload, with each allocation's address."""

    def __init__(self, folder: Path) -> None:
        super().__init__(with_memory=True)
        self._file = folder / ALLOCATIONS

    def holds(self, category: str, addresses: Iterable[int]) -> None:
        """Mark in the profile what lies at these addresses."""
        if not self.running:
            return
        from torch.profiler import record_function

        for address in addresses:
            with record_function(f"{_HELD}{category}-{address}"):
                pass

    def close(self) -> None:
        """Write every allocation, boundary and category with its time, on one clock in ns."""
        if not self.running:
            return
        results = self.stopped().profiler.kineto_results
        told: dict[str, list[Any]] = {"allocations": [], "boundaries": [], "held": []}
        for event in _all(results.experimental_event_tree()):
            self._sort(event, told)
        self._file.write_text(json.dumps({name: sorted(rows) for name, rows in told.items()}))

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


def _all(events: Iterable[Any]) -> Iterator[Any]:
    # A stack, since layers of a network nest deeper than Python may call.
    waiting = list(events)
    while waiting:
        event = waiting.pop()
        yield event
        waiting += event.children
