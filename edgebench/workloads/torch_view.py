"""What torch's own allocator hands out and takes back, as its profiler tells it.

The profiler begins once torch is imported. A marker at each boundary, on the profiler's own
clock, puts every allocation before or after it, however close they are.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from edgebench.measures.inside import ALLOCATIONS

#: What the name of a boundary's marker begins with.
MARKER = "edgebench-boundary-"


class TorchView:
    """Runs torch's profiler over the whole workload and writes its allocations to a file."""

    def __init__(self, folder: Path) -> None:
        self.gauges: dict[str, Callable[[], int]] = {}
        self._file = folder / ALLOCATIONS
        self._profiler: Any = None
        self._boundaries = 0

    def mark(self) -> int | None:
        """It has none: its peak is counted afterwards."""
        return None

    def reset(self) -> None:
        """Nothing to set back."""

    def look(self, whole: bool) -> dict[str, int]:
        """The number of this boundary in the profile; nothing before torch is there."""
        if self._profiler is None and not self._begin():
            return {}
        from torch.profiler import record_function

        self._boundaries += 1
        with record_function(f"{MARKER}{self._boundaries}"):
            pass
        return {"boundary": self._boundaries}

    def _begin(self) -> bool:
        if "torch" not in sys.modules:
            return False
        from torch.profiler import ProfilerActivity, profile

        self._profiler = profile(activities=[ProfilerActivity.CPU], profile_memory=True)
        self._profiler.start()
        return True

    @property
    def running(self) -> bool:
        """Whether the profiler has begun."""
        return self._profiler is not None

    def stopped(self) -> Any:
        """End the profile; its results."""
        self._profiler.stop()
        return self._profiler.profiler.kineto_results

    def close(self) -> None:
        """Write every allocation (bytes; a free is negative) and boundary, on one clock in ns."""
        if not self.running:
            return
        allocations: list[tuple[int, int]] = []
        boundaries: list[tuple[int, int]] = []
        for event in self.stopped().events():
            name = event.name()
            if name == "[memory]":
                allocations.append((event.start_ns(), event.nbytes()))
            elif name.startswith(MARKER):
                boundaries.append((event.start_ns(), int(name.removeprefix(MARKER))))
        told = {"allocations": sorted(allocations), "boundaries": sorted(boundaries)}
        self._file.write_text(json.dumps(told))
