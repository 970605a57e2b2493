"""What ``calibrate`` answers: the speeds that decide how slow a tight limit is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgebench.units import format_duration, format_size

if TYPE_CHECKING:
    from edgebench.slowdown.calibration.device import Calibration


def calibration_sentence(made: Calibration) -> str:
    """How fast swap, or without it files, are read, and what a fault takes."""
    read, written = made.swap_in_bytes_per_s, made.swap_out_bytes_per_s
    fault = f"a major fault takes {constant_words(made.fault_s.value, made.fault_s.unit)}"
    if read is None or written is None:
        files = made.file_read_bytes_per_s
        rate = constant_words(files.value, files.unit)
        return f"{made.device} reads files at {rate}; {fault} (no swap)."
    reads, writes = (constant_words(rate.value, rate.unit) for rate in (read, written))
    swap = f"{made.device} reads from swap ({made.swap_kind}) at {reads}"
    return f"{swap} and writes to it at {writes}; {fault}."


def constant_words(value: float, unit: str) -> str:
    """A constant with its unit."""
    if unit == "bytes/s":
        return f"{format_size(value)}/s"
    if unit == "bytes":
        return format_size(value)
    if unit == "s":
        return format_duration(value) if value >= 1e-5 else f"{value * 1e6:.2f} µs"
    return f"{value:.2f}" if unit == "share" else f"{value:.1f} {unit}"
