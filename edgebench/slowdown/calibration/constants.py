"""From scans to constants: each block of trials gives every constant once.

A pass that misses takes longer than one of the same kind that fits in RAM. What it takes more is
explained by the bytes that came in, those that went out, and the major faults, which the kernel
counts. Passes differ in their mixture (in order and by chance, reading and dirtying), and
that parts the three.
"""

from __future__ import annotations

import math
import mmap
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from edgebench.boards.storage import AS_IS, parse_storage
from edgebench.errors import MachineError
from edgebench.slowdown.calibration.device import Constant, constant
from edgebench.slowdown.calibration.scans import FITS, WIDE, Block, Scan
from edgebench.slowdown.curves import FloatArray
from edgebench.slowdown.never_run import relative_least_squares

#: A declared speed holds what is by itself this many times faster.
_BINDING = 1.25
#: What is scanned → where it comes from.
_SOURCES = {"anon": "swap", "file": "file"}
#: Scans this little above what memory holds differ between LRU and the rest only by noise.
_LEAST_SHARE = 1.02
#: A fault and its transfer can be parted if a fault in order brings this many times the pages of
#: one by chance.
_LEAST_CONTRAST = 1.5
#: Of a pass's time, the most that is put down to its faults if the transfer is to be positive.
_MOST_FAULTS = 0.9
#: The least a byte may cost: of 100 GB/s.
_LEAST_COST_S = 1e-11


def lru(distance: FloatArray, room: FloatArray) -> FloatArray:
    """Miss share under least recently used: all or nothing, M being enough for D or not."""
    return np.asarray(distance > room, dtype=np.float64)


def optimal(distance: FloatArray, room: FloatArray) -> FloatArray:
    """Miss share of a cyclic scan under optimal replacement (Belady, 1966): max(0, 1 − M/D)."""
    return np.asarray(1 - np.minimum(1.0, room / np.maximum(distance, 1.0)))


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


@dataclass(frozen=True)
class Costs:
    """What swap costs in one block: s/byte in and out, s/fault."""

    in_s: float
    out_s: float
    fault_s: float


def constant_over_blocks(
    unit: str, of: Callable[[Block], float], blocks: Sequence[Block]
) -> Constant:
    """One constant, from the value of each block."""
    return constant(unit, [of(block) for block in blocks])


def minor_fault_s(block: Block) -> float:
    """Seconds of the first touch of an anonymous page, all fitting."""
    touch = block.passes("anon", FITS, "touch")[0]
    return touch.seconds / (touch.touched_bytes / mmap.PAGESIZE)


def swap_costs(block: Block) -> Costs:
    """What a byte in, a byte out and a fault cost, by least squares on relative errors."""
    minor = minor_fault_s(block)
    wide = [s for s in block.passes("anon", WIDE) if s.in_bytes or s.out_bytes]
    by_chance = _pages_a_fault(block.passes("anon", WIDE, "random"))
    parted = pages_per_fault(block) / by_chance >= _LEAST_CONTRAST
    rows, extra = [], []
    for scan in wide:
        known = 0.0 if parted else scan.major_faults * minor
        rows.append([scan.in_bytes, scan.out_bytes, scan.major_faults * parted])
        extra.append(max(_extra(block, scan) - known, 0.1 * scan.seconds))
    in_s, out_s, fault_s = relative_least_squares(rows, extra)
    return Costs(in_s, out_s, fault_s if parted else minor)


def _extra(block: Block, scan: Scan) -> float:
    """Seconds beyond those of the same bytes by the same kind of pass, all in RAM."""
    fits = block.passes(scan.of, FITS, scan.what)[-1]
    in_ram = fits.seconds / fits.touched_bytes
    if scan.what == "fill":
        # Where it fits, the pages were touched before they were filled.
        in_ram += minor_fault_s(block) / mmap.PAGESIZE
    return scan.seconds - in_ram * scan.touched_bytes


def pages_per_fault(block: Block) -> float:
    """Pages that come back by one major fault of a scan of swapped memory in order."""
    return _pages_a_fault(block.settled("anon", WIDE))


def file_pages_per_fault(block: Block) -> float:
    """The same of a mapped file that is not in memory."""
    return _pages_a_fault(block.passes("file", WIDE, "map"))


def _pages_a_fault(scans: Sequence[Scan]) -> float:
    faults = sum(scan.major_faults for scan in scans)
    return max(1.0, sum(scan.in_bytes for scan in scans) / mmap.PAGESIZE / max(1, faults))


def file_fault_s(block: Block) -> float:
    """Seconds of a fault beyond the transfer, from mapped files in order and by chance."""
    rows, extra = [], []
    for scan in block.passes("file", WIDE, "map") + block.passes("file", WIDE, "random"):
        rows.append([float(scan.in_bytes), float(scan.major_faults)])
        extra.append(_beyond_ram(block, scan))
    return relative_least_squares(rows, extra)[1]


def file_fault_rate(block: Block, fault_s: float) -> float:
    """Bytes per second of a mapped file touched in order, beyond what its faults cost."""
    scans = block.passes("file", WIDE, "map")
    seconds = sum(_beyond_ram(block, scan) for scan in scans)
    faults = min(sum(s.major_faults for s in scans) * fault_s, _MOST_FAULTS * seconds)
    return sum(s.in_bytes for s in scans) / (seconds - faults)


def _beyond_ram(block: Block, scan: Scan) -> float:
    """Seconds of a pass over a cold file beyond those of a warm one."""
    warm = block.passes("file", FITS, "read")[-1]
    in_ram = warm.seconds / warm.touched_bytes * scan.touched_bytes
    return max(scan.seconds - in_ram, 0.1 * scan.seconds)


def file_read_rate(block: Block) -> float:
    """Bytes per second of a file that is not in memory, by ``read(2)``."""
    scans = block.passes("file", WIDE, "copy")
    return sum(s.touched_bytes for s in scans) / sum(s.seconds for s in scans)


def lru_share(block: Block, of: str) -> float:
    """θ, within 0 and 1: the median over the cyclic scans that don't fit, one a size.

    Just above what fits, reclaim that is near LRU may still keep a part for some passes; the median
    is what it does at most sizes.
    """
    by_size: dict[float, list[float]] = {}
    for scan in block.cyclic(of):
        if scan.share > _LEAST_SHARE:
            sizes = np.array(scan.size_bytes), np.array(scan.resident_bytes)
            least, most = float(optimal(*sizes)), float(lru(*sizes))
            found = min(1.0, max(0.0, (scan.miss_share - least) / (most - least)))
            by_size.setdefault(scan.planned_share, []).append(found)
    if not by_size:
        raise MachineError(
            "no scan exceeded what the limit leaves to it: the limit doesn't hold its memory down",
            remedy="edgebench doctor",
        )
    return statistics.median(statistics.fmean(found) for found in by_size.values())


def constants_of(
    blocks: Sequence[Block], base_bytes: Sequence[float], hot_bytes: Sequence[float], *, swaps: bool
) -> dict[str, Constant | None]:
    """Every constant of a calibration, by its name.

    Args:
        blocks: all scans.
        base_bytes: the runtime's footprint unlimited, one a measurement.
        hot_bytes: what of it stays under pressure.
        swaps: whether there is swap. If not, what a fault costs, what it brings and how reclaim
            behaves come from mapped files, all that can come back then.

    Raises:
        MachineError: nothing was read from a disk, or no scan exceeded its limit.
    """
    _require_disk(blocks)
    costs = [swap_costs(block) for block in blocks] if swaps else []
    faults = [c.fault_s for c in costs] or [file_fault_s(block) for block in blocks]
    pages = pages_per_fault if swaps else file_pages_per_fault
    of = "anon" if swaps else "file"
    base = constant("bytes", base_bytes)
    return {
        "swap_in_bytes_per_s": _rate([c.in_s for c in costs]) if swaps else None,
        "swap_out_bytes_per_s": _rate([c.out_s for c in costs]) if swaps else None,
        "file_read_bytes_per_s": constant_over_blocks("bytes/s", file_read_rate, blocks),
        "file_fault_bytes_per_s": constant(
            "bytes/s",
            [file_fault_rate(block, s) for block, s in zip(blocks, faults, strict=True)],
        ),
        "fault_s": constant("s", faults),
        "minor_fault_s": constant_over_blocks("s", minor_fault_s, blocks),
        "pages_per_fault": constant_over_blocks("pages", pages, blocks),
        "file_pages_per_fault": constant_over_blocks("pages", file_pages_per_fault, blocks),
        "lru_share": constant("share", [lru_share(b, of) for b in blocks if b.sizes(of) > 2]),
        "base_bytes": base,
        # What the scanning itself takes counts with it, and where nothing can go it shows.
        "hot_base_bytes": constant("bytes", [min(hot, base.value) for hot in hot_bytes]),
        **_request_sizes(blocks),
    }


def _request_sizes(blocks: Sequence[Block]) -> dict[str, Constant | None]:
    settled = [scan for block in blocks for scan in block.settled("anon", WIDE)]
    mapped = [scan for block in blocks for scan in block.passes("file", WIDE, "map")]
    return {
        "swap_request_bytes": request_bytes(settled),
        "file_request_bytes": request_bytes(mapped),
    }


def _rate(seconds_a_byte: Sequence[float]) -> Constant:
    # A cost that least squares found to be nothing is one too small to be seen.
    return constant("bytes/s", [1 / max(cost, _LEAST_COST_S) for cost in seconds_a_byte])


def _require_disk(blocks: Sequence[Block]) -> None:
    if all(scan.in_bytes == 0 for block in blocks for scan in block.passes("file", WIDE, "map")):
        raise MachineError(
            "the scanned file never came from a disk: its folder is in RAM or on a network",
            remedy="name a folder on the disk that holds the weights: EDGEBENCH_CACHE=FOLDER",
        )
