"""What torch's operators take, as its profiler tells it: calls and own time, between boundaries.

The profiler begins once torch is imported. A marker at each boundary, on the profiler's own clock,
puts every operator's call between two of them.
"""

from __future__ import annotations

import json
import sys
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from edgebench.measures.inside import OPERATORS_FILE

_MARKER = "edgebench-boundary-"


class OperatorView:
    """Runs torch's profiler over the whole workload and writes what each operator took."""

    def __init__(self, folder: Path) -> None:
        self.gauges: dict[str, Callable[[], int]] = {}
        self._file = folder / OPERATORS_FILE
        self._profiler: Any = None
        self._boundaries = 0

    def mark(self) -> int | None:
        """It has none: it tells time, not memory."""
        return None

    def reset(self) -> None:
        """Nothing to set back."""

    def look(self, whole: bool) -> dict[str, int]:
        """The number of this boundary in the profile; nothing before torch is there."""
        if self._profiler is None and not self._begin():
            return {}
        from torch.profiler import record_function

        self._boundaries += 1
        with record_function(f"{_MARKER}{self._boundaries}"):
            pass
        return {"boundary": self._boundaries}

    def _begin(self) -> bool:
        if "torch" not in sys.modules:
            return False
        from torch.profiler import ProfilerActivity, profile

        self._profiler = profile(activities=[ProfilerActivity.CPU])
        self._profiler.start()
        return True

    def close(self) -> None:
        """Write a list of [boundary before it, operator, calls, own nanoseconds]."""
        if self._profiler is None:
            return
        self._profiler.stop()
        events = self._profiler.events()
        markers = sorted(
            (event.time_range.start, int(event.name.removeprefix(_MARKER)))
            for event in events
            if event.name.startswith(_MARKER)
        )
        times = [start for start, _ in markers]
        sums: dict[tuple[int, str], list[float]] = defaultdict(lambda: [0, 0.0])
        for event in events:
            place = bisect_right(times, event.time_range.start)
            if place and not event.name.startswith(_MARKER):
                found = sums[markers[place - 1][1], event.name]
                found[0] += 1
                found[1] += event.self_cpu_time_total * 1000
        told = [[*key, int(calls), round(own_ns)] for key, (calls, own_ns) in sums.items()]
        self._file.write_text(json.dumps(told))
