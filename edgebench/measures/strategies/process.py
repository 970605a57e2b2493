"""The worker's process as the kernel counts it: resident, resident + swapped, proportional.

All three come from one trial, in which the worker reads its own ``/proc`` at each boundary
(:class:`ProcessView`) and resets ``VmHWM`` there.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from edgebench.measures.process_figures import (
    SELF,
    charged,
    code_areas,
    glibc_heap,
    kib_lines,
    of_process,
    python_arenas,
    renamed,
    split_by_mapping,
)
from edgebench.measures.strategy import (
    ErrorBar,
    Reading,
    SpanReading,
    Strategy,
    TrialData,
    registered_strategy,
)
from edgebench.measures.view import Descriptors, View

#: The kernel counts a process's pages per CPU and sums them up in batches of this many; it counts
#: anonymous, file and shared pages apart (mm/memory.c, lib/percpu_counter.c).
_COUNTER_PAGES, _COUNTERS = 32, 3
NOTHING = "the worker's process was never read: it ended before its first span did"
Look = Mapping[str, int]
#: Figure → its line in ``smaps_rollup``.
_ROLLUP = {
    "pss_bytes": "Pss",
    "private_clean_bytes": "Private_Clean",
    "private_dirty_bytes": "Private_Dirty",
}


class ProcessView(View):
    """Reads VmHWM, RSS and swap, PSS, ``memory.stat`` and the C library's own heap counters.

    All of one look is read within milliseconds while the workload waits, so its figures may be
    subtracted from each other. They are the kernel's own, in bytes; unknown ones are left out.
    """

    def __init__(self, folder: Path, descriptors: Descriptors) -> None:
        super().__init__(folder, descriptors)
        self._stat, self._kernel = descriptors["stat"], descriptors["kernel"]
        self._others = Path(f"/proc/{os.getppid()}")
        self._clear: int | None = None
        # Not there where the kernel was built without it.
        with suppress(OSError):
            self._clear = os.open(SELF / "clear_refs", os.O_WRONLY)

    def mark(self) -> int | None:
        """VmHWM: the most that was resident since the last reset; None if it can't be reset."""
        return None if self._clear is None else kib_lines(SELF / "status").get("VmHWM")

    def reset(self) -> None:
        """Set VmHWM back to what is resident (``clear_refs`` ← 5, Linux 4.0)."""
        if self._clear is not None:
            os.pwrite(self._clear, b"5", 0)

    def look(self, whole: bool) -> dict[str, int]:
        """All its figures; the split by mapping, which takes longest, only of a phase."""
        figures = of_process() | charged(self._stat, self._kernel)
        figures |= renamed(kib_lines(SELF / "smaps_rollup"), _ROLLUP)
        # GNU time waits in the same cgroup.
        others = of_process(self._others)
        figures |= {f"other_{name}": size for name, size in others.items()}
        figures |= glibc_heap() | code_areas()
        figures |= {name: read() for name, read in self.gauges.items()}
        if whole:
            figures |= split_by_mapping() | python_arenas()
        return figures

    def close(self) -> None:
        """Nothing more is read."""
        if self._clear is not None:
            os.close(self._clear)


def resident(look: Look) -> int | None:
    """Resident set, bytes."""
    return _sum(look, "rss_anon_bytes", "rss_file_bytes", "rss_shmem_bytes")


def _sum(look: Look, *names: str) -> int | None:
    values = [look.get(name) for name in names]
    return None if None in values else sum(value for value in values if value is not None)


class _OfProcess(Strategy):
    """A figure of the worker's own process."""

    def read(self, trial: TrialData) -> Reading:
        """From what the worker saw at its boundaries."""
        spans = tuple(
            self._span(number, start["view"], end["view"], end.get("view_peak_bytes"))
            for number, (start, end) in trial.looks("rss_anon_bytes").items()
        )
        peaks = [span.peak_bytes for span in spans if span.peak_bytes is not None]
        return Reading(
            strategy=self.name,
            peak_bytes=max(peaks, default=None),
            method=f"the largest of its spans: {self._method}",
            error=self._error(trial),
            spans=spans,
            span_method=self._method,
            span_error=self._error(trial),
            missing={} if peaks else {"peak_bytes": NOTHING},
        )

    _method: str

    @abstractmethod
    def _at(self, look: Look) -> int | None:
        """The figure at one moment, bytes."""

    def _span(self, number: int, before: Look, after: Look, mark: int | None) -> SpanReading:
        ends = (self._at(before), self._at(after))
        largest = max((size for size in ends if size is not None), default=None)
        return SpanReading(number, ends[0], largest, ends[1])

    def _error(self, trial: TrialData) -> ErrorBar:
        return ErrorBar(None, "read at the span's ends only")


@registered_strategy
class Process(_OfProcess):
    """``VmHWM``, reset at each boundary through ``clear_refs`` (Linux 4.0)."""

    name = "process"
    title = "process's high-water mark"
    counts = (
        "pages resident in the worker's process: its own memory, and file pages that it has "
        "mapped, whichever cgroup is charged for them"
    )
    blind_to = (
        "pages in swap; page cache that is not mapped; page tables and the kernel's memory; other "
        "processes. Resetting its mark makes GNU time's figure unusable in this trial"
    )
    own_trial = True
    view = ProcessView
    inside_worker = True
    _method = "VmHWM, reset at the span's start"

    def _at(self, look: Look) -> int | None:
        return resident(look)

    def _span(self, number: int, before: Look, after: Look, mark: int | None) -> SpanReading:
        return SpanReading(number, resident(before), mark, resident(after))

    def _error(self, trial: TrialData) -> ErrorBar:
        if trial.cpus is None:
            return ErrorBar(None, "pages counted in batches on each CPU, which are not known")
        slack = _COUNTERS * _COUNTER_PAGES * trial.page_bytes * trial.cpus
        kinds = f"{_COUNTERS} kinds of pages, {_COUNTER_PAGES} of each"
        return ErrorBar(slack, f"{kinds} not yet counted on each of {trial.cpus} CPUs")


@registered_strategy
class ResidentAndSwapped(_OfProcess):
    """``VmRSS + VmSwap``: what a limit can't hide."""

    name = "process-swap"
    beside = Process.name
    title = "process's resident and swapped memory"
    counts = "the process's resident pages, and its pages in swap"
    blind_to = (
        "memory allocated and freed between two boundaries; and what the process's high-water "
        "mark is blind to, except swap"
    )
    _method = "the larger of the span's ends: swap has no mark"

    def _at(self, look: Look) -> int | None:
        return _sum(look, "rss_anon_bytes", "rss_file_bytes", "rss_shmem_bytes", "swap_bytes")


@registered_strategy
class Proportional(_OfProcess):
    """``Pss``: a page mapped by several processes counts by its share."""

    name = "process-pss"
    beside = Process.name
    title = "process's proportional set"
    counts = "resident pages, each divided by the number of processes that map it (smaps_rollup)"
    blind_to = "memory allocated and freed between two boundaries; swap; memory that is not mapped"
    _method = "the larger of the span's ends: PSS has no mark"

    def _at(self, look: Look) -> int | None:
        return look.get("pss_bytes")


@registered_strategy
class Malloc(_OfProcess):
    """What the C library's allocator has handed out and not been given back (mallinfo)."""

    name = "malloc"
    beside = Process.name
    title = "C library's heap in use"
    counts = "blocks that malloc handed out, their headers included, in all its arenas"
    blind_to = (
        "memory mapped without malloc: weights, Python's arenas, libraries' data, stacks; whether "
        "a byte was ever touched; memory allocated and freed between two boundaries; a preloaded "
        "allocator"
    )
    _method = "the larger of the span's ends: it keeps no mark"

    def _at(self, look: Look) -> int | None:
        return look.get("heap_used_bytes")
