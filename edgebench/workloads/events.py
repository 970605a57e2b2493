"""The event protocol between the worker inside the limit and the harness outside.

One JSON object a line, written with a single ``write`` to the descriptor the harness gave.
``t_ns`` is ``CLOCK_MONOTONIC``, the sampler's clock too. Three shapes:

``{"event": "start", "id": 7, "phase": "load", "round": 0, "network": "alexnet", "layer": 3,
"name": "features.6", "thread": 0, "t_ns": …, "usage_bytes": …, "swap_bytes": …}``
    A span begins. ``layer`` and ``name`` are null for a whole phase, ``network`` and ``round``
    are null outside rounds. The phase ``round`` spans one whole round.

``{"event": "end", "id": 7, "t_ns": …, "usage_bytes": …, "swap_bytes": …, "peak_bytes": …,
"cpu_ns": …, "major_faults": …, "minor_faults": …, "maxrss_bytes": …}``
    The span with that id ends. ``peak_bytes`` is the kernel's peak of the cgroup within the
    span (the mark was reset at its start and at every boundary inside it), null where the
    kernel can't reset its mark. The last four are the whole process's, from ``getrusage``;
    ``maxrss_bytes`` is its largest resident set so far, the mark that GNU time prints in the end.

``{"event": "note", "t_ns": …, "data": {…}}``
    Anything else worth keeping: library versions, threads, a digest of the output.

In a trial of a strategy that looks from inside (:mod:`edgebench.workloads.view`), starts and
ends carry ``view``, what it saw there, and ends ``view_peak_bytes``, its own mark within the span.

A null is a value the kernel doesn't tell. Keys may be added.
"""

from __future__ import annotations

from typing import TypedDict


class Descriptors(TypedDict):
    """Open descriptors the worker inherits; None where the kernel has no such file.

    ``swap`` reads memory + swap together when ``swap_is_memsw``. ``peak`` is open for reading
    and writing; a non-empty write resets it when ``peak_resets``. ``stat`` reads ``memory.stat``;
    ``kernel`` the kernel's memory where that has no line for it (version 1).
    """

    events: int
    usage: int | None
    peak: int | None
    peak_resets: bool
    swap: int | None
    swap_is_memsw: bool
    stat: int | None
    kernel: int | None


class WorkerSpec(TypedDict):
    """What the worker is told: JSON in its one argument."""

    kind: str
    settings: dict[str, object]
    descriptors: Descriptors
