"""Where a workload's time goes, by operator: torch's profiler, in a trial of its own.

It tells no memory. It is a strategy since it, too, looks from inside and slows the workload down.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from edgebench.errors import ResultsError
from edgebench.measures.inside import (
    FOLDER_VARIABLE,
    OPERATORS,
    OPERATORS_FILE,
    VIEW_VARIABLE,
)
from edgebench.measures.of_time import SEPARATOR, OfTime
from edgebench.measures.strategy import Reading, Seen

CALLS, OWN_NS = "calls", "own_ns"


class Operators(OfTime):
    """How often each of torch's operators was called within rounds, and its own time in all."""

    name = OPERATORS
    title = "torch's operators"
    counts = "no memory: calls of torch's operators and the time each spent itself"
    blind_to = "what runs outside torch's operators: Python between them, the loader's own reads"
    method = "torch's profiler"

    def wrap(
        self, command: Sequence[str], env: Mapping[str, str], folder: Path
    ) -> tuple[list[str], dict[str, str]]:
        """The worker runs torch's profiler and leaves a file."""
        return list(command), {**env, VIEW_VARIABLE: OPERATORS, FOLDER_VARIABLE: str(folder)}

    def read(self, seen: Seen) -> Reading:
        """From the file the worker left: parts ``phase|operator|calls`` and ``…|own_ns``.

        Raises:
            ResultsError: there is none, or it is cut short.
        """
        phases = _phases(seen)
        parts: dict[str, int] = defaultdict(int)
        for boundary, operator, calls, own_ns in _told(seen.folder):
            if phase := phases.get(boundary):
                parts[SEPARATOR.join((phase, operator, CALLS))] += calls
                parts[SEPARATOR.join((phase, operator, OWN_NS))] += own_ns
        return self.of_parts(parts)


def _told(folder: Path | None) -> list[tuple[int, str, int, int]]:
    path = (folder or Path()) / OPERATORS_FILE
    try:
        return [
            (int(b), str(name), int(n), int(ns)) for b, name, n, ns in json.loads(path.read_bytes())
        ]
    except FileNotFoundError:
        raise ResultsError("torch's profiler left no file: the worker ended before it") from None
    except (OSError, ValueError, TypeError) as error:
        raise ResultsError(f"torch's profile is cut short: {error}") from None


def _phases(seen: Seen) -> dict[int, str]:
    """Boundary → the phase of the innermost span of a round that is open after it."""
    found: dict[int, str] = {}
    open_spans: dict[object, str] = {}
    for event in seen.events:
        if event.get("event") == "start" and event.get("round") is not None:
            open_spans[event.get("id")] = str(event.get("phase"))
        elif event.get("event") == "end":
            open_spans.pop(event.get("id"), None)
        boundary = (event.get("view") or {}).get("boundary")
        if boundary is not None and open_spans:
            found[boundary] = list(open_spans.values())[-1]
    return found
