"""Whether the way a sweep's trials were watched can have prevented kills.

Standard library alone, so it serves wherever records are read.
"""

from __future__ import annotations

from typing import Literal

from edgebench.results.sweep_reader import Sweep

Watched = Literal["without memory.stat", "with memory.stat", "both"]


def how_watched(sweep: Sweep) -> Watched | None:
    """How its timed trials under a memory limit were watched; None if there are none.

    A record that doesn't say so is an older one: then memory.stat was read of all.
    """
    numbers = sweep.columns.numbers
    limits, flushes = numbers.get("limit_bytes"), numbers.get("watched_flushes")
    if limits is None:
        return None
    read = {flushes is None or flushes[n] != 0 for n, size in enumerate(limits) if size == size}
    if len(read) > 1:
        return "both"
    ways: dict[bool, Watched] = {True: "with memory.stat", False: "without memory.stat"}
    return next((ways[one] for one in read), None)
