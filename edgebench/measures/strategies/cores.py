"""Which cores a workload's phases keep busy, in a trial of its own.

It measures no memory. A cgroup's own accounting has CPU time by core on version 1 alone, and never
by phase. So the worker reads each thread's CPU clock and core at each boundary.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from edgebench.errors import ResultsError
from edgebench.measures.strategy import (
    SEPARATOR,
    Reading,
    TimeStrategy,
    TrialData,
    registered_strategy,
)
from edgebench.measures.view import Descriptors, View

if TYPE_CHECKING:
    from edgebench.spans import Span

WALL_NS, ALL_NS = "wall_ns", "cpu_ns"
#: In the view's figures: the beginning of each core's CPU time, before the core's number.
CORE_NS = "core_ns_"
#: There too: the moment.
LOOKED_NS = "looked_ns"
#: A thread's CPU clock as clock_gettime takes it: ``~TID << 3`` with these bits, "one thread,
#: as the scheduler counts" (Linux, include/linux/posix-timers_types.h).
_THREAD_CLOCK = 0b110
#: Its place in ``/proc/…/stat`` after the name, which may hold blanks: proc(5) counts it as 39.
_PROCESSOR = 39 - 3
_TASKS = Path("/proc/self/task")


class CoresView(View):
    """At each look, each thread's CPU time since the last goes to the core it is on.

    One that has moved since counts half for each of the two.
    """

    def __init__(self, folder: Path, descriptors: Descriptors) -> None:
        super().__init__(folder, descriptors)
        #: Thread → its CPU time, and its core.
        self._seen: dict[int, tuple[int, int]] = {}
        self._by_core: dict[int, int] = defaultdict(int)

    def look(self, whole: bool) -> dict[str, int]:
        """Read nanoseconds on each core so far, by the core's number, and the moment."""
        own = threading.get_native_id()
        # Itself last: what looking takes is then least of all in the span that begins.
        threads = (int(folder.name) for folder in _TASKS.iterdir())
        for thread in sorted(threads, key=lambda thread: thread == own):
            try:
                used = time.clock_gettime_ns(~thread << 3 | _THREAD_CLOCK)
                stat = (_TASKS / str(thread) / "stat").read_bytes()
            except OSError:
                # It ended meanwhile.
                continue
            core = int(stat.rpartition(b")")[2].split()[_PROCESSOR])
            before, last = self._seen.get(thread, (0, core))
            # A smaller one is a new thread with a dead one's number.
            since = used - (before if before <= used else 0)
            self._by_core[last] += since // 2
            self._by_core[core] += since - since // 2
            self._seen[thread] = used, core
        by_core = {f"{CORE_NS}{core}": used for core, used in self._by_core.items()}
        return {LOOKED_NS: time.monotonic_ns(), **by_core}


@registered_strategy
class Cores(TimeStrategy):
    """CPU time by phase and core, over the rounds after the first."""

    name = "cores"
    view = CoresView
    title = "CPU time by core"
    counts = "no memory: CPU time of the worker's threads, by phase and by core"
    blind_to = (
        "on which cores a thread ran between two boundaries of spans: its time is counted for the "
        "core it is on at the boundary, or half for each of the two it was seen on; other "
        "processes. In a phase shorter than a millisecond, reading takes much of the time"
    )
    method = "each thread's CPU clock, and the core it is on, at each boundary"

    def read(self, trial: TrialData) -> Reading:
        """Read the worker's events: sums over a phase's spans.

        Parts: ``phase|wall_ns`` and ``phase|cpu_ns`` of the spans themselves; ``phase|looked_ns``
        from look to look, which is a little longer, and within that ``phase|core_ns_0`` and so on.

        Raises:
            ResultsError: no round was seen whole.
        """
        looks = trial.looks(LOOKED_NS)
        parts: dict[str, int] = defaultdict(int)
        for span in _counted(trial.spans):
            if span.id not in looks:
                continue
            before, after = (event["view"] for event in looks[span.id])
            parts[SEPARATOR.join((span.phase, WALL_NS))] += span.end_ns - span.start_ns
            parts[SEPARATOR.join((span.phase, ALL_NS))] += round((span.cpu_s or 0) * 1e9)
            for key, value in after.items():
                parts[SEPARATOR.join((span.phase, key))] += value - before.get(key, 0)
        if not parts:
            raise ResultsError("no round was seen whole: the worker ended in its first")
        return self.of_parts(parts)


def _counted(spans: Sequence[Span]) -> list[Span]:
    """Choose those within rounds, without the first round if there are others.

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
        for span in [span for span in group if span.layer is not None] or group
    ]
