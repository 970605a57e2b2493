"""What torch's operators take, as its profiler tells it: calls and own time, between boundaries."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import defaultdict
from pathlib import Path

from edgebench.measures.inside import OPERATORS_FILE
from edgebench.workloads.profiled_view import MARKER, ProfiledView


class OperatorView(ProfiledView):
    """Writes what each operator took to a file."""

    def __init__(self, folder: Path) -> None:
        super().__init__(with_memory=False)
        self._file = folder / OPERATORS_FILE

    def close(self) -> None:
        """Write a list of [boundary before it, operator, calls, own nanoseconds]."""
        if not self.running:
            return
        events = self.stopped().events()
        markers = sorted(
            (event.time_range.start, int(event.name.removeprefix(MARKER)))
            for event in events
            if event.name.startswith(MARKER)
        )
        times = [start for start, _ in markers]
        sums: dict[tuple[int, str], list[float]] = defaultdict(lambda: [0, 0.0])
        for event in events:
            place = bisect_right(times, event.time_range.start)
            if place and not event.name.startswith(MARKER):
                found = sums[markers[place - 1][1], event.name]
                found[0] += 1
                found[1] += event.self_cpu_time_total * 1000
        told = [[*key, int(calls), round(own_ns)] for key, (calls, own_ns) in sums.items()]
        self._file.write_text(json.dumps(told))
