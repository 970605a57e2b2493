"""What ``calibrate`` prints: four rows, or with ``--verbose`` each constant with its repeats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgebench.units import format_duration, format_size

if TYPE_CHECKING:
    from edgebench.slowdown.calibration import Calibration, Constant

#: Constant → what it means, in the order they are shown; the first four are always.
MEANINGS = {
    "swap_in_bytes_per_s": "swap read",
    "swap_out_bytes_per_s": "swap write",
    "file_read_bytes_per_s": "file read",
    "fault_s": "fault",
    "file_fault_bytes_per_s": "mapped file read",
    "minor_fault_s": "first touch of a page",
    "pages_per_fault": "read from swap by one fault",
    "file_pages_per_fault": "read from a mapped file by one fault",
    "base_bytes": "the runtime alone, unlimited",
    "hot_base_bytes": "of it kept at a tight limit",
    "swap_request_bytes": "read from swap by one request",
    "file_request_bytes": "read from a mapped file by one request",
    "seen_share": "added to a slowed network ÷ what the above say",
}
_BRIEF = 4


def calibration_rows(made: Calibration, verbose: bool) -> tuple[tuple[str, ...], list[list[str]]]:
    """Return titles and cells; what this device doesn't have is left out."""
    titles = ("what", "median", "lowest", "highest", "constant")[: 5 if verbose else 2]
    found = []
    for name, meaning in list(MEANINGS.items())[: None if verbose else _BRIEF]:
        value: Constant | None = getattr(made, name)
        if value is not None:
            ends = [_cell(one, value.unit) for one in (value.value, value.low, value.high)]
            found.append([meaning, *ends, name][: len(titles)])
    return titles, found


def _cell(value: float, unit: str) -> str:
    if unit == "bytes/s":
        return f"{format_size(value)}/s"
    if unit == "bytes":
        return format_size(value)
    if unit == "s":
        return format_duration(value) if value >= 1e-5 else f"{value * 1e6:.2f} µs"
    return f"{value:.2f}" if unit == "share" else f"{value:.1f} {unit}"
