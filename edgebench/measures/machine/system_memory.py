"""The whole machine's memory and CPU at this moment, read by psutil."""

from __future__ import annotations

import time
from dataclasses import dataclass

import psutil


@dataclass(frozen=True)
class SystemMemory:
    """Bytes of the whole machine. ``used_share`` is 1 - available / total.

    ``active_bytes`` is what was used lately, by the kernel's own count; None where it tells none.
    ``cpu_share`` is of all cores since the last reading.
    """

    t_ns: int
    total_bytes: int
    available_bytes: int
    used_bytes: int
    used_share: float
    active_bytes: int | None
    swap_used_bytes: int
    cpu_share: float


def read_system() -> SystemMemory:
    """Read them now."""
    memory, swap = psutil.virtual_memory(), psutil.swap_memory()
    return SystemMemory(
        t_ns=time.monotonic_ns(),
        total_bytes=memory.total,
        available_bytes=memory.available,
        used_bytes=memory.used,
        used_share=memory.percent / 100,
        active_bytes=getattr(memory, "active", None),
        swap_used_bytes=swap.used,
        cpu_share=psutil.cpu_percent(None) / 100,
    )
