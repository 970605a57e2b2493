"""A device's constants: from scans to values, and where they are kept.

One file a device and kind of swap: ``<results root>/<device>/calibration-<swap kind>.json``,
written by ``edgebench calibrate``. What each constant means and how it is measured is in
docs/verbs/calibrate.md. A device without that file has assumed constants.

A pass of a scan that misses takes longer than a pass of the same kind that fits in RAM. The
difference is explained by the bytes that came in, those that went out, and the major faults, which
the kernel counts. Passes differ in their mixture (in order and by chance, reading and dirtying), so
least squares can separate the three.
"""

from __future__ import annotations

import json
import mmap
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from edgebench.boards import StorageSpeed
from edgebench.errors import MachineError, ResultsError
from edgebench.measures.machine.noise import FOREIGN_SHARE, STEAL_SHARE
from edgebench.results.derived import write_derived
from edgebench.safe_files import read_file

#: Version of the calibration's file.
SCHEMA = 2
_ANEW_REMEDY = "move the file away and calibrate anew: edgebench calibrate"
#: Each kind of swap as it is written on the command line.
_SWAP_WORDS = {"file": "2G", "zram": "zram:1G"}
_ON_DISK = ("file", "system")
#: A common computer's constants where swap is on a disk, with their units: page-cluster 3 and a
#: read-ahead of 128 KiB; and those that differ in zram.
_COMMON = {
    "swap_in_bytes_per_s": (300e6, "bytes/s"),
    "swap_out_bytes_per_s": (300e6, "bytes/s"),
    "file_read_bytes_per_s": (1e9, "bytes/s"),
    "file_fault_bytes_per_s": (5e8, "bytes/s"),
    "fault_s": (6e-5, "s"),
    "minor_fault_s": (1e-6, "s"),
    "pages_per_fault": (8, "pages"),
    "file_pages_per_fault": (32, "pages"),
}
_IN_ZRAM = {
    "swap_in_bytes_per_s": (2e9, "bytes/s"),
    "swap_out_bytes_per_s": (5e8, "bytes/s"),
    "fault_s": (2e-6, "s"),
    "pages_per_fault": (1, "pages"),
}
#: The part of the runtime that rounds use: about what calibrations find.
_HOT_SHARE = 0.1


@dataclass(frozen=True)
class Constant:
    """One measured constant: the median over its repeats, with the lowest and the highest.

    ``unit`` is ``bytes/s``, ``requests/s``, ``s``, ``pages``, ``bytes`` or ``share``.
    """

    value: float
    low: float
    high: float
    unit: str
    repeats: int


def constant(unit: str, values: Sequence[float]) -> Constant:
    """Return the median of the repeats' values, with the lowest and the highest."""
    return Constant(statistics.median(values), min(values), max(values), unit, len(values))


@dataclass(frozen=True)
class HeldRates:
    """The most that a declared storage lets through: bytes a second from swap and from files.

    None: not held. ``storage`` is the declared speed, in its one spelling.
    """

    storage: str
    swap_bytes_per_s: float | None
    file_bytes_per_s: float | None


@dataclass(frozen=True)
class Calibration:
    """A device's constants with one kind of swap (``none``, ``file``, ``zram``, ``system``).

    The rates are of transfer alone, beyond what its faults cost. So a scan in order that misses
    F bytes takes ``F / rate + F / (page · pages_per_fault) · fault_s`` beyond its time in RAM.
    """

    device: str
    swap_kind: str
    created_utc: str
    schema: int
    environment: dict[str, Any]
    #: Anonymous pages coming back from swap; None where there is none.
    swap_in_bytes_per_s: Constant | None
    #: Dirty anonymous pages going to swap; None where there is none.
    swap_out_bytes_per_s: Constant | None
    #: A file not in memory, by ``read(2)`` in order (what the loader ``copy`` does).
    file_read_bytes_per_s: Constant
    #: A mapped file not in memory, touched in order (what the loader ``mmap`` does).
    file_fault_bytes_per_s: Constant
    #: One major fault beyond the transfer of its pages.
    fault_s: Constant
    #: The first touch of an anonymous page.
    minor_fault_s: Constant
    #: Read-ahead ρ: pages that come back by one major fault of a scan in order.
    pages_per_fault: Constant
    #: The same of a mapped file.
    file_pages_per_fault: Constant
    #: The runtime's footprint when nothing limits it.
    base_bytes: Constant
    #: The part of it that stays in RAM under a tight limit.
    hot_base_bytes: Constant
    #: What one request brings back from swap or a mapped file, as the kernel counts requests that
    #: it holds. None: swap is on no disk, or the kernel counts none.
    swap_request_bytes: Constant | None = None
    file_request_bytes: Constant | None = None
    #: Seconds that a slowed network added ÷ what the other constants say; None: none was run.
    seen_share: Constant | None = None
    #: What a declared storage allows at most; None: the storage as it is.
    held: HeldRates | None = None
    #: Every scan that the constants come from, for people who read the file.
    scans: tuple[Mapping[str, Any], ...] = ()
    #: Whether swap and files were on a disk in memory (storage ``disk=ram``).
    ram: bool = False
    #: What puts these constants in doubt, in words.
    warnings: tuple[str, ...] = ()

    @property
    def assumed(self) -> bool:
        """Whether the constants are those of a common computer."""
        return not self.fault_s.repeats

    def to_json(self) -> dict[str, Any]:
        """Plain data for ``json.dumps``."""
        data = asdict(self)
        # What a declared storage allows follows from the constants.
        del data["held"]
        return data

    def held_to(self, storage: StorageSpeed) -> Calibration:
        """Return the constants of this device with its storage held to a declared speed.

        The measured ones stay: a pass takes the longer of its time on the storage as it is and the
        time that the declared speed allows, since the costs of its faults pass while it waits. One
        page that is swapped in is one request, however many the disk merges (docs/decisions.md).

        Raises:
            MachineError: requests are held, and how many bytes one has was not measured.
        """
        if storage.read_bps is None and storage.read_iops is None:
            return replace(self, held=None)

        def rate(request: Constant | None) -> float:
            """Return the slower of what the bytes and what the requests allow."""
            rates = [] if storage.read_bps is None else [float(storage.read_bps)]
            if storage.read_iops is not None:
                if request is None:
                    raise MachineError(
                        "its calibration does not tell how many bytes one request has, so nothing "
                        "is known of storage held to so many requests",
                        remedy="edgebench calibrate",
                    )
                rates.append(storage.read_iops * request.value)
            return min(rates)

        swap = rate(self.swap_request_bytes) if self.swap_kind in _ON_DISK else None
        return replace(self, held=HeldRates(storage.label, swap, rate(self.file_request_bytes)))


def calibration_path(root: Path, device: str, swap_kind: str, ram: bool = False) -> Path:
    """Where the calibration of a device with a kind of swap is kept; ``ram``: a disk in memory."""
    return Path(root) / device / f"calibration-{swap_kind}{'-ram' if ram else ''}.json"


def save_calibration(calibration: Calibration, root: Path) -> Path:
    """Keep it in the device's folder and return the file; an earlier one is replaced.

    Raises:
        ResultsError: there is no ``root``, or it can't be written.
    """
    kind = calibration.swap_kind
    path = calibration_path(root, calibration.device, kind, ram=calibration.ram)
    text = json.dumps(calibration.to_json(), indent=1, allow_nan=False) + "\n"
    return write_derived(path.parent, path.name, text.encode())


def load_calibration(root: Path, device: str, swap_kind: str, *, ram: bool = False) -> Calibration:
    """Return the calibration of this device with this kind of swap; ``ram``: on a disk in memory.

    Raises:
        MachineError: this device was never calibrated with this kind of swap, or what lies there
            is another device's or another kind's.
        ResultsError: the file can't be read, is damaged, or is written by a newer version.
    """
    path = calibration_path(root, device, swap_kind, ram=ram)
    command = f"edgebench calibrate --swap {_SWAP_WORDS.get(swap_kind, swap_kind)}"
    command += " --storage disk=ram" if ram else ""
    remedy = f"measure its constants: {command} --device {device} --results {root}"
    try:
        made = msgspec.json.decode(read_file(path), type=Calibration)
    except FileNotFoundError:
        place = " on a disk in memory" if ram else ""
        what = f"no calibration of device {device} with swap of kind {swap_kind}{place}"
        raise MachineError(what, where=str(path), remedy=remedy) from None
    except (OSError, msgspec.DecodeError) as error:
        what = f"the calibration is damaged: {error}"
        raise ResultsError(what, where=str(path), remedy=_ANEW_REMEDY) from None
    if made.schema > SCHEMA:
        what = f"the calibration has schema {made.schema}; this edgebench reads up to {SCHEMA}"
        raise ResultsError(what, where=str(path), remedy=_ANEW_REMEDY)
    if (made.device, made.swap_kind, made.ram) != (device, swap_kind, ram):
        raise MachineError(
            f"this is the calibration of device {made.device} with swap of kind "
            f"{made.swap_kind}, not of {device} with {swap_kind}",
            where=str(path),
            remedy=remedy,
        )
    return made


def assumed_constants(
    device: str, swap_kind: str, base_bytes: float, environment: Mapping[str, Any]
) -> Calibration:
    """Return constants of a device that was not calibrated, with ``repeats`` 0.

    The runtime's footprint is that of its trials; the costs are those of a common computer, and a
    fault brings what the kernel brings unless it is told otherwise. They count only where a
    declared speed decides how long bytes take.
    """
    values = {**_COMMON, **(_IN_ZRAM if swap_kind == "zram" else {})}
    values["base_bytes"] = base_bytes, "bytes"
    values["hot_base_bytes"] = _HOT_SHARE * base_bytes, "bytes"
    made: dict[str, Any] = {k: Constant(v, v, v, unit, 0) for k, (v, unit) in values.items()}
    if swap_kind == "none":
        made |= {"swap_in_bytes_per_s": None, "swap_out_bytes_per_s": None}
    return Calibration(device, swap_kind, "", SCHEMA, dict(environment), **made)


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
        what: the pass, a name of :data:`edgebench.workloads.microbenchmarks.PASSES`.
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
        statistics.median([one[key] for one in noise if one.get(key) is not None] or [0.0])
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


def relative_least_squares(
    rows: Sequence[Sequence[float]], seconds: Sequence[float]
) -> list[float]:
    """Return each column's seconds a unit, none below 0; each row weighs the same."""
    from scipy.optimize import nnls

    relative = np.array(rows, dtype=float) / np.array(seconds, dtype=float)[:, None]
    scale = np.maximum(relative.max(axis=0), 1e-300)
    found, _ = nnls(relative / scale, np.ones(len(rows)))
    return [float(value) for value in found / scale]
