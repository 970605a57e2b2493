"""The kernel's mark of a training, item by item: whose memory it was when usage was highest.

A thread in the worker (:mod:`edgebench.measures.strategies.categories_view`) reads usage, and
at the highest moment of each span what else is in memory. Torch's own bytes of that moment come
from its profiler. Every item is measured by itself, most as growth since the runtime's import.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from edgebench.measures.balance import Look, swap_cache
from edgebench.measures.strategies.categories_view import HIGHEST, MARKED

BASE, REST = "base", "unexplained"
#: What has grown since the import beside torch's allocations.
KEPT, LIBRARIES, PAST_MALLOC = "allocator-kept", "libraries", "past-malloc"
FILES, KERNEL, SWAPPED, MISSED = "files", "kernel", "swapped", "between-readings"
BESIDE = (LIBRARIES, KEPT, PAST_MALLOC, FILES, KERNEL, SWAPPED, MISSED)
#: Parts of the process's own memory that lie past malloc.
_MAPPED = ("python_arenas_bytes", "in_files_bytes", "in_stack_bytes")


@dataclass(frozen=True)
class Mark:
    """The highest of the kernel's marks after the import.

    Args:
        size_bytes: the mark.
        base_bytes: the cgroup's usage at the end of the import.
        base: what the worker saw there.
        look: what it saw at the end of the span with the mark.
    """

    size_bytes: int
    base_bytes: int
    base: Look
    look: Look

    @property
    def highest(self) -> Look:
        """What was held when usage was highest in that span."""
        begun = (
            (k.removeprefix(HIGHEST), v) for k, v in self.look.items() if k.startswith(HIGHEST)
        )
        return dict(begun)

    @property
    def before_ns(self) -> int:
        """How long before the boundary at the span's end that was."""
        return self.look[MARKED] - self.highest["t_ns"]


def mark_of(events: Iterable[Mapping[str, Any]]) -> Mark | None:
    """The highest mark of an innermost span; None where the kernel can't reset its mark."""
    base: Mapping[str, Any] | None = None
    highest: Mapping[str, Any] | None = None
    for phase, end in _innermost(events):
        if f"{HIGHEST}usage_bytes" not in end.get("view", {}) or end.get("peak_bytes") is None:
            continue
        if phase == "import":
            base = end
        elif highest is None or end["peak_bytes"] > highest["peak_bytes"]:
            highest = end
    if base is None or highest is None:
        return None
    return Mark(highest["peak_bytes"], base["usage_bytes"], base["view"], highest["view"])


def _innermost(events: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Phase and end of each span without another inside: their mark and their highest are one's."""
    begun: Mapping[str, Any] = {}
    for event in events:
        if event.get("event") == "start":
            begun = event
        elif event.get("event") == "end":
            if event.get("id") == begun.get("id"):
                yield str(begun.get("phase")), event
            begun = {}


def items(mark: Mark, held: Mapping[str, int]) -> dict[str, int]:
    """What the mark consists of, bytes; it is their sum.

    Args:
        mark: the mark.
        held: torch's bytes at the moment of highest usage, by category.
    """
    seen = mark.highest
    # Page tables stand for it where the cgroup's kernel memory is unknown.
    kernel = "charged_kernel_bytes" if "charged_kernel_bytes" in seen else "page_tables_bytes"
    cached = (swap_cache(seen) or 0) - (swap_cache(mark.base) or 0)
    told = {
        BASE: mark.base_bytes,
        **held,
        LIBRARIES: _grown(mark.base, seen, "heap_used_bytes") - sum(held.values()),
        KEPT: _grown(mark.base, seen, "heap_free_bytes"),
        PAST_MALLOC: _grown(mark.base, mark.look, *_MAPPED),
        FILES: _grown(mark.base, seen, "charged_file_lists_bytes", "charged_shmem_bytes"),
        KERNEL: _grown(mark.base, seen, kernel),
        SWAPPED: cached - _grown(mark.base, seen, "swap_bytes"),
        MISSED: mark.size_bytes - seen["usage_bytes"],
    }
    return {**told, REST: mark.size_bytes - sum(told.values())}


def _grown(before: Look, after: Look, *names: str) -> int:
    return sum(after.get(name, 0) - before.get(name, 0) for name in names)
