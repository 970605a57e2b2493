"""Which cores a workload's phases keep busy, in a trial of its own.

It tells no memory. A cgroup's own accounting has CPU time by core on version 1 alone, and by phase
nowhere; so the worker reads the clock of each of its threads at each boundary, and where each ran.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from edgebench.errors import ResultsError
from edgebench.measures.inside import CORES, LOOKED_NS, VIEW_VARIABLE
from edgebench.measures.of_time import SEPARATOR, OfTime
from edgebench.measures.strategy import Reading, Seen
from edgebench.records.phases import Span

WALL_NS, ALL_NS = "wall_ns", "cpu_ns"


class Cores(OfTime):
    """CPU time by phase and core, over the rounds after the first."""

    name = CORES
    title = "CPU time by core"
    counts = "no memory: CPU time of the worker's threads, by phase and by core"
    blind_to = (
        "where a thread was between two boundaries of spans: its time goes to the core it is on "
        "then, or by halves to the two that it was seen on; other processes. Looking takes a "
        "good part of a phase that is shorter than a millisecond"
    )
    method = "each thread's CPU clock, and the core it is on, at each boundary"

    def wrap(
        self, command: Sequence[str], env: Mapping[str, str], folder: Path
    ) -> tuple[list[str], dict[str, str]]:
        """The worker reads its threads' clocks."""
        return list(command), {**env, VIEW_VARIABLE: CORES}

    def read(self, seen: Seen) -> Reading:
        """From the worker's events, sums over a phase's spans.

        Parts: ``phase|wall_ns`` and ``phase|cpu_ns`` of the spans themselves; ``phase|looked_ns``
        from look to look, which is a little longer, and within that ``phase|core_ns_0`` and so on.

        Raises:
            ResultsError: no round was seen whole.
        """
        looks = _looks(seen)
        parts: dict[str, int] = defaultdict(int)
        for span in _counted(seen.spans):
            if span.id not in looks:
                continue
            before, after = looks[span.id]
            parts[SEPARATOR.join((span.phase, WALL_NS))] += span.end_ns - span.start_ns
            parts[SEPARATOR.join((span.phase, ALL_NS))] += round((span.cpu_s or 0) * 1e9)
            for key, value in after.items():
                parts[SEPARATOR.join((span.phase, key))] += value - before.get(key, 0)
        if not parts:
            raise ResultsError("no round was seen whole: the worker ended in its first")
        return self.of_parts(parts)


def _counted(spans: Sequence[Span]) -> list[Span]:
    """Those within rounds, without the first round if there are others.

    Of a phase's layers where it has any, else of the whole phase, as in sums of phases.
    """
    rounds = {span.round for span in spans if span.round >= 0}
    wanted = rounds - {min(rounds, default=0)} or rounds
    groups: dict[tuple[int, str | None, str], list[Span]] = defaultdict(list)
    for span in spans:
        if span.round in wanted:
            groups[span.round, span.network, span.phase].append(span)
    return [
        span
        for group in groups.values()
        for span in [one for one in group if one.layer is not None] or group
    ]


def _looks(seen: Seen) -> dict[int, tuple[dict[str, int], dict[str, int]]]:
    """Span's id → what was seen at its start and at its end: the moment, CPU time by core."""
    started: dict[object, dict[str, int]] = {}
    found: dict[int, tuple[dict[str, int], dict[str, int]]] = {}
    for event in seen.events:
        number, look = event.get("id"), event.get("view") or {}
        if LOOKED_NS not in look:
            continue
        if event.get("event") == "start":
            started[number] = look
        elif number in started and isinstance(number, int):
            found[number] = (started[number], look)
    return found
