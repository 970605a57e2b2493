"""A ledger: how one strategy's figure becomes the next one's, term by term.

Every term is a quantity that was measured by itself; what the terms do not come to is left over
as ``unexplained_bytes``, and is never put into a term. What stands between two figures that were
read at one moment comes from one look of the worker, which holds the process's figures and its
cgroup's, read within milliseconds of each other while nothing else ran.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from edgebench.measures.strategies import ErrorBar

MIB = 1 << 20
#: A rest of up to this share of the larger figure, or up to this many bytes, is small.
SMALL_SHARE, SMALL_BYTES = 0.02, 2 * MIB


@dataclass(frozen=True)
class Figure:
    """One strategy's figure: bytes, of which trial, and where in it (``peak``, a layer's end)."""

    strategy: str
    size_bytes: int
    trial: str | None
    where: str
    error: ErrorBar


@dataclass(frozen=True)
class Term:
    """What has to be added (or, negative, taken away) to get nearer to the next figure.

    ``says`` is in words what it is, ``measured`` where its size comes from.
    """

    name: str
    size_bytes: int
    says: str
    measured: str


@dataclass(frozen=True)
class Ledger:
    """From one figure to the next: ``source + terms + unexplained = target``."""

    source: Figure
    target: Figure
    terms: tuple[Term, ...] = ()

    @property
    def unexplained_bytes(self) -> int:
        """What the terms leave over; negative where they come to more than the difference."""
        explained = sum(term.size_bytes for term in self.terms)
        return self.target.size_bytes - self.source.size_bytes - explained

    @property
    def small_bytes(self) -> int:
        """How large a rest is still small: a share of the larger figure, or a fixed size."""
        largest = max(self.source.size_bytes, self.target.size_bytes)
        return max(round(SMALL_SHARE * largest), SMALL_BYTES)

    @property
    def closes(self) -> bool:
        """Whether the rest is small."""
        return abs(self.unexplained_bytes) <= self.small_bytes

    def to_json(self) -> dict[str, Any]:
        """Return plain data: strategies under ``from`` and ``to``, and more of their figures."""
        return {
            **_end("from", self.source),
            **_end("to", self.target),
            "terms": [asdict(term) for term in self.terms],
            "unexplained_bytes": self.unexplained_bytes,
            "small_bytes": self.small_bytes,
            "closes": self.closes,
        }


def _end(name: str, figure: Figure) -> dict[str, Any]:
    return {
        name: figure.strategy,
        f"{name}_bytes": figure.size_bytes,
        f"{name}_where": figure.where,
        f"{name}_trial": figure.trial,
        f"{name}_error": asdict(figure.error),
    }


def without_zeros(terms: Sequence[Term]) -> tuple[Term, ...]:
    """Leave out the terms that change nothing."""
    return tuple(term for term in terms if term.size_bytes)


Look = Mapping[str, int]
_LISTS = "the cgroup's page lists (memory.stat)"
_STATUS = "/proc/PID/status"


def own_memory(look: Look) -> int | None:
    """Return the process's own (anonymous) memory, in RAM or in swap."""
    if "rss_anon_bytes" not in look:
        return None
    return look["rss_anon_bytes"] + look.get("swap_bytes", 0)


def swap_cache(look: Look) -> int | None:
    """Return pages in RAM that their owner still finds in swap: read ahead, or on the way out."""
    wanted = ("charged_anon_lists_bytes", "charged_shmem_bytes", "charged_anon_bytes")
    if any(name not in look for name in wanted):
        return None
    return max(0, look[wanted[0]] - look[wanted[1]] - look[wanted[2]])


def resident_to_charged(look: Look) -> list[Term]:
    """List terms from what is resident in the process to what its cgroup is charged for."""
    mapped_here = look.get("charged_mapped_file_bytes", 0)
    mapped = look.get("rss_file_bytes", 0) + look.get("rss_shmem_bytes", 0)
    return [
        Term(
            "file-pages-elsewhere",
            mapped_here - mapped,
            "file pages the process has mapped, charged to whoever touched them first",
            f"RssFile and RssShmem ({_STATUS}) against mapped_file (memory.stat)",
        ),
        *_charged_but_not_resident(look),
    ]


def _charged_but_not_resident(look: Look) -> list[Term]:
    cached = look.get("charged_file_lists_bytes", 0) + look.get("charged_shmem_bytes", 0)
    if "charged_page_tables_bytes" in look:
        tables, measured = look["charged_page_tables_bytes"], "memory.stat"
    else:
        tables = look.get("page_tables_bytes", 0) + look.get("other_page_tables_bytes", 0)
        measured = f"VmPTE ({_STATUS})"
    terms = [
        Term(
            "page-cache",
            cached - look.get("charged_mapped_file_bytes", 0),
            "page cache charged here that the process has not mapped",
            f"{_LISTS} of file pages, without mapped_file",
        ),
        Term(
            "swap-cache",
            swap_cache(look) or 0,
            "pages in RAM that the process still finds in swap: counted in both",
            f"{_LISTS} of anonymous pages, without those that are mapped",
        ),
        Term(
            "other-processes",
            look.get("other_rss_anon_bytes", 0),
            "GNU time's own memory: it waits in the same cgroup",
            f"its {_STATUS}",
        ),
        Term("page-tables", tables, "page tables", measured),
    ]
    if (kernel := look.get("charged_kernel_bytes")) is not None:
        says = "the kernel's other memory for the cgroup: stacks, slab, per-CPU data"
        measured = "the cgroup's kernel memory, without page tables"
        terms.append(Term("kernel-memory", kernel - tables, says, measured))
    return terms


def charged_to_own(look: Look) -> list[Term]:
    """List terms from what the cgroup is charged for to the process's own memory."""
    mapped = look.get("charged_mapped_file_bytes", 0)
    charged = [
        Term("mapped-files", mapped, "file pages charged here and mapped", "memory.stat"),
        *_charged_but_not_resident(look),
    ]
    swapped = look.get("swap_bytes", 0)
    return [
        *(Term(t.name, -t.size_bytes, t.says, t.measured) for t in charged),
        Term("swapped-out", swapped, "the process's pages in swap", f"VmSwap ({_STATUS})"),
    ]


def own_to_malloc(look: Look, split: Look, weights_are_own: bool) -> list[Term]:
    """List terms from the process's own memory to what the C library's allocator handed out.

    Args:
        look: at the moment.
        split: the nearest look of a whole phase, which splits own memory by mapping.
        weights_are_own: the loader copies; mapped weights are file pages.
    """
    weights = look.get("weights_bytes", 0) if weights_are_own else 0
    return [
        Term(
            "weights",
            -weights,
            "weights, which the loader maps past the allocator",
            "lengths of the loader's mappings that are in use",
        ),
        Term(
            "allocator-free",
            -look.get("heap_free_bytes", 0),
            "freed, and kept by the allocator for later",
            "mallinfo",
        ),
        Term(
            "python-arenas",
            -split.get("python_arenas_bytes", 0),
            "arenas of Python's small objects, mapped past the allocator",
            "sys._debugmallocstats",
        ),
        Term(
            "library-data",
            -split.get("in_files_bytes", 0),
            "private copies of the libraries' pages: data, relocations",
            "smaps: anonymous pages of file mappings",
        ),
        Term("stack", -split.get("in_stack_bytes", 0), "the main thread's stack", "smaps"),
    ]
