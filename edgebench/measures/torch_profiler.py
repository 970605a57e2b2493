"""A view that runs torch's profiler in the worker, with a marker at each boundary of a span.

The profiler begins once torch is imported. The markers are on the profiler's own clock, so each of
its events lies before or after a boundary, however close they are.
"""

from __future__ import annotations

import json
import sys
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from edgebench.errors import ResultsError
from edgebench.measures.strategy import TrialData
from edgebench.measures.view import Descriptors, View
from edgebench.safe_reading import read_file

#: In the view's folder: torch's allocations.
ALLOCATIONS = "allocations.json"
#: The beginning of the name of a boundary's marker.
MARKER = "edgebench-boundary-"


class ProfilerView(View):
    """Runs torch's profiler over the whole workload."""

    #: Whether it records allocations.
    with_memory: ClassVar[bool] = False

    def __init__(self, folder: Path, descriptors: Descriptors) -> None:
        super().__init__(folder, descriptors)
        self._profiler: Any = None
        self._boundaries = 0

    def look(self, whole: bool) -> dict[str, int]:
        """The number of this boundary in the profile; nothing before torch is imported."""
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
        """Stop the profiler and return it."""
        self._profiler.stop()
        return self._profiler

    def _begin(self) -> bool:
        if "torch" not in sys.modules:
            return False
        from torch.profiler import ProfilerActivity, profile

        self._profiler = profile(activities=[ProfilerActivity.CPU], profile_memory=self.with_memory)
        self._profiler.start()
        return True


@dataclass(frozen=True)
class Timeline:
    """How many bytes were held after each change, in order of time."""

    times: list[int]
    held: list[int]

    def at(self, t_ns: int) -> int:
        """What was held just before a moment."""
        place = bisect_left(self.times, t_ns)
        return self.held[place - 1] if place else 0

    def most(self, start: int, end: int) -> int:
        """The most that was held between two moments."""
        inside = self.held[bisect_left(self.times, start) : bisect_left(self.times, end)]
        return max([self.at(start), *inside])


def span_times(trial: TrialData, boundaries: Mapping[int, int]) -> dict[int, tuple[int, int]]:
    """Span's id → its start and end on the profiler's clock, from its boundaries' numbers."""
    numbered = {
        span: tuple(event["view"]["boundary"] for event in events)
        for span, events in trial.looks("boundary").items()
    }
    return {
        span: (boundaries[start], boundaries[end])
        for span, (start, end) in numbered.items()
        if start in boundaries and end in boundaries
    }


def read_profile(trial: TrialData, name: str) -> Any:
    """What the view wrote to the file of that name in the trial's folder.

    Raises:
        ResultsError: there is none, or it is cut short.
    """
    try:
        return json.loads(read_file((trial.folder or Path()) / name))
    except FileNotFoundError:
        raise ResultsError("torch's profiler left no file: the worker ended before it") from None
    except (OSError, ValueError) as error:
        raise cut_short(error) from None


def cut_short(error: Exception) -> ResultsError:
    """The error for a profile that is not whole."""
    return ResultsError(f"torch's profile is cut short: {error}")
