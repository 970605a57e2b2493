"""The worker's process as the kernel counts it: resident, resident + swapped, proportional.

All three come from one trial, in which the worker reads its own ``/proc`` at each boundary
(:class:`ProcessView`) and resets ``VmHWM`` there.
"""

from __future__ import annotations

import os
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
    LookStrategy,
    TrialData,
    registered_strategy,
    sum_of,
)
from edgebench.measures.view import Descriptors, View

#: The kernel counts a process's pages per CPU and sums them up in batches of this many; it counts
#: anonymous, file and shared pages apart (mm/memory.c, lib/percpu_counter.c).
_COUNTER_PAGES, _COUNTERS = 32, 3
NOTHING = "the worker's process was never read: it ended before its first span did"
Look = Mapping[str, int]
_RESIDENT = ("rss_anon_bytes", "rss_file_bytes", "rss_shmem_bytes")
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
    return sum_of(look, *_RESIDENT)


@registered_strategy
class Process(LookStrategy):
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
    figures, marked = _RESIDENT, True
    span_method = "VmHWM, reset at the span's start"
    nothing = NOTHING

    def error(self, trial: TrialData) -> ErrorBar:
        """What the kernel has not counted yet."""
        if trial.cpus is None:
            return ErrorBar(None, "pages counted in batches on each CPU, which are not known")
        slack = _COUNTERS * _COUNTER_PAGES * trial.page_bytes * trial.cpus
        kinds = f"{_COUNTERS} kinds of pages, {_COUNTER_PAGES} of each"
        return ErrorBar(slack, f"{kinds} not yet counted on each of {trial.cpus} CPUs")


@registered_strategy
class ResidentAndSwapped(LookStrategy):
    """``VmRSS + VmSwap``: what a limit can't hide."""

    name = "process-swap"
    beside = Process.name
    title = "process's resident and swapped memory"
    counts = "the process's resident pages, and its pages in swap"
    blind_to = (
        "memory allocated and freed between two boundaries; and what the process's high-water "
        "mark is blind to, except swap"
    )
    figures = (*_RESIDENT, "swap_bytes")
    span_method = "the larger of the span's ends: swap has no mark"
    nothing = NOTHING


@registered_strategy
class Proportional(LookStrategy):
    """``Pss``: a page mapped by several processes counts by its share."""

    name = "process-pss"
    beside = Process.name
    title = "process's proportional set"
    counts = "resident pages, each divided by the number of processes that map it (smaps_rollup)"
    blind_to = "memory allocated and freed between two boundaries; swap; memory that is not mapped"
    figures = ("pss_bytes",)
    span_method = "the larger of the span's ends: PSS has no mark"
    nothing = NOTHING


@registered_strategy
class Malloc(LookStrategy):
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
    figures = ("heap_used_bytes",)
    span_method = "the larger of the span's ends: it keeps no mark"
    nothing = NOTHING
