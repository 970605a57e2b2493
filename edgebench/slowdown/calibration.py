"""A device's constants, as data, and where they are kept.

One file a device and kind of swap: ``<results root>/<device>/calibration-<swap kind>.json``,
written by ``edgebench calibrate``. What each constant means and how it is measured is in
docs/verbs/calibrate.md. A device without that file has assumed constants.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from edgebench.boards.storage import StorageSpeed
from edgebench.errors import MachineError, ResultsError
from edgebench.records import is_number
from edgebench.results.derived import write_derived
from edgebench.safe_reading import read_file

#: Version of the calibration's file.
SCHEMA = 2
#: Constants that not every device has.
_MAY_LACK = (
    *("swap_in_bytes_per_s", "swap_out_bytes_per_s"),
    *("swap_request_bytes", "file_request_bytes", "seen_share"),
)
_ANEW_REMEDY = "move the file away and calibrate anew: edgebench calibrate"
#: Each kind of swap as it is written on the command line.
_SWAP_WORDS = {"file": "2G", "zram": "zram:1G"}
_ON_DISK = ("file", "system")
#: Bytes a second from swap and to it, and seconds of a fault: of a disk, and of zram.
_DISK, _RAM = (300e6, 300e6, 6e-5), (2e9, 5e8, 2e-6)
#: Bytes a second of files, by calls and mapped; seconds of a page's first touch.
_READ, _MAPPED, _TOUCH = 1e9, 5e8, 1e-6
#: What the kernel does unless it is told otherwise.
_PAGE_CLUSTER, _READ_AHEAD_KIB, _PAGE_KIB = 3, 128, 4
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

    @classmethod
    def from_json(cls, data: dict[str, Any], where: str = "calibration") -> Calibration:
        """Return the calibration of :meth:`to_json`; keys this version does not know are left out.

        Raises:
            ResultsError: no calibration, damaged, or written by a newer version.
        """
        schema = data.get("schema")
        if isinstance(schema, bool) or not isinstance(schema, int):
            raise ResultsError(
                "no calibration: it has no schema version", where=where, remedy=_ANEW_REMEDY
            )
        if schema > SCHEMA:
            raise ResultsError(
                f"the calibration has schema {schema}; this edgebench reads up to {SCHEMA}",
                where=where,
                remedy="read it with the edgebench that made it, or calibrate anew",
            )
        known = {f.name: data[f.name] for f in fields(cls) if f.name in data and f.name != "held"}
        try:
            for f in fields(cls):
                if "Constant" in str(f.type) and (f.name in known or f.name not in _MAY_LACK):
                    known[f.name] = _constant(known[f.name], f.name)
            known["scans"] = tuple(known.get("scans", ()))
            known["warnings"] = tuple(known.get("warnings", ()))
            return cls(**known)
        except (KeyError, TypeError, ValueError) as error:
            fault = f"no {error.args[0]}" if isinstance(error, KeyError) else str(error)
            raise ResultsError(
                f"the calibration is damaged: {fault}", where=where, remedy=_ANEW_REMEDY
            ) from None


def _constant(data: object, name: str) -> Constant | None:
    if data is None and name in _MAY_LACK:
        return None
    if not isinstance(data, dict):
        raise ValueError(f"{name} is no constant")
    found = Constant(**{f.name: data[f.name] for f in fields(Constant)})
    numbers = (found.value, found.low, found.high)
    if not all(map(is_number, numbers)):
        raise ValueError(f"{name} is no number")
    return found


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
        ResultsError: the file is damaged, or written by a newer version.
    """
    path = calibration_path(root, device, swap_kind, ram=ram)
    command = f"edgebench calibrate --swap {_SWAP_WORDS.get(swap_kind, swap_kind)}"
    command += " --storage disk=ram" if ram else ""
    remedy = f"measure its constants: {command} --device {device} --results {root}"
    try:
        text = read_file(path)
    except OSError as error:
        place = " on a disk in memory" if ram else ""
        what = f"no calibration of device {device} with swap of kind {swap_kind}{place}"
        if not isinstance(error, FileNotFoundError):
            what = f"the calibration can't be read: {error.strerror}"
        raise MachineError(what, where=str(path), remedy=remedy) from None
    try:
        data = json.loads(text)
    except ValueError:
        data = None
    if not isinstance(data, dict):
        raise ResultsError("the calibration is damaged: no JSON", where=str(path), remedy=remedy)
    found = Calibration.from_json(data, str(path))
    if (found.device, found.swap_kind, found.ram) != (device, swap_kind, ram):
        raise MachineError(
            f"this is the calibration of device {found.device} with swap of kind "
            f"{found.swap_kind}, not of {device} with {swap_kind}",
            where=str(path),
            remedy=remedy,
        )
    return found


def assumed_constants(
    device: str, swap_kind: str, base_bytes: float, environment: Mapping[str, Any]
) -> Calibration:
    """Constants of a device that was not calibrated, with ``repeats`` 0.

    The runtime's footprint is that of its trials, what a fault brings is what the kernel's settings
    say, and the costs are those of a common computer. They count only where a declared speed
    decides how long bytes take.
    """
    in_ram, swaps = swap_kind == "zram", swap_kind != "none"
    swap_in, swap_out, fault = _RAM if in_ram else _DISK
    cluster = environment.get("page_cluster")
    if not isinstance(cluster, int) or not 0 <= cluster < 32:
        cluster = _PAGE_CLUSTER
    pages = 1 if in_ram else 2**cluster
    disk = environment.get("weights_disk")
    ahead = disk.get("read_ahead_kb") if isinstance(disk, dict) else None
    file_pages = max(1, (ahead if isinstance(ahead, int) else _READ_AHEAD_KIB) // _PAGE_KIB)

    def known(value: float, unit: str) -> Constant:
        return Constant(value, value, value, unit, 0)

    return Calibration(
        device=device,
        swap_kind=swap_kind,
        created_utc="",
        schema=SCHEMA,
        environment=dict(environment),
        swap_in_bytes_per_s=known(swap_in, "bytes/s") if swaps else None,
        swap_out_bytes_per_s=known(swap_out, "bytes/s") if swaps else None,
        file_read_bytes_per_s=known(_READ, "bytes/s"),
        file_fault_bytes_per_s=known(_MAPPED, "bytes/s"),
        fault_s=known(fault, "s"),
        minor_fault_s=known(_TOUCH, "s"),
        pages_per_fault=known(pages, "pages"),
        file_pages_per_fault=known(file_pages, "pages"),
        base_bytes=known(base_bytes, "bytes"),
        hot_base_bytes=known(_HOT_SHARE * base_bytes, "bytes"),
    )
