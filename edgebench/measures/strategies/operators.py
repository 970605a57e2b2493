"""Where a workload's time goes, by operator: the engine's own profiler, in a trial of its own.

It measures no memory. It is a strategy because it, too, reads inside the worker and slows it down.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import defaultdict
from pathlib import Path

from edgebench.errors import ResultsError
from edgebench.measures.strategy import (
    SEPARATOR,
    Reading,
    TimeStrategy,
    TrialData,
    registered_strategy,
)
from edgebench.measures.torch_profiler import MARKER, ProfilerView, cut_short, read_profile
from edgebench.measures.view import Descriptors

CALLS, OWN_NS = "calls", "own_ns"
#: What a worker notes of an engine without a profiler: the reason.
_NO_OPERATOR_TIMES = "no_operator_times"
_FILE = "operators.json"


class OperatorView(ProfilerView):
    """Writes what each operator took to a file."""

    def __init__(self, folder: Path, descriptors: Descriptors) -> None:
        super().__init__(folder, descriptors)
        self._folder, self._file = folder, folder / _FILE
        self._of_engine: list[tuple[str, str, int, int]] = []

    @property
    def profile_folder(self) -> Path:
        """The folder of its file."""
        return self._folder

    def operator_time(self, phase: str, operator: str, calls: int, own_ns: int) -> None:
        """Keep it for the file."""
        self._of_engine.append((phase, operator, calls, own_ns))

    def close(self) -> None:
        """Write a list of [boundary before it, operator, calls, own nanoseconds].

        What an engine's own profiler told has its phase in place of a boundary.
        """
        if self._of_engine:
            self._file.write_text(json.dumps(self._of_engine))
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


@registered_strategy
class Operators(TimeStrategy):
    """How often each of torch's operators was called within rounds, and its own time in all."""

    name = "operators"
    view = OperatorView
    title = "operators"
    counts = "no memory: calls of the engine's operators, and the time spent in each one itself"
    blind_to = "what executes outside the operators: Python between them, the loader's reads"
    method = "the profiler of torch or of ONNX Runtime"

    def read(self, trial: TrialData) -> Reading:
        """From the file the worker left: parts ``phase|operator|calls`` and ``…|own_ns``.

        Raises:
            ResultsError: the engine has no profiler, there is no file, or it is cut short.
        """
        notes = trial.record.notes if trial.record else {}
        if reason := notes.get(_NO_OPERATOR_TIMES):
            raise ResultsError(reason)
        phases = _phases(trial)
        parts: dict[str, int] = defaultdict(int)
        try:
            for place, operator, calls, own_ns in read_profile(trial, _FILE):
                if phase := place if isinstance(place, str) else phases.get(place):
                    parts[SEPARATOR.join((phase, operator, CALLS))] += int(calls)
                    parts[SEPARATOR.join((phase, operator, OWN_NS))] += int(own_ns)
        except (ValueError, TypeError) as error:
            raise cut_short(error) from None
        return self.of_parts(parts)


def _phases(trial: TrialData) -> dict[int, str]:
    """Boundary → the phase of the innermost span of a round that is open after it."""
    found: dict[int, str] = {}
    open_spans: dict[object, str] = {}
    for event in trial.events:
        if event.get("event") == "start" and event.get("round") is not None:
            open_spans[event.get("id")] = str(event.get("phase"))
        elif event.get("event") == "end":
            open_spans.pop(event.get("id"), None)
        boundary = (event.get("view") or {}).get("boundary")
        if boundary is not None and open_spans:
            found[boundary] = list(open_spans.values())[-1]
    return found
