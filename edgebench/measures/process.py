"""The worker's process as the kernel counts it: resident, resident + swapped, proportional.

All three come from one trial, in which the worker reads its own ``/proc`` at each boundary
(:mod:`edgebench.workloads.process_view`) and resets ``VmHWM`` there.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

from edgebench.measures.inside import PROCESS, VIEW_VARIABLE
from edgebench.measures.strategy import ErrorBar, Reading, Seen, SpanReading, Strategy

#: The kernel counts a process's pages per CPU and sums them up in batches of this many; it counts
#: anonymous, file and shared pages apart (mm/memory.c, lib/percpu_counter.c).
_COUNTER_PAGES, _COUNTERS = 32, 3
NOTHING = "the worker's process was not looked at: it ended before its first span did"
Look = Mapping[str, int]


def looks(seen: Seen) -> dict[int, tuple[Look, Look, int | None]]:
    """Span's id → what the worker saw at its start and at its end, and VmHWM in between."""
    started: dict[object, Look] = {}
    found: dict[int, tuple[Look, Look, int | None]] = {}
    for event in seen.events:
        number, look = event.get("id"), event.get("view")
        if not isinstance(look, dict) or "rss_anon_bytes" not in look:
            continue
        if event.get("event") == "start":
            started[number] = look
        elif number in started and isinstance(number, int):
            found[number] = (started[number], look, event.get("view_peak_bytes"))
    return found


def resident(look: Look) -> int | None:
    """Resident set, bytes."""
    return _sum(look, "rss_anon_bytes", "rss_file_bytes", "rss_shmem_bytes")


def _sum(look: Look, *names: str) -> int | None:
    values = [look.get(name) for name in names]
    return None if None in values else sum(value for value in values if value is not None)


class _OfProcess(Strategy):
    """A figure of the worker's own process."""

    def read(self, seen: Seen) -> Reading:
        """From what the worker saw at its boundaries."""
        spans = tuple(self._span(number, *look) for number, look in looks(seen).items())
        peaks = [span.peak_bytes for span in spans if span.peak_bytes is not None]
        return Reading(
            strategy=self.name,
            peak_bytes=max(peaks, default=None),
            method=f"the largest of its spans: {self._method}",
            error=self._error(seen),
            spans=spans,
            span_method=self._method,
            span_error=self._error(seen),
            missing={} if peaks else {"peak_bytes": NOTHING},
        )

    _method: str

    @abstractmethod
    def _span(self, number: int, before: Look, after: Look, mark: int | None) -> SpanReading: ...

    @abstractmethod
    def _error(self, seen: Seen) -> ErrorBar: ...


class Process(_OfProcess):
    """``VmHWM``, reset at each boundary through ``clear_refs`` (Linux 4.0)."""

    name = "process"
    title = "process's high-water mark"
    counts = (
        "pages resident in the worker's process: its own memory, and file pages that it has "
        "mapped, whoever is charged for them"
    )
    blind_to = (
        "pages in swap; page cache that is not mapped; page tables and the kernel's memory; other "
        "processes. Its mark is one for the process: GNU time's figure is lost in this trial"
    )
    own_trial = True
    inside_worker = True
    _method = "VmHWM, reset at the span's start"

    def wrap(
        self, command: Sequence[str], env: Mapping[str, str], folder: Path
    ) -> tuple[list[str], dict[str, str]]:
        """The worker looks at itself."""
        return list(command), {**env, VIEW_VARIABLE: PROCESS}

    def _span(self, number: int, before: Look, after: Look, mark: int | None) -> SpanReading:
        return SpanReading(number, resident(before), mark, resident(after))

    def _error(self, seen: Seen) -> ErrorBar:
        if seen.cpus is None:
            return ErrorBar(None, "pages counted in batches on each CPU, which are not known")
        slack = _COUNTERS * _COUNTER_PAGES * seen.page_bytes * seen.cpus
        kinds = f"{_COUNTERS} kinds of pages, {_COUNTER_PAGES} of each"
        return ErrorBar(slack, f"{kinds} not yet counted on each of {seen.cpus} CPUs")


class ResidentAndSwapped(_OfProcess):
    """``VmRSS + VmSwap``: what a limit can't hide."""

    name = "process-swap"
    title = "process's resident and swapped memory"
    counts = "what the process's resident set counts, and its pages in swap"
    blind_to = "what comes and goes between two boundaries; else as the process's high-water mark"
    _method = "the larger of the span's ends: swap has no mark"

    def _span(self, number: int, before: Look, after: Look, mark: int | None) -> SpanReading:
        return _ends(number, self._at(before), self._at(after))

    @staticmethod
    def _at(look: Look) -> int | None:
        return _sum(look, "rss_anon_bytes", "rss_file_bytes", "rss_shmem_bytes", "swap_bytes")

    def _error(self, seen: Seen) -> ErrorBar:
        return ErrorBar(None, "read at the span's ends only")


class Proportional(_OfProcess):
    """``Pss``: a page mapped by several processes counts by its share."""

    name = "process-pss"
    title = "process's proportional set"
    counts = "resident pages, each divided by the number of processes that map it (smaps_rollup)"
    blind_to = "what comes and goes between two boundaries; swap; memory that is not mapped"
    _method = "the larger of the span's ends: PSS has no mark"

    def _span(self, number: int, before: Look, after: Look, mark: int | None) -> SpanReading:
        return _ends(number, before.get("pss_bytes"), after.get("pss_bytes"))

    def _error(self, seen: Seen) -> ErrorBar:
        return ErrorBar(None, "read at the span's ends only")


def _ends(number: int, before: int | None, after: int | None) -> SpanReading:
    known = [value for value in (before, after) if value is not None]
    return SpanReading(number, before, max(known, default=None), after)


class Malloc(_OfProcess):
    """What the C library's allocator has handed out and not got back (mallinfo)."""

    name = "malloc"
    title = "C library's heap in use"
    counts = "blocks that malloc handed out, their headers included, in all its arenas"
    blind_to = (
        "memory mapped past it: weights, Python's arenas, libraries' data, stacks; whether a byte "
        "was ever touched; what comes and goes between two boundaries; an allocator preloaded"
    )
    _method = "the larger of the span's ends: it keeps no mark"

    def _span(self, number: int, before: Look, after: Look, mark: int | None) -> SpanReading:
        return _ends(number, before.get("heap_used_bytes"), after.get("heap_used_bytes"))

    def _error(self, seen: Seen) -> ErrorBar:
        return ErrorBar(None, "read at the span's ends only")
