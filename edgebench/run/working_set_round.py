"""One round that is watched for what it touches, after all rounds that are timed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from edgebench.cgroups.counters import parse_counters
from edgebench.cgroups.interface import Cgroup
from edgebench.cgroups.process_maps import TouchedPages, forget_touched, touched_pages
from edgebench.records import NOT_REACHED, WorkingSet
from edgebench.spans import finished_spans

#: Pages of files that the cgroup is charged for; swapped pages that are kept are not among them.
_FILE_LISTS = ("active_file", "inactive_file")
NOT_MARKED = "this kernel does not let us see which pages are touched (clear_refs, smaps)"


class WorkingSetRound:
    """Begun before the round, read after it; the workload waits meanwhile.

    It is not timed, and comes last: without their marks, pages that no round uses would leave
    memory sooner.

    Args:
        cgroup: the trial's.
        maps_weights: whether rounds use their weights' files in place, and don't copy them.
    """

    def __init__(self, cgroup: Cgroup, maps_weights: bool) -> None:
        self._cgroup, self._maps_weights = cgroup, maps_weights
        self.begun = False
        self.found: WorkingSet | None = None
        self.missing: str | None = NOT_REACHED
        #: Of what was found, bytes in huge pages, which may have been touched in part.
        self.huge_bytes = 0

    def begin(self) -> bool:
        """Whether there is a round to make."""
        self.begun = forget_touched(self._cgroup.pids())
        self.missing = NOT_REACHED if self.begun else NOT_MARKED
        return self.begun

    def read(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Look at what it left; ``events`` are the round's."""
        touched, charged = touched_pages(self._cgroup.pids()), self._charged()
        if touched is None or charged is None:
            self.missing = NOT_MARKED
            return
        self.huge_bytes = touched.huge_bytes
        self.found = working_set(touched, charged, events, self._maps_weights)
        self.missing = None if self.found else "the round that was watched left no spans"

    def _charged(self) -> dict[str, int] | None:
        """Bytes of the cgroup's files, of those that are mapped, and of the kernel's own."""
        stat, counters = self._cgroup.file("memory", "memory.stat"), self._cgroup.read()
        if stat is None or counters.mapped_file_bytes is None:
            return None
        lists = parse_counters(stat.read_text())
        return {
            "file": sum(lists.get(name, 0) for name in _FILE_LISTS),
            "mapped": counters.mapped_file_bytes,
            "kernel": counters.kernel_bytes or 0,
        }


def working_set(
    touched: TouchedPages,
    charged: Mapping[str, int],
    events: Iterable[Mapping[str, Any]],
    maps_weights: bool,
) -> WorkingSet | None:
    """From the pages touched, what is charged (bytes), and the round's spans; None without any."""
    spans = finished_spans([dict(event) for event in events])
    peaks = [span.peak_bytes for span in spans if span.peak_bytes is not None]
    after = [span.usage_after_bytes for span in spans if span.usage_after_bytes is not None]
    if not peaks or not after:
        return None
    # Files of libraries may be charged to whoever read them first.
    mapped, cached = min(touched.file_bytes, charged["mapped"]), charged["file"] - charged["mapped"]
    # Mapped weights are unmapped when the round ends, and stay in the page cache.
    weights = max(0, cached) if maps_weights else 0
    return WorkingSet(
        anonymous_bytes=touched.anonymous_bytes,
        file_bytes=mapped + weights,
        kernel_bytes=charged["kernel"],
        passing_bytes=max(0, max(peaks) - after[-1]),
        cached_bytes=max(0, cached) - weights,
    )
