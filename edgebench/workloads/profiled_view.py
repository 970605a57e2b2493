"""A worker's view by torch's profiler, with a marker in the profile at each boundary.

The profiler begins once torch is imported. The markers are on the profiler's own clock, so whatever
it tells lies before or after a boundary, however close they are.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

#: What the name of a boundary's marker begins with.
MARKER = "edgebench-boundary-"


class ProfiledView:
    """Runs torch's profiler over the whole workload."""

    def __init__(self, *, with_memory: bool) -> None:
        self.gauges: dict[str, Callable[[], int]] = {}
        self._profiler: Any = None
        self._with_memory = with_memory
        self._boundaries = 0

    def mark(self) -> int | None:
        """It has none: what it tells is made of the profile, afterwards."""
        return None

    def reset(self) -> None:
        """Nothing to set back."""

    def look(self, whole: bool) -> dict[str, int]:
        """The number of this boundary in the profile; nothing before torch is there."""
        if not self.running and not self._begin():
            return {}
        from torch.profiler import record_function

        self._boundaries += 1
        with record_function(f"{MARKER}{self._boundaries}"):
            pass
        return {"boundary": self._boundaries}

    @property
    def running(self) -> bool:
        """Whether the profiler has begun."""
        return self._profiler is not None

    def stopped(self) -> Any:
        """End the profile, and give the profiler itself."""
        self._profiler.stop()
        return self._profiler

    def _begin(self) -> bool:
        if "torch" not in sys.modules:
            return False
        from torch.profiler import ProfilerActivity, profile

        self._profiler = profile(
            activities=[ProfilerActivity.CPU], profile_memory=self._with_memory
        )
        self._profiler.start()
        return True
