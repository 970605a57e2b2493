"""What a declared storage speed lets through, from a calibration of the storage as it is.

The kernel holds bytes and requests, and lets a process wait for the later of the two; while it
waits the costs of its faults pass too. So a pass takes the longer of its own time and the held one,
never their sum. One page that is swapped in is one request, however many the disk merges
(docs/decisions/0080-storage-is-declared.md).
"""

from __future__ import annotations

from dataclasses import replace

from edgebench.errors import MachineError
from edgebench.slowdown.calibration.device import Calibration, Constant, HeldRates
from edgebench.storage_speed import StorageSpeed

#: Of a calibration that tried no declared speed: as far as the proof lets one be off.
_UNTRIED = Constant(1.0, 0.9, 1.1, "share", 0)
_ON_DISK = ("file", "system")
_UNCOUNTED = """\
its calibration does not tell how many bytes one request has, so nothing is known of storage held \
to so many requests"""


def held_rates(calibration: Calibration, storage: StorageSpeed) -> HeldRates | None:
    """Bytes a second that may come from swap and from files; None for storage as it is.

    The interval is that of the constants it comes from.

    Raises:
        MachineError: requests are held, and how many bytes one has was not measured.
    """
    if storage.read_bps is None and storage.read_iops is None:
        return None
    swaps = calibration.swap_kind in _ON_DISK
    return HeldRates(
        storage.label,
        _rate(calibration, storage, calibration.swap_request_bytes) if swaps else None,
        _rate(calibration, storage, calibration.file_request_bytes),
    )


def _rate(calibration: Calibration, storage: StorageSpeed, request: Constant | None) -> Constant:
    """The slower of what the bytes and what the requests allow."""
    reached = _reached(calibration.held_share or _UNTRIED)
    allowed = []
    if storage.read_bps is not None:
        allowed.append(Constant(storage.read_bps, storage.read_bps, storage.read_bps, "", 0))
    if storage.read_iops is not None:
        if request is None:
            raise MachineError(_UNCOUNTED, remedy="edgebench calibrate")
        value, low, high = (
            storage.read_iops * n for n in (request.value, request.low, request.high)
        )
        allowed.append(Constant(value, low, high, "", 0))
    least = min(allowed, key=lambda rate: rate.value)
    return Constant(
        least.value * reached.value,
        least.low * reached.low,
        least.high * reached.high,
        "bytes/s",
        reached.repeats,
    )


def _reached(share: Constant) -> Constant:
    """What part of a declared speed is reached: all of it, unless passes surely show another."""
    return replace(share, value=1.0) if share.low < 1.0 < share.high else share
