"""Constants of a device that was not calibrated: where the search for its costs begins.

Its runtime's footprint is that of its trials, what a fault brings is what its kernel's settings
say, and its costs are those of a common computer. No prediction rests on them alone: they are
fitted to trials first (:mod:`edgebench.slowdown.models.device_costs`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgebench.slowdown.calibration.device import SCHEMA, Calibration, Constant

#: Kinds of swap that keep pages in RAM: nothing is read ahead, and no disk is waited for.
_IN_RAM = ("zram",)
#: Bytes a second from swap and to it, and seconds of a fault: of a disk, and of zram.
_DISK, _RAM = (300e6, 300e6, 6e-5), (2e9, 5e8, 2e-6)
#: Bytes a second of files, by calls and mapped; seconds of a page's first touch.
_READ, _MAPPED, _TOUCH = 1e9, 5e8, 1e-6
#: What the kernel does unless it is told otherwise.
_PAGE_CLUSTER, _READ_AHEAD_KIB, _PAGE_KIB = 3, 128, 4
#: The part of the runtime that rounds use: about what calibrations find.
_HOT_SHARE = 0.1
_NO_SWAP = "none"


def assumed_constants(
    device: str, swap_kind: str, base_bytes: float, environment: Mapping[str, Any]
) -> Calibration:
    """The constants, with ``repeats`` 0: none of them was calibrated."""
    swap_in, swap_out, fault = _RAM if swap_kind in _IN_RAM else _DISK
    swaps = swap_kind != _NO_SWAP
    cluster = environment.get("page_cluster")
    pages = 1 if swap_kind in _IN_RAM else 2 ** int(_PAGE_CLUSTER if cluster is None else cluster)
    disk = environment.get("weights_disk")
    ahead = disk.get("read_ahead_kb") if isinstance(disk, dict) else None
    file_pages = max(1, int(ahead or _READ_AHEAD_KIB) // _PAGE_KIB)
    return Calibration(
        device=device,
        swap_kind=swap_kind,
        created_utc="",
        schema=SCHEMA,
        environment=dict(environment),
        swap_in_bytes_per_s=_assumed(swap_in, "bytes/s") if swaps else None,
        swap_out_bytes_per_s=_assumed(swap_out, "bytes/s") if swaps else None,
        file_read_bytes_per_s=_assumed(_READ, "bytes/s"),
        file_fault_bytes_per_s=_assumed(_MAPPED, "bytes/s"),
        fault_s=_assumed(fault, "s"),
        minor_fault_s=_assumed(_TOUCH, "s"),
        pages_per_fault=_assumed(pages, "pages"),
        file_pages_per_fault=_assumed(file_pages, "pages"),
        lru_share=_assumed(1.0, "share"),
        base_bytes=_assumed(base_bytes, "bytes"),
        hot_base_bytes=_assumed(_HOT_SHARE * base_bytes, "bytes"),
    )


def _assumed(value: float, unit: str) -> Constant:
    return Constant(value, value, value, unit, 0)
