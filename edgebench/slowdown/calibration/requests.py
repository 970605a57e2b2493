"""Requests of a calibration: how large each is, and how exactly a declared speed holds them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

from edgebench.slowdown.calibration.device import Constant, constant
from edgebench.slowdown.calibration.scans import WIDE, Scan
from edgebench.storage_speed import AS_IS, parse_storage

#: A declared speed holds what is by itself this many times faster.
_BINDING = 1.25
#: What is scanned → where it comes from.
_SOURCES = {"anon": "swap", "file": "file"}


def request_bytes(scans: Sequence[Scan]) -> Constant | None:
    """Bytes that one read of the disk brings; None: no pass read from a disk that counts."""
    counted = [s.in_bytes / s.requests for s in scans if s.requests and s.in_bytes]
    return constant("bytes", counted) if counted else None


def held_share(scans: Sequence[Scan], found: Mapping[str, Constant | None]) -> Constant | None:
    """How fast passes under a declared speed were ÷ what it allows; None: it held none of them.

    Args:
        scans: passes of all storages.
        found: the constants of the storage as it is.
    """
    shares = []
    for scan in scans:
        if scan.storage == AS_IS or scan.what != "read" or scan.number == 0:
            continue
        allowed = _allowed(scan, found[f"{_SOURCES[scan.of]}_request_bytes"])
        free = [s.in_bytes / s.seconds for s in scans if _is_twin(s, scan)]
        if free and statistics.median(free) > _BINDING * allowed:
            shares.append(scan.in_bytes / scan.seconds / allowed)
    return constant("share", shares) if shares else None


def _allowed(scan: Scan, request: Constant | None) -> float:
    """Bytes a second that the declared speed of a pass allows; infinite: not known."""
    speed = parse_storage(scan.storage)
    rates = [float(speed.read_bps)] if speed.read_bps else []
    if speed.read_iops and request:
        rates.append(speed.read_iops * request.value)
    return min(rates, default=math.inf)


def _is_twin(one: Scan, held: Scan) -> bool:
    """Whether it is the same pass of the storage as it is, at the size that misses most."""
    return one.storage == AS_IS and (one.of, one.what, one.planned_share) == (
        *(held.of, held.what),
        WIDE,
    )
