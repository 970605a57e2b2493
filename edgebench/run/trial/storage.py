"""Which disks a trial uses, and how they are held to the scenario's storage speed.

Each disk is proved to be held before the first trial that needs it
(:mod:`edgebench.cgroups.storage`).
"""

from __future__ import annotations

import itertools
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgebench.boards import AS_IS_REMEDY, StorageSpeed, parse_storage
from edgebench.cgroups.files import DiskLimit
from edgebench.errors import CgroupError, MachineError
from edgebench.measures.machine.system_files import (
    SWAP_FILES,
    SystemFiles,
    UnreadableError,
    WholeDisk,
    swap_devices,
    whole_disk,
)
from edgebench.records import StorageReport
from edgebench.safe_files import created, make_private_folder, remove_folder, walk
from edgebench.text import MIB, format_size

if TYPE_CHECKING:
    from edgebench.cgroups.leftovers import Ownership
    from edgebench.cgroups.parent import ParentCgroup
    from edgebench.cgroups.storage import RamDisk, SpeedProof
    from edgebench.cgroups.swap import SwapControl, SwapState

NOT_ON_DISK = f"""\
keep weights on a disk (EDGEBENCH_CACHE names their folder), and use a swap file on one; or
{AS_IS_REMEDY}"""
OWN_SWAP = "give it swap of its own, as --swap 2G, or leave disk=ram out"
NO_DISK = f"give it swap on a disk, as --swap 2G; or {AS_IS_REMEDY}"
#: By cgroup version; see docs/explanation/storage-speed.md.
SWAP_OUT = {
    1: "cgroup version 1 charges it to the root cgroup, where it can't be held",
    2: "the kernel lets it pass although the speed is exceeded (seen on Linux 6.12)",
}
BUFFERED = {
    1: "cgroup version 1 holds direct writes only, not those through the page cache",
    2: "whether writes through the page cache are held depends on the file system; not proved",
}


@dataclass(frozen=True)
class HeldStorage:
    """What is set for a trial, and what its record says of it."""

    limits: tuple[DiskLimit, ...] = ()
    report: StorageReport | None = None


@dataclass
class StorageControl:
    """Holds the disks of trials, each proved once for each speed.

    Args:
        parent: where cgroups are made.
        swap: the swap that trials have at the moment.
        ram_disk: the disk in memory, for storage that is declared to be one.
        ownership: records the temporary file that proofs read.
        machine: the machine's files.
    """

    parent: ParentCgroup
    swap: SwapControl
    ram_disk: RamDisk
    ownership: Ownership
    machine: SystemFiles = field(default_factory=SystemFiles)
    _proved: dict[tuple[str, str], list[SpeedProof]] = field(default_factory=dict)

    def hold(self, label: str, places: StoragePlaces) -> HeldStorage:
        """Return what to set for a trial with these places and the swap at the moment.

        Raises:
            MachineError: weights or swap lie on no disk, so their speed can't be held.
            CgroupError: a disk is slower than declared, or is not held as declared.
            UsageError: no storage speed.
        """
        speed = parse_storage(label)
        if speed.as_is:
            return HeldStorage()
        needed = [("swap", area) for area in swap_areas(self.machine, self.swap.state)]
        needed += [("weights", place) for place in places.needed]
        folder = self.ram_disk.folder
        for _, place in needed if speed.ram else ():
            if folder is None or folder not in place.parents:
                raise MachineError("it is not on the disk in memory", where=str(place))
        # Each disk and the first place on it.
        disks: dict[WholeDisk, Path] = {}
        not_held: dict[str, str] = {}
        for what, place in needed:
            try:
                disks.setdefault(whole_disk(self.machine, place), place)
            except UnreadableError as reason:
                raise _refused(place, what, reason) from None
        must_hold = set(disks)
        for place in places.others:
            try:
                disks.setdefault(whole_disk(self.machine, place), place)
            except UnreadableError as reason:
                not_held[str(place)] = str(reason)
        if speed.held.as_is:
            return HeldStorage((), StorageReport(ram=True, disks=_described(disks)))
        if speed.write_bps or speed.write_iops:
            version = self.parent.version
            not_held |= {"swap-out": SWAP_OUT[version], "buffered writes": BUFFERED[version]}
        held: dict[WholeDisk, Path] = {}
        proofs: list[dict[str, Any]] = []
        for disk, place in disks.items():
            try:
                proved = self._proof(DiskLimit(disk.number, disk.name, speed.held), place, speed)
            except UnreadableError as reason:
                if disk in must_hold:
                    raise _refused(place, "storage", reason) from None
                not_held[str(place)] = str(reason)
            except CgroupError as error:
                if disk in must_hold or not speed.ram:
                    raise
                # The disk of the runtime may well be slower than one in memory.
                not_held[str(place)] = error.what
            else:
                held[disk] = place
                proofs += [{"disk": disk.name, **asdict(proof)} for proof in proved]
        if not held:
            why = "; ".join(f"{place}: {reason}" for place, reason in not_held.items())
            raise MachineError(f"there is no disk to hold: {why}", remedy=NO_DISK)
        limits = tuple(DiskLimit(disk.number, disk.name, speed.held) for disk in held)
        report = StorageReport(
            **asdict(speed), disks=_described(held), proof=proofs, not_held=not_held
        )
        return HeldStorage(limits, report)

    def use(self, kind: str, size_bytes: int | None, label: str) -> None:
        """Set up the swap that trials have from now on, where their storage has it.

        Raises:
            MachineError: swap, or the disk in memory, can't be had; says why.
        """
        if not parse_storage(label).ram:
            self.swap.use(kind, size_bytes)
            return
        if kind == "system":
            raise MachineError("the machine's own swap is on no disk in memory", remedy=OWN_SWAP)
        needed = size_bytes or 0 if kind == "file" else 0
        if not self.ram_disk.has_room(needed):
            # It may lie on the one that is too small.
            self.swap.off()
        self.swap.use(kind, size_bytes, self.ram_disk.need(needed))

    def weights(self, weights: Mapping[str, str], label: str) -> dict[str, str]:
        """Network → the folder of its weights, where a trial with that storage reads them.

        Raises:
            MachineError: the disk in memory has no room for them.
        """
        if not parse_storage(label).ram:
            return dict(weights)
        return {name: str(self.ram_disk.copy(Path(folder))) for name, folder in weights.items()}

    def _proof(self, limit: DiskLimit, place: Path, speed: StorageSpeed) -> list[SpeedProof]:
        from edgebench.cgroups.storage import prove_storage

        key = limit.number, limit.speed.label
        if key not in self._proved:
            writes = limit.speed.write_bps is not None or limit.speed.write_iops is not None
            folders = [one for one in (SWAP_FILES, self.ram_disk.folder) if one]
            where = limit.number, place, folders
            in_memory = f"use a disk in memory: --storage {replace(speed, ram=True).label}"
            otherwise = AS_IS_REMEDY if speed.ram else in_memory
            with proof_file(self.machine, self.ownership, *where, writes=writes) as file:
                self._proved[key] = prove_storage(self.parent, limit, file, otherwise)
        return self._proved[key]


def _described(disks: Mapping[WholeDisk, Path]) -> list[dict[str, Any]]:
    return [{**asdict(disk), "place": str(place)} for disk, place in disks.items()]


def _refused(place: Path, what: str, reason: Exception) -> MachineError:
    return MachineError(
        f"the speed of {what} can't be held: {reason}", where=str(place), remedy=NOT_ON_DISK
    )


@dataclass(frozen=True)
class StoragePlaces:
    """Files and folders that a trial reads. Those of ``needed`` must be on a disk."""

    needed: tuple[Path, ...] = ()
    others: tuple[Path, ...] = ()

    @classmethod
    def of(cls, settings: Mapping[str, Any], weights: Mapping[str, str]) -> StoragePlaces:
        """Return what a workload reads: weights and checkpoints.

        The runtime, or a command's own files.
        """
        if settings["kind"] == "scan":
            scanned = (area["file"] for area in settings["areas"])
            return cls(tuple(Path(file) for file in scanned if file))
        if settings["kind"] != "command":
            return cls(tuple(Path(folder) for folder in weights.values()), (Path(sys.prefix),))
        program, *words = settings["command"]
        found = shutil.which(program)
        files = []
        for word in words:
            # Too long for a path, or with a NUL in it.
            with suppress(OSError, ValueError):
                if Path(word).is_file():
                    files.append(Path(word))
        return cls((), (*([Path(found)] if found else []), Path.cwd(), *files))


def weights_of(settings: Mapping[str, Any], manifest: Mapping[str, Any]) -> dict[str, str]:
    """Network → the folder of its weights, of a workload's networks."""
    networks = manifest.get("networks", {})
    return {name: networks[name]["folder"] for name in settings.get("networks", ())}


def swap_areas(machine: SystemFiles, state: SwapState) -> list[Path]:
    """Return the files and devices that swap of this kind lies on; zram lies on none."""
    if state.kind == "file" and state.device:
        return [state.device]
    if state.kind != "system":
        return []
    return [Path(one["name"]) for one in swap_devices(machine) if one["kind"] != "zram"]


#: Larger than a disk's own buffer, and soon written.
_SIZE_BYTES = 64 * MIB
_LEAST_BYTES = 4 * MIB
#: A home folder may hold millions.
_MOST_FILES = 20_000


@contextmanager
def proof_file(
    machine: SystemFiles,
    ownership: Ownership,
    number: str,
    place: Path,
    folders: Sequence[Path],
    *,
    writes: bool,
) -> Iterator[Path]:
    """Yield a file on the disk of that number, for the time of a proof.

    Args:
        machine: the machine's files.
        ownership: records the temporary file before it is made.
        number: the disk's, ``MAJOR:MINOR``.
        place: a file or folder on it.
        folders: where a temporary file may be made, if that disk is below one of them.
        writes: whether the proof overwrites the file.

    Raises:
        UnreadableError: no file on that disk can be used; says why.
        MachineError: the temporary file can't be written.
    """
    for folder in folders:
        on_disk = False
        with suppress(UnreadableError):
            on_disk = whole_disk(machine, folder).number == number
        if on_disk:
            with _temporary(ownership, folder) as file:
                yield file
            return
    if writes:
        raise UnreadableError(
            f"its writes can't be proved: temporary files are made in {folders[0]}, on another disk"
        )
    # A swap partition is read as it is.
    found = place if place.is_block_device() else _largest(place)
    if found is None:
        raise UnreadableError(f"no file of {format_size(_LEAST_BYTES)} is there to prove it with")
    yield found


@contextmanager
def _temporary(ownership: Ownership, place: Path) -> Iterator[Path]:
    folder = place / f"edgebench-storage-{os.urandom(6).hex()}"
    ownership.claim("temp-folder", str(folder))
    try:
        make_private_folder(folder)
        with created(folder / "proof", 0o600) as file:
            # Random: some disks compress, and a file never written is read from nowhere.
            for _ in range(_SIZE_BYTES // MIB):
                file.write(os.urandom(MIB))
            file.flush()
            os.fsync(file.fileno())
        yield folder / "proof"
    except OSError as error:
        raise MachineError(
            f"a file of {format_size(_SIZE_BYTES)} to prove the disk's speed can't be written: "
            f"{error.strerror}",
            where=str(folder),
            remedy=f"free some space, or {AS_IS_REMEDY}",
        ) from error
    finally:
        if folder.is_dir():
            remove_folder(folder)
        ownership.release("temp-folder", str(folder))


def _largest(place: Path) -> Path | None:
    """Return the largest file in the place (of the first ones found), if it is large enough."""
    below = (top / name for top, names in walk(place) for name in names)
    files = [place] if place.is_file() else itertools.islice(below, _MOST_FILES)
    best, most = None, _LEAST_BYTES - 1
    for file in files:
        with suppress(OSError):
            if not file.is_symlink() and (size := file.stat().st_size) > most:
                best, most = file, size
    return best
