"""The kernel's mark item by item: which mark it is, and that its items come to it."""

from __future__ import annotations

from typing import Any

from edgebench.measures.strategies.categories import BASE, REST, Mark, items, mark_of

MIB = 1 << 20
BASE_LOOK = {
    "heap_used_bytes": 50 * MIB,
    "heap_free_bytes": 2 * MIB,
    "charged_kernel_bytes": 1 * MIB,
    "charged_file_lists_bytes": 30 * MIB,
    "python_arenas_bytes": 9 * MIB,
}


def span(number: int, phase: str, peak: int | None, usage: int) -> list[dict[str, Any]]:
    """A span's events, as the worker writes them; its highest usage was 5 ns before its end."""
    view = {**BASE_LOOK, "highest_usage_bytes": usage, "highest_t_ns": 90, "marked_ns": 95}
    start = {"event": "start", "id": number, "phase": phase, "view": {}}
    end = {"event": "end", "id": number, "usage_bytes": usage, "peak_bytes": peak, "view": view}
    return [start, end]


def test_the_highest_mark_after_the_import_is_taken():
    """Not the import's, however high, nor that of a span around others: its mark is theirs."""
    start, *inner, end = (
        {"event": "start", "id": 9, "phase": "round", "view": {}},
        *span(2, "forward", 300 * MIB, 290 * MIB),
        *span(3, "backward", 280 * MIB, 270 * MIB),
        span(9, "round", 310 * MIB, 300 * MIB)[1],
    )
    mark = mark_of([*span(1, "import", 900 * MIB, 200 * MIB), start, *inner, end])
    assert mark
    assert (mark.size_bytes, mark.base_bytes, mark.before_ns) == (300 * MIB, 200 * MIB, 5)


def test_no_mark_where_the_kernel_resets_none():
    """Older kernels tell one mark of the whole trial: nothing is said of when it was."""
    events = [*span(1, "import", None, 200 * MIB), *span(2, "forward", None, 290 * MIB)]
    assert mark_of(events) is None


def test_items_come_to_the_mark():
    """What was put in comes out, and what was not is the rest."""
    base, rest = 200 * MIB, 3 * MIB
    grown = {
        "heap_used_bytes": 100 * MIB,
        "heap_free_bytes": 7 * MIB,
        "charged_kernel_bytes": 2 * MIB,
        "charged_file_lists_bytes": 4 * MIB,
    }
    highest = {name: BASE_LOOK[name] + size for name, size in grown.items()}
    usage = base + sum(grown.values()) + 1 * MIB + rest
    look = {**BASE_LOOK, "python_arenas_bytes": 10 * MIB}
    look |= {f"highest_{name}": size for name, size in highest.items()}
    look |= {"highest_usage_bytes": usage, "highest_t_ns": 90, "marked_ns": 95}
    held = {"parameters": 40 * MIB, "temporary": 50 * MIB}
    told = items(Mark(usage + 6 * MIB, base, BASE_LOOK, look), held)
    assert sum(told.values()) == usage + 6 * MIB
    assert {name: size // MIB for name, size in told.items() if size} == {
        BASE: 200,
        "parameters": 40,
        "temporary": 50,
        "libraries": 10,
        "allocator-kept": 7,
        "past-malloc": 1,
        "files": 4,
        "kernel": 2,
        "between-readings": 6,
        REST: 3,
    }


def test_what_a_limit_pushed_out_is_taken_off():
    """Own memory counts pages in swap too; the kernel's mark doesn't."""
    look = {f"highest_{name}": size for name, size in BASE_LOOK.items()}
    look |= {"highest_swap_bytes": 20 * MIB, "highest_usage_bytes": 180 * MIB}
    look |= {"highest_t_ns": 90, "marked_ns": 95}
    told = items(Mark(180 * MIB, 200 * MIB, BASE_LOOK, look | BASE_LOOK), {})
    assert told["swapped"] == -20 * MIB
    assert told[REST] == 0
