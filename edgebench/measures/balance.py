"""What stands between two figures that were read at one moment, from one look of the worker.

A look of :class:`~edgebench.measures.strategies.process.ProcessView` holds the process's figures
and its cgroup's, read within milliseconds of each other while nothing else ran, so they may be
subtracted.
"""

from __future__ import annotations

from collections.abc import Mapping

from edgebench.measures.ledger import Term

Look = Mapping[str, int]
_LISTS = "the cgroup's page lists (memory.stat)"
_STATUS = "/proc/PID/status"


def own_memory(look: Look) -> int | None:
    """The process's own (anonymous) memory, in RAM or in swap."""
    if "rss_anon_bytes" not in look:
        return None
    return look["rss_anon_bytes"] + look.get("swap_bytes", 0)


def swap_cache(look: Look) -> int | None:
    """Pages in RAM whose owner still finds them in swap: read ahead, or on their way out."""
    wanted = ("charged_anon_lists_bytes", "charged_shmem_bytes", "charged_anon_bytes")
    if any(name not in look for name in wanted):
        return None
    return max(0, look[wanted[0]] - look[wanted[1]] - look[wanted[2]])


def _page_tables(look: Look) -> int:
    if "charged_page_tables_bytes" in look:
        return look["charged_page_tables_bytes"]
    return look.get("page_tables_bytes", 0) + look.get("other_page_tables_bytes", 0)


def resident_to_charged(look: Look) -> list[Term]:
    """From what is resident in the process to what its cgroup is charged for."""
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
    return [
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
        *_of_the_kernel(look),
    ]


def _of_the_kernel(look: Look) -> list[Term]:
    tables, kernel = _page_tables(look), look.get("charged_kernel_bytes")
    told = "memory.stat" if "charged_page_tables_bytes" in look else f"VmPTE ({_STATUS})"
    terms = [Term("page-tables", tables, "page tables", told)]
    if kernel is not None:
        says = "the kernel's other memory for the cgroup: stacks, slab, per-CPU data"
        measured = "the cgroup's kernel memory, without page tables"
        terms.append(Term("kernel-memory", kernel - tables, says, measured))
    return terms


def charged_to_own(look: Look) -> list[Term]:
    """From what the cgroup is charged for to the process's own memory, in RAM or in swap."""
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
    """From the process's own memory to what the C library's allocator has handed out.

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


def resident_to_proportional(look: Look) -> list[Term]:
    """From the resident set to the proportional one: pages shared with other processes."""
    private = look.get("private_clean_bytes", 0) + look.get("private_dirty_bytes", 0)
    resident = sum(look.get(f"rss_{kind}_bytes", 0) for kind in ("anon", "file", "shmem"))
    return [
        Term(
            "shared-pages",
            private - resident,
            "pages that other processes map as well: each of them counts them whole",
            "smaps_rollup: resident, without private pages",
        ),
        Term(
            "share-of-shared",
            look.get("pss_bytes", private) - private,
            "this process's share of them",
            "smaps_rollup: Pss, without private pages",
        ),
    ]
