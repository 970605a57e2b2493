"""One cgroup as the rest of edgebench uses it, the same on cgroup versions 1 and 2.

``v1.py`` and ``v2.py`` implement :meth:`Cgroup.set_limits` and what else differs. A value that the
kernel doesn't offer is ``None``, never a guessed 0. Whether a file exists is checked in the file
system, never inferred from a version number.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from edgebench.cgroups.files import DiskLimit, check_applied, lift_disk_limits, set_disk_limits
from edgebench.errors import CgroupError
from edgebench.safe_files import walk

#: The limits that hold memory, of those below.
MEMORY_SIZES = ("memory_bytes", "memory_high_bytes")
#: How long killed processes may take to go; one in uninterruptible I/O takes its time.
_PATIENCE_S = 20.0
_PAUSE_S = 0.001
#: No counter of 64 bits is longer.
_NUMBER = re.compile(r"[0-9]{1,20}")
#: The key of a file that holds one number and nothing else.
ONLY = ""


@dataclass(frozen=True)
class Limits:
    """What a cgroup may use at most. ``None`` is unlimited.

    ``swap_bytes`` is swap alone, in addition to ``memory_bytes`` (v1's memsw is derived from it);
    ``cpu_quota`` is in cores, as 1.5. ``disks`` are those held to a speed. From
    ``memory_high_bytes`` on the kernel throttles and reclaims (version 2).
    """

    memory_bytes: int | None = None
    swap_bytes: int | None = None
    cores: tuple[int, ...] | None = None
    cpu_quota: float | None = None
    pids: int | None = None
    disks: tuple[DiskLimit, ...] = ()
    memory_high_bytes: int | None = None

    @property
    def lowest_bytes(self) -> int | None:
        """The limit of memory, or where it is throttled before."""
        sizes = (getattr(self, name) for name in MEMORY_SIZES)
        return min((size for size in sizes if size is not None), default=None)


@dataclass(frozen=True)
class HotFiles:
    """Files that the sampler and the worker keep open; ``None`` where the kernel has no such file.

    ``swap`` holds memory + swap together when ``swap_is_memsw`` (v1), else swap alone (v2).
    ``kernel`` holds the kernel's memory alone where ``stat`` has no line for it (v1).
    ``cpu_unit_ns`` is how many nanoseconds one unit in ``cpu`` is (v1: a bare number of ns;
    v2: ``usage_usec`` of ``cpu.stat``). ``peak_resets``: a write to ``peak`` resets it.
    ``flushing`` names the fields whose files make the kernel flush the statistics by which it
    reclaims: reading them can prevent a kill.
    ``sources`` tell which number of ``stat`` a counter is.
    """

    usage: Path
    peak: Path | None = None
    peak_resets: bool = False
    swap: Path | None = None
    swap_is_memsw: bool = False
    stat: Path | None = None
    kernel: Path | None = None
    cpu: Path | None = None
    cpu_unit_ns: int = 1
    pressure: Path | None = None
    io: Path | None = None
    flushing: tuple[str, ...] = ()
    sources: Sources = field(default_factory=dict, compare=False, repr=False)

    def without_flushing(self) -> HotFiles:
        """Leave out the files whose reading flushes."""
        nothing: dict[str, Any] = dict.fromkeys(self.flushing)
        return replace(self, **nothing, flushing=())


@dataclass(frozen=True)
class Counters:
    """One reading of a cgroup's accounting. Bytes, or nanoseconds, or counts."""

    usage_bytes: int | None = None
    peak_bytes: int | None = None
    swap_bytes: int | None = None
    swap_peak_bytes: int | None = None
    anon_bytes: int | None = None
    file_bytes: int | None = None
    mapped_file_bytes: int | None = None
    shmem_bytes: int | None = None
    kernel_bytes: int | None = None
    page_tables_bytes: int | None = None
    slab_bytes: int | None = None
    minor_faults: int | None = None
    major_faults: int | None = None
    swapped_in_bytes: int | None = None
    swapped_out_bytes: int | None = None
    refault_anon: int | None = None
    refault_file: int | None = None
    cpu_ns: int | None = None
    user_ns: int | None = None
    system_ns: int | None = None
    throttled_ns: int | None = None
    io_read_bytes: int | None = None
    io_write_bytes: int | None = None
    pressure_some_us: int | None = None
    pressure_full_us: int | None = None
    oom_kills: int | None = None
    limit_hits: int | None = None


@dataclass(frozen=True)
class CounterSource:
    """Where one counter is found.

    Args:
        controller: whose file it is.
        file: the file's name.
        key: which of its numbers; :data:`ONLY` for a file with one number.
        factor: what to multiply the kernel's number by.
        minus: a key whose number is subtracted first.
        per_device: a device is listed only once it was used, so a missing key means 0.
    """

    controller: str
    file: str
    key: str = ONLY
    factor: int = 1
    minus: str | None = None
    per_device: bool = False

    def find(self, folder: Path, files: dict[Path, dict[str, int] | None]) -> int | str:
        """Return the value, or why there is none.

        Args:
            folder: the cgroup's, of the controller.
            files: the numbers of each file that was read before; this one is added.
        """
        file = folder / self.file
        if file not in files:
            try:
                files[file] = parse_counters(file.read_text(errors="replace"))
            except OSError:
                files[file] = None
        numbers = files[file]
        if numbers is None:
            return f"this kernel has no readable {self.file}"
        for key in (self.key, self.minus):
            if key is not None and key not in numbers and not self.per_device:
                return f"this kernel's {self.file} has no {key or 'number'}"
        subtracted = numbers[self.minus] if self.minus is not None else 0
        return (numbers.get(self.key, 0) - subtracted) * self.factor


Sources = Mapping[str, CounterSource]


def parse_counters(text: str) -> dict[str, int]:
    """Read key → number from a file of the kernel.

    Such files have four shapes: one number, ``key number`` lines, ``device key=number`` lines and
    ``device key number`` lines. The last two are summed over devices; the keys of pressure are as
    ``some.total``.
    """
    numbers: dict[str, int] = {}
    for words in map(str.split, text.splitlines()):
        if len(words) == 1:
            pairs = [(ONLY, words[0])]
        elif any("=" in word for word in words[1:]):
            prefix = f"{words[0]}." if words[0] in ("some", "full") else ""
            split = (word.partition("=") for word in words[1:])
            pairs = [(f"{prefix}{key}", number) for key, _, number in split]
        else:
            pairs = [(words[-2], words[-1])] if words else []
        for key, number in pairs:
            if _NUMBER.fullmatch(number):
                numbers[key] = numbers.get(key, 0) + int(number)
    return numbers


def read_counters(
    folders: Mapping[str, Path], sources: Sources, unavailable: Mapping[str, str]
) -> tuple[Counters, dict[str, str]]:
    """Read all counters once; return them, and the reason for each that is None.

    Args:
        folders: controller → the cgroup's folder there.
        sources: key of :class:`Counters` → where it is found.
        unavailable: key of :class:`Counters` → why this cgroup version never has it.
    """
    files: dict[Path, dict[str, int] | None] = {}
    values: dict[str, int] = {}
    reasons = dict(unavailable)
    for name, source in sources.items():
        folder = folders.get(source.controller)
        if folder is None:
            reasons[name] = f"the {source.controller} controller is not available here"
            continue
        value = source.find(folder, files)
        if isinstance(value, int):
            values[name] = value
        else:
            reasons[name] = value
    return Counters(**values), reasons


def tree(folder: Path) -> list[Path]:
    """List the folder and all cgroups below it, the deepest first. Empty if it is gone."""
    return [path for path, _ in walk(folder)][::-1]


def kill_all(folders: Iterable[Path]) -> None:
    """Kill all processes in the cgroups and below, and wait until they are gone.

    Raises:
        CgroupError: a process doesn't end (it hangs in the kernel).
    """
    folders = list(folders)
    for folder in folders:
        for cgroup in tree(folder):
            lift_disk_limits(cgroup)
    # Forbid forks meanwhile: a fork bomb forks faster than it is killed.
    limits: dict[Path, str] = {}
    for file in (folder / "pids.max" for folder in folders):
        if not file.with_name("cgroup.kill").exists():
            with contextlib.suppress(OSError):
                limits[file] = file.read_text(errors="replace")
                file.write_text("0")
    try:
        for folder in folders:
            deadline = math.inf
            while pids := pids_in(folder):
                if time.monotonic() > deadline:
                    raise CgroupError(
                        f"process {pids[0]} was killed and does not end",
                        where=str(folder),
                        remedy=f"see what it waits for: cat /proc/{pids[0]}/stack; "
                        f"then rmdir {folder}",
                    )
                kill_file = folder / "cgroup.kill"
                if kill_file.exists():
                    kill_file.write_text("1")
                else:
                    # 0 would be our own process group.
                    for pid in filter(None, pids):
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(pid, signal.SIGKILL)
                # From the first kill on: to look through a thousand cgroups may take as long.
                deadline = min(deadline, time.monotonic() + _PATIENCE_S)
                time.sleep(_PAUSE_S)
    finally:
        for file, limit in limits.items():
            with contextlib.suppress(OSError):
                file.write_text(limit)


def pids_in(folder: Path) -> tuple[int, ...]:
    """List the processes in the cgroup and below; 0 stands for one of another pid namespace."""
    pids: set[int] = set()
    for cgroup in tree(folder):
        with contextlib.suppress(OSError):
            pids.update(int(line) for line in (cgroup / "cgroup.procs").read_bytes().split())
    return tuple(sorted(pids))


def remove_all(folders: Iterable[Path]) -> None:
    """Kill all processes in the cgroups, then remove them and those below. Safe to call twice.

    Raises:
        CgroupError: one can't be removed.
    """
    folders = list(folders)
    kill_all(folders)
    for cgroup in (cgroup for folder in folders for cgroup in tree(folder)):
        deadline = time.monotonic() + _PATIENCE_S
        while cgroup.exists():
            try:
                cgroup.rmdir()
            except FileNotFoundError:
                break
            except OSError as error:
                # EBUSY for an instant after the last process went.
                if time.monotonic() > deadline:
                    raise CgroupError(
                        f"can't remove a cgroup: {error.strerror}",
                        where=str(cgroup),
                        remedy=f"rmdir {cgroup}",
                    ) from error
                time.sleep(_PAUSE_S)


class Cgroup(ABC):
    """One cgroup made by edgebench, by :meth:`edgebench.cgroups.parent.ParentCgroup.create`.

    Args:
        folders: controller → the cgroup's folder; ``memory`` is always there.
        removed: called once the folders are gone.
    """

    version: int
    #: The limits of :class:`Limits` that this version has.
    settable: frozenset[str]
    #: Key of :class:`Counters` → where it is found, and why the others never are.
    sources: Sources
    unavailable: Mapping[str, str] = {}

    def __init__(self, folders: Mapping[str, Path], removed: Callable[[], None]) -> None:
        #: The folder whose memory files count.
        self.path = folders["memory"]
        self._folders = dict(folders)
        self._removed = removed

    def set_limits(self, limits: Limits) -> Limits:
        """Set the limits and read them back as the kernel rounded them.

        ``cores`` without a cpuset controller are enforced by the affinity that the join helper
        sets.

        Raises:
            CgroupError: the kernel refused one or ignored it; names the file and the value.
        """
        asked = {field.name for field in fields(limits) if getattr(limits, field.name) is not None}
        if lacking := sorted(asked - self.settable):
            raise unsupported(self.version, lacking[0])
        self._write_limits(limits)
        applied = replace(self.read_limits(limits), disks=self.hold_disks(limits.disks))
        for name, file in self.size_files.items():
            check_applied(getattr(limits, name), getattr(applied, name), file)
        return applied

    def move_memory_limit(
        self, memory_bytes: int | None, swap_bytes: int | None, *, waits: bool = True
    ) -> int | None:
        """Change the memory limit while processes live in it; return it as the kernel rounded it.

        The kernel reclaims at once. ``swap_bytes`` is the limit of swap that :meth:`set_limits` was
        given; it stays. ``waits``: whether version 1 tries for a second to reclaim enough.

        Raises:
            CgroupError: the kernel refused it, as what is in use can't be reclaimed down to it: on
                version 1, and on version 2 without ``waits`` (else that kills instead).
        """
        asked = Limits(memory_bytes, swap_bytes)
        self._write_memory(asked, waits=waits)
        applied = self.read_limits(asked).memory_bytes
        check_applied(memory_bytes, applied, self.size_files["memory_bytes"])
        return applied

    @property
    @abstractmethod
    def size_files(self) -> dict[str, Path]:
        """Each limit of memory, by its name in :class:`Limits`, and its file."""

    @abstractmethod
    def _write_limits(self, limits: Limits) -> None: ...

    @abstractmethod
    def _write_memory(self, limits: Limits, *, waits: bool) -> None: ...

    @abstractmethod
    def read_limits(self, asked: Limits) -> Limits:
        """Read the limits but those of disks, as the kernel has them now.

        ``cores`` are those of ``asked`` where no cpuset controller has them.

        Raises:
            CgroupError, OSError: the cgroup is gone.
        """

    @abstractmethod
    def hot_files(self) -> HotFiles:
        """Find the files to keep open for sampling."""

    def read(self) -> Counters:
        """Read all counters that the kernel has, now."""
        return read_counters(self._folders, self.sources, self.unavailable)[0]

    def missing(self) -> dict[str, str]:
        """Say why, by its key, for each counter that this kernel lacks."""
        return read_counters(self._folders, self.sources, self.unavailable)[1]

    def sum_of_tree(self, source: CounterSource) -> int | None:
        """Sum a counter that excludes child cgroups over them and this one; None if none has it."""
        values = [source.find(folder, {}) for folder in tree(self.path)]
        known = [value for value in values if isinstance(value, int)]
        return sum(known) if known else None

    def file(self, controller: str, name: str) -> Path | None:
        """Find a controller's file of this cgroup; None if the kernel has no such file."""
        folder = self._folders.get(controller)
        return folder / name if folder and (folder / name).exists() else None

    def join_files(self) -> tuple[Path, ...]:
        """List the ``cgroup.procs`` files into which a process writes its pid to join.

        Memory's is last: memory is charged from then on.
        """
        others = dict.fromkeys(f for f in self._folders.values() if f != self.path)
        return tuple(folder / "cgroup.procs" for folder in (*others, self.path))

    def pids(self) -> tuple[int, ...]:
        """List the processes in it now."""
        return pids_in(self.path)

    def hold_disks(self, limits: tuple[DiskLimit, ...]) -> tuple[DiskLimit, ...]:
        """Hold its disks to a speed until its processes are killed; return what the kernel has.

        Raises:
            CgroupError: the kernel can't, or refused or ignored a speed.
        """
        controller = "blkio" if self.version == 1 else "memory"
        return set_disk_limits(self.version, self._folders.get(controller), limits)

    def kill(self) -> None:
        """Kill all processes in it and wait until they are gone. Safe to call twice."""
        kill_all(self._folders.values())

    def remove(self) -> None:
        """Kill all processes in it, then remove the cgroup. Safe to call twice."""
        remove_all(self._folders.values())
        self._removed()


def unsupported(version: int, name: str) -> CgroupError:
    """Return the error for a limit that this version of cgroups does not have."""
    other = 3 - version
    return CgroupError(
        f"{name.removesuffix('_bytes')} needs cgroup version {other}: the memory controller is on "
        f"version {version} here, which has no such limit",
        remedy=f"leave it out, or boot with version {other}",
    )
