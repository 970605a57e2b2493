"""What trials share: the parent cgroup, a scratch folder, swap, disks, files of programs.

A disk that trials use is held to the scenario's storage speed. It is proved to be held before the
first trial that needs it (:mod:`edgebench.cgroups.storage`).

A page of a file is charged to the cgroup that touched it first. What lies in the page cache before
a trial is charged to another one, so no limit counts it and it is read without a disk. So files
that a command names, and those that its trials map or read, are evicted: regular files of a disk,
of 1 MiB or more, that the caller may read and of which no process of the trial maps a part as code.
The kernel drops clean pages that nobody maps, and nothing else: no data is lost, and what another
program has mapped stays.
"""

from __future__ import annotations

import itertools
import os
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgebench.boards import AS_IS_REMEDY, StorageSpeed, parse_storage
from edgebench.cgroups.files import DiskLimit
from edgebench.cgroups.leftovers import Ownership, clear_leftovers
from edgebench.cgroups.parent import ParentCgroup, find_parent
from edgebench.cgroups.process_files import cached_bytes, named_files
from edgebench.cgroups.storage import RamDisk, SpeedProof, prove_storage
from edgebench.cgroups.swap import SwapControl, SwapState
from edgebench.errors import CgroupError, MachineError, WorkloadError
from edgebench.layers.disk import drop_pages
from edgebench.measures.gnu_time import find_gnu_time
from edgebench.measures.machine.system_files import (
    SWAP_FILES,
    SystemFiles,
    UnreadableError,
    WholeDisk,
    swap_devices,
    usable_ram_bytes,
    whole_disk,
)
from edgebench.processes import Identity, caller_identity
from edgebench.records import StorageReport
from edgebench.safe_files import created, make_private_folder, open_to_read, remove_folder, walk
from edgebench.safe_folders import is_own_place
from edgebench.text import AS_IS, MIB, format_size

if TYPE_CHECKING:
    from edgebench.scenario.points import Point

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
        key = limit.number, limit.speed.label
        if key not in self._proved:
            writes = limit.speed.write_bps is not None or limit.speed.write_iops is not None
            folders = [folder for folder in (SWAP_FILES, self.ram_disk.folder) if folder]
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
        executable = shutil.which(program)
        files = []
        for word in words:
            # Too long for a path, or with a NUL in it.
            with suppress(OSError, ValueError):
                if Path(word).is_file():
                    files.append(Path(word))
        return cls((), (*([Path(executable)] if executable else []), Path.cwd(), *files))


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
    return [Path(swap["name"]) for swap in swap_devices(machine) if swap["kind"] != "zram"]


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
    largest = place if place.is_block_device() else _largest(place)
    if largest is None:
        raise UnreadableError(f"no file of {format_size(_LEAST_BYTES)} is there to prove it with")
    yield largest


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


def files_at(path: Path) -> list[Path]:
    """Return the file, or every regular file below the folder, sorted.

    What goes meanwhile is left out.
    """
    if path.is_file():
        return [path]
    # Path.glob raises an error where a folder goes.
    below = (top / name for top, names in walk(path) for name in names)
    return sorted(file for file in below if file.is_file())


#: How long a look at what is cached may take: a sparse file has any size.
LOOK_S = 1.5


class UsedFiles:
    """Which files the session's programs use, as far as it is known."""

    def __init__(self) -> None:
        self._paths: dict[Path, None] = {}
        #: What the kernel kept of them at the last eviction.
        self.kept_bytes = 0

    def add(self, paths: Iterable[str | Path]) -> None:
        """Evict these from now on."""
        self._paths |= dict.fromkeys(map(Path, paths))

    def add_below(self, paths: Iterable[str]) -> None:
        """Evict these files, or all in these folders.

        Raises:
            WorkloadError: one is not there.
        """
        for path in map(Path, paths):
            files = files_at(path)
            if not files:
                raise WorkloadError(
                    f"there is no file {path} to evict from the page cache",
                    remedy="name a file, or a folder with files: --file model.gguf",
                )
            self.add(file.absolute() for file in files)

    def add_named(self, settings: Mapping[str, Any]) -> None:
        """Evict what the words of a command name."""
        if settings["kind"] == "command":
            words = list(map(str, settings["command"]))
            self.add(named_files(words, Path(settings.get("cwd") or Path.cwd())))

    def evict(self) -> int:
        """Have the kernel drop them; the bytes that it keeps, as far as it shows them.

        What is not written to the disk yet is written first.
        """
        kept, until_s = 0, time.monotonic() + LOOK_S
        for path in self._paths:
            # It may have gone, or its rights.
            with suppress(OSError), open_to_read(path) as file:
                drop_pages(file.fileno())
                if cached_bytes(file.fileno(), until_s):
                    os.fdatasync(file.fileno())
                    drop_pages(file.fileno())
                kept += cached_bytes(file.fileno(), until_s) or 0
        self.kept_bytes = kept
        return kept


@dataclass(frozen=True)
class TrialSetup:
    """What every trial of a sweep is measured with.

    ``interval_s`` is how often the sampler reads usage; None: every millisecond while it changes.
    ``stat_interval_s`` is how often ``memory.stat`` is read where it is; None: every 10 ms while
    usage changes. ``statistics_always`` has it read in timed trials under a memory limit too, which
    can prevent a kill.
    ``storage`` holds disks to the speed that a trial asks for.
    ``files`` of programs are evicted before each trial; with ``starts_cold`` the first one is made
    again where it found them in the page cache, and those under a limit are not looked at.
    """

    parent: ParentCgroup
    gnu_time: Path
    storage: StorageControl
    identity: Identity | None = None
    interval_s: float | None = None
    stat_interval_s: float | None = None
    echo: Callable[[bytes], None] | None = None
    statistics_always: bool = False
    starts_cold: bool = True
    files: UsedFiles = field(default_factory=UsedFiles)


@dataclass(frozen=True)
class Session:
    """What trials share; all of it is removed at the end.

    ``cleared`` says what a crashed sweep had left and was cleaned up.
    """

    setup: TrialSetup
    swap: SwapControl
    folder: Path
    cleared: tuple[str, ...]

    def reserve_ram_disk(self, points: Iterable[Point], manifest: Mapping[str, Any]) -> None:
        """Make the disk in memory for the largest swap and all weights, if a point has it.

        Raises:
            MachineError: there is not enough memory for it; says why.
        """
        in_memory = [point for point in points if parse_storage(point.limits.storage).ram]
        if not in_memory:
            return
        weights = (weights_of(point.settings, manifest) for point in in_memory)
        folders = {Path(folder) for found in weights for folder in found.values()}
        every = (file.lstat() for folder in folders for file in folder.rglob("*"))
        files = [status for status in every if stat.S_ISREG(status.st_mode)]
        swap = [p.limits.swap_bytes or 0 for p in in_memory if p.limits.swap_kind == "file"]
        # Each file ends in a page of its own.
        room = sum(status.st_size + 4096 for status in files) + max(swap, default=0)
        self.swap.off()
        self.setup.storage.ram_disk.need(room)

    def prove_storage(
        self, points: Iterable[Point], manifest: Mapping[str, Any], stage: Callable[[str], None]
    ) -> None:
        """Prove each storage speed once, so that one that can't be held is reported at once.

        Raises:
            MachineError, CgroupError: as :meth:`StorageControl.hold`.
        """
        held = [point for point in points if point.limits.storage != AS_IS]
        kinds = {(p.limits.swap_kind, p.limits.swap_bytes, p.limits.storage): p for p in held}
        for (kind, size_bytes, label), point in kinds.items():
            stage(f"checking that the disk is held to {label}")
            self.setup.storage.use(kind, size_bytes, label)
            weights = self.setup.storage.weights(weights_of(point.settings, manifest), label)
            self.setup.storage.hold(label, StoragePlaces.of(point.settings, weights))


@contextmanager
def open_session(
    *,
    interval_s: float | None = None,
    stat_interval_s: float | None = None,
    echo: Callable[[bytes], None] | None = None,
    statistics_always: bool = False,
    starts_cold: bool = True,
) -> Iterator[Session]:
    """Clean up after crashed sweeps, then set up; what is made is noted first, to be found again.

    The arguments are those of :class:`~edgebench.run.trial.trial.TrialSetup`.

    Raises:
        CgroupError: no cgroup can be made here (says why, and how to fix it).
        MachineError: no GNU time.
    """
    gnu_time = find_gnu_time()
    cleared = clear_leftovers()
    with Ownership() as ownership:
        parent = find_parent(ownership)
        folder, identity = claimed_folder(ownership), caller_identity()
        room = partial(usable_ram_bytes, SystemFiles(), parent.ceiling_bytes)
        # Swap is off before the disk that it may lie on goes.
        with RamDisk(ownership, room) as ram_disk, SwapControl(ownership) as swap:
            storage = StorageControl(parent, swap, ram_disk, ownership)
            setup = TrialSetup(
                *(parent, gnu_time, storage, identity, interval_s, stat_interval_s, echo),
                statistics_always=statistics_always,
                starts_cold=starts_cold,
            )
            yield Session(setup, swap, folder, tuple(cleared))


def claimed_folder(ownership: Ownership) -> Path:
    """Return a new private folder, removed with all else that is owned.

    Under sudo the workload reaches the files in it that are the caller's, and can add none.

    Raises:
        MachineError: what is made can't be recorded.
    """
    place = Path(tempfile.gettempdir())
    if os.geteuid() == 0 and not is_own_place(place):
        # A folder of sudo's caller, who could put a link in the place of ours.
        place = Path("/tmp")  # noqa: S108 - a private folder is made in it
    folder = place / f"edgebench-{os.urandom(6).hex()}"
    ownership.claim("temp-folder", str(folder))
    make_private_folder(folder, reachable=caller_identity() is not None)
    return folder
