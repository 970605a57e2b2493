"""From scans to a device's constants: each block of scans gives every constant once.

A pass that misses takes longer than one of the same kind that fits in RAM. What it takes more is
explained by the bytes that came in, those that went out, and the major faults, which the kernel
counts. Passes differ in their mixture (in order and by chance, reading and dirtying), and
that parts the three.
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from edgebench.errors import MachineError
from edgebench.measures.machine.noise import FOREIGN_SHARE, STEAL_SHARE
from edgebench.slowdown.calibration import Constant, constant
from edgebench.slowdown.never_run import relative_least_squares

#: The least and the most that is scanned, against what the limit leaves.
FITS, WIDE = 0.75, 2.0
#: A fault and its transfer can be parted if a fault in order brings this many times the pages of
#: one by chance.
_LEAST_CONTRAST = 1.5
#: Of a pass's time, the most that is put down to its faults if the transfer is to be positive.
_MOST_FAULTS = 0.9
#: The least a byte may cost: of 100 GB/s.
_LEAST_COST_S = 1e-11
#: Between the lowest and the highest repeat, as a share of the median.
_WIDE_SPREAD = 0.5


@dataclass(frozen=True)
class Scan:
    """One pass over anonymous memory or a file, in one trial.

    Attributes:
        block: which repeat of every scan it belongs to.
        of: ``anon`` or ``file``.
        planned_share: what was scanned against what the limit was thought to leave.
        what: the pass, a name of :data:`edgebench.workloads.scan.PASSES`.
        number: which pass of its kind in its trial it is, from 0.
        size_bytes: what was scanned; ``resident_bytes`` of it were in RAM when the pass had ended.
        touched_bytes: what the pass touched; less than all if in an order by chance.
        seconds: wall time of the touching alone.
        in_bytes, out_bytes: what came from swap or the file and what went to swap meanwhile.
        major_faults: the process's.
        requests: reads of the disk meanwhile, merged ones counted singly; None: on no disk.
    """

    block: int
    of: str
    planned_share: float
    what: str
    number: int
    size_bytes: int
    resident_bytes: int
    touched_bytes: int
    seconds: float
    in_bytes: int
    out_bytes: int
    major_faults: int
    requests: int | None = None


class Block:
    """One repeat of every scan, in the order they were made."""

    def __init__(self, scans: Sequence[Scan]) -> None:
        self._scans = scans

    def passes(self, of: str, share: float, what: str | None = None) -> list[Scan]:
        """Return the passes of one size, of one kind or of all."""
        about = (of, share)
        own = [scan for scan in self._scans if (scan.of, scan.planned_share) == about]
        return [scan for scan in own if what in (None, scan.what)]

    def settled(self) -> list[Scan]:
        """Return passes over swapped memory in order that follow one in order.

        The first finds what the fill left: dirty pages, which go out.
        """
        return [scan for scan in self.passes("anon", WIDE, "read") if scan.number > 0]

    def touch_s(self) -> float:
        """Return the seconds of the first touch of an anonymous page, all fitting."""
        touch = self.passes("anon", FITS, "touch")[0]
        return touch.seconds / (touch.touched_bytes / mmap.PAGESIZE)

    def swap_costs(self) -> tuple[float, float, float]:
        """Return the seconds of a byte in, a byte out and a fault, by relative least squares."""
        touch_s = self.touch_s()
        by_chance = _pages_a_fault(self.passes("anon", WIDE, "random"))
        parted = _pages_a_fault(self.settled()) / by_chance >= _LEAST_CONTRAST
        rows, extra = [], []
        for scan in self.passes("anon", WIDE):
            if not (scan.in_bytes or scan.out_bytes):
                continue
            fits = self.passes("anon", FITS, scan.what)[-1]
            in_ram = fits.seconds / fits.touched_bytes
            if scan.what == "fill":
                # Where it fits, the pages were touched before they were filled.
                in_ram += touch_s / mmap.PAGESIZE
            known = 0.0 if parted else scan.major_faults * touch_s
            rows.append([scan.in_bytes, scan.out_bytes, scan.major_faults * parted])
            beyond = scan.seconds - in_ram * scan.touched_bytes - known
            extra.append(max(beyond, 0.1 * scan.seconds))
        in_s, out_s, fault_s = relative_least_squares(rows, extra)
        return in_s, out_s, fault_s if parted else touch_s

    def file_fault_s(self) -> float:
        """Return the seconds of a fault beyond its transfer, from mapped files both ways."""
        scans = [*self.passes("file", WIDE, "map"), *self.passes("file", WIDE, "random")]
        rows = [[float(scan.in_bytes), float(scan.major_faults)] for scan in scans]
        return relative_least_squares(rows, [self._beyond_ram(scan) for scan in scans])[1]

    def file_fault_rate(self, fault_s: float) -> float:
        """Return bytes a second of a mapped file touched in order, beyond what faults cost."""
        scans = self.passes("file", WIDE, "map")
        seconds = sum(self._beyond_ram(scan) for scan in scans)
        faults = min(sum(s.major_faults for s in scans) * fault_s, _MOST_FAULTS * seconds)
        return sum(s.in_bytes for s in scans) / (seconds - faults)

    def _beyond_ram(self, scan: Scan) -> float:
        """Seconds of a pass over a cold file beyond those of a warm one."""
        warm = self.passes("file", FITS, "read")[-1]
        in_ram = warm.seconds / warm.touched_bytes * scan.touched_bytes
        return max(scan.seconds - in_ram, 0.1 * scan.seconds)

    def file_read_rate(self) -> float:
        """Return bytes a second of a file that is not in memory, by ``read(2)``."""
        scans = self.passes("file", WIDE, "copy")
        return sum(s.touched_bytes for s in scans) / sum(s.seconds for s in scans)


def _pages_a_fault(scans: Sequence[Scan]) -> float:
    faults = sum(scan.major_faults for scan in scans)
    return max(1.0, sum(scan.in_bytes for scan in scans) / mmap.PAGESIZE / max(1, faults))


def _request_bytes(scans: Sequence[Scan]) -> Constant | None:
    """Bytes that one read of the disk brings; None: no pass read from a disk that counts."""
    counted = [s.in_bytes / s.requests for s in scans if s.requests and s.in_bytes]
    return constant("bytes", counted) if counted else None


def constants_of(
    scans: Sequence[Scan], base_bytes: Sequence[float], hot_bytes: Sequence[float], *, swaps: bool
) -> dict[str, Constant | None]:
    """Return every constant that scans tell, by its name.

    Args:
        scans: of all blocks.
        base_bytes: the runtime's footprint unlimited, one a measurement.
        hot_bytes: what of it stays under pressure.
        swaps: whether there is swap. If not, what a fault costs and what it brings come from
            mapped files, all that can come back then.

    Raises:
        MachineError: nothing was read from a disk.
    """
    blocks = [
        Block([scan for scan in scans if scan.block == number])
        for number in sorted({scan.block for scan in scans})
    ]
    mapped = [block.passes("file", WIDE, "map") for block in blocks]
    if not any(scan.in_bytes for own in mapped for scan in own):
        raise MachineError(
            "the scanned file never came from a disk: its folder is in RAM or on a network",
            remedy="name a folder on the disk that holds the weights: EDGEBENCH_CACHE=FOLDER",
        )
    settled = [block.settled() for block in blocks]
    costs = [block.swap_costs() for block in blocks] if swaps else []
    faults = [fault for *_, fault in costs] or [block.file_fault_s() for block in blocks]
    rates = [block.file_fault_rate(s) for block, s in zip(blocks, faults, strict=True)]
    base = constant("bytes", base_bytes)
    # A cost that least squares found to be nothing is one too small to be seen.
    in_rates, out_rates = ([1 / max(cost[n], _LEAST_COST_S) for cost in costs] for n in (0, 1))
    return {
        "swap_in_bytes_per_s": constant("bytes/s", in_rates) if swaps else None,
        "swap_out_bytes_per_s": constant("bytes/s", out_rates) if swaps else None,
        "file_read_bytes_per_s": constant("bytes/s", [b.file_read_rate() for b in blocks]),
        "file_fault_bytes_per_s": constant("bytes/s", rates),
        "fault_s": constant("s", faults),
        "minor_fault_s": constant("s", [block.touch_s() for block in blocks]),
        "pages_per_fault": constant("pages", [*map(_pages_a_fault, settled if swaps else mapped)]),
        "file_pages_per_fault": constant("pages", [*map(_pages_a_fault, mapped)]),
        "base_bytes": base,
        # What the scanning itself takes counts with it, and where nothing can go it shows.
        "hot_base_bytes": constant("bytes", [min(hot, base.value) for hot in hot_bytes]),
        "swap_request_bytes": _request_bytes([scan for own in settled for scan in own]),
        "file_request_bytes": _request_bytes([scan for own in mapped for scan in own]),
    }


def calibration_warnings(
    constants: Mapping[str, Constant | None], noise: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Return what puts constants in doubt: times that differ between repeats, a busy machine."""
    found = [
        f"{name} spreads from {one.low:.3g} to {one.high:.3g} {one.unit} "
        f"(median {one.value:.3g}, {one.repeats} repeats): predictions are no surer than that"
        for name, one in constants.items()
        # Pages a fault and the like have a spread that costs nothing.
        if one and one.unit in ("bytes/s", "s") and one.high - one.low > _WIDE_SPREAD * one.value
    ]
    foreign, stolen = (
        median([one[key] for one in noise if one.get(key) is not None] or [0.0])
        for key in ("foreign_cpu_share", "steal_share")
    )
    if foreign > FOREIGN_SHARE:
        words = "end them (`top` names them) and calibrate again"
        found.append(f"other programs used {foreign:.0%} of the CPU: {words}")
    if stolen > STEAL_SHARE:
        words = "calibrate again when its other machines are quiet"
        found.append(f"the hypervisor took {stolen:.0%} of the CPU time: {words}")
    if throttled := sum(one.get("throttled_events") or 0 for one in noise):
        words = "cool the machine and calibrate again"
        found.append(f"the CPU was throttled ({throttled} events): {words}")
    return found
