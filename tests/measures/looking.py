"""A worker's looks at itself, made up so that every ledger's answer is known in advance."""

from __future__ import annotations

from typing import Any

MIB = 1 << 20
#: What the process holds and its cgroup is charged for, MiB, all by itself.
PARTS = {
    "malloc": 100,
    "free": 3,
    "arenas": 50,
    "library data": 6,
    "stack": 1,
    "weights": 40,
    "swapped": 20,
    "mapped elsewhere": 90,
    "mapped here": 2,
    "shared": 9,
    "unmapped shared": 12,
    "page cache": 30,
    "swap cache": 4,
    "gnu time": 7,
    "page tables": 8,
    "its page tables": 11,
    "kernel": 5,
}


def look(**changes: int) -> dict[str, int]:
    part = {name: size * MIB for name, size in {**PARTS, **changes}.items()}
    own = sum(part[n] for n in ("malloc", "free", "arenas", "library data", "stack", "weights"))
    resident = own - part["swapped"]
    shared = part["shared"] + part["unmapped shared"]
    tables = part["page tables"] + part["its page tables"]
    return {
        "rss_anon_bytes": resident,
        "rss_file_bytes": part["mapped elsewhere"] + part["mapped here"],
        "rss_shmem_bytes": part["shared"],
        "swap_bytes": part["swapped"],
        "page_tables_bytes": part["page tables"],
        "other_rss_anon_bytes": part["gnu time"],
        "other_page_tables_bytes": part["its page tables"],
        "charged_anon_bytes": resident + part["gnu time"],
        "charged_shmem_bytes": shared,
        "charged_mapped_file_bytes": part["mapped here"] + part["shared"],
        # Pages of shared memory are on these lists.
        "charged_anon_lists_bytes": resident + part["gnu time"] + part["swap cache"] + shared,
        "charged_file_lists_bytes": part["mapped here"] + part["page cache"],
        "charged_kernel_bytes": tables + part["kernel"],
        "heap_used_bytes": part["malloc"],
        "heap_free_bytes": part["free"],
        "weights_bytes": part["weights"],
        "in_files_bytes": part["library data"],
        "in_stack_bytes": part["stack"],
        "python_arenas_bytes": part["arenas"],
    }


def usage(seen: dict[str, int]) -> int:
    names = ("charged_anon_lists_bytes", "charged_file_lists_bytes", "charged_kernel_bytes")
    return sum(seen[name] for name in names)


def resident(seen: dict[str, int]) -> int:
    return sum(seen[f"rss_{kind}_bytes"] for kind in ("anon", "file", "shmem"))


def span_events(
    number: int, phase: str, before: dict[str, int], after: dict[str, int], **about: Any
) -> list[dict[str, Any]]:
    keys = {"round": None, "network": None, "layer": None, "name": None, "thread": 0}
    held = max(usage(before), usage(after))
    start = {"event": "start", "id": number, "phase": phase, **keys, **about}
    end = {"event": "end", "id": number, "peak_bytes": held, "cpu_ns": 1}
    counted = {"major_faults": 0, "minor_faults": 0, "maxrss_bytes": resident(after)}
    return [
        {**start, "t_ns": 10 * number, "usage_bytes": usage(before), "swap_bytes": 0}
        | {"view": before},
        {**end, **counted, "t_ns": 10 * number + 5, "usage_bytes": usage(after), "swap_bytes": 0}
        | {"view": after, "view_peak_bytes": max(resident(before), resident(after))},
    ]
