"""Readers of a trial's processes: what they map, use of files and of an accelerator, and leave."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgebench.cgroups.interface import Cgroup, parse_counters
from edgebench.cgroups.process_files import (
    MOST_FILES,
    bytes_read,
    cached_bytes,
    code_and_other_files,
    is_large_on_disk,
    is_read,
    mapped_bytes,
    mapped_files,
    own_memory_devices,
)
from edgebench.cgroups.sampler import SAME_BYTES
from edgebench.cgroups.sampler_process import MapsLook
from edgebench.measures.machine.accelerators import (
    SYSTEM_FIGURES,
    ProcessMemory,
    process_memory,
)
from edgebench.measures.machine.system_files import SystemFiles, UnreadableError
from edgebench.records import AcceleratorReport, OutsideReport, is_count, is_number
from edgebench.run.trial.readers import Finished, Reader
from edgebench.safe_files import open_to_read
from edgebench.text import printable

_PROC = Path("/proc")
#: The part of a trial's time in which its maps are read at most: the kernel stops changes of a
#: process's maps meanwhile. Measured: 1 ms for a small program, 11 ms for torch.
_LOOKING_SHARE = 0.02
#: Between two looks at what is mapped, until maps were read once and later.
_MAPS_BEGIN_INTERVAL_S, _MAPS_INTERVAL_S = 0.05, 0.2
NOT_LOOKED = "the trial ended before its maps were read"
NOT_SHOWN = "this kernel does not show us what the trial's processes map (smaps, memory.stat)"
#: Between two looks for files at least.
_FILES_INTERVAL_S = 0.005
#: The same shortly after the first process came, and the part of the time that looks may take
#: then: some programs end so soon.
_BEGIN_S, _BEGIN_INTERVAL_S, _BEGIN_SHARE = 0.25, 0.001, 0.5
_WITH_GNU_TIME = 2
#: How long a look at what is cached may take: a sparse file has any size.
LOOK_S = 1.5
#: So long a process may outlive the command: helpers end a moment after it.
_GRACE_S, _PAUSE_S = 0.1, 0.005


@dataclass(frozen=True)
class MapsReadings:
    """What maps showed.

    Args:
        looks: all of them.
        library_bytes: the most that libraries took at a look; None without a look.
        elsewhere_bytes: the most of its own files that was mapped and charged elsewhere: 0 where
            it ended before a look; None where it is not looked for, or not shown.
        missing: why there is no look, by the key in the record.
    """

    looks: Sequence[MapsLook] = ()
    library_bytes: int | None = None
    elsewhere_bytes: int | None = None
    missing: Mapping[str, str] = field(default_factory=dict)


class MapsReader(Reader[MapsReadings]):
    """Reads maps whenever processes map more than before: steady rounds are left alone.

    Args:
        cgroup: the trial's.
        is_limited: whether its memory is; then only libraries are looked at, as ``memory.stat`` is
            not read.
    """

    keys = ("library_bytes",)

    def __init__(self, cgroup: Cgroup, *, is_limited: bool = False) -> None:
        self._cgroup, self._is_limited = cgroup, is_limited
        self._looks: list[MapsLook] = []
        self._library_bytes: int | None = None
        self._missing: str | None = NOT_LOOKED
        self._most_bytes = -1

    def poll(self) -> float:
        """Read the maps if something new is mapped."""
        began_s = time.monotonic()
        pids = self._cgroup.pids()
        mapped = mapped_bytes(pids)
        if mapped > self._most_bytes + 2 * SAME_BYTES or self._library_bytes is None:
            self._most_bytes = mapped
            if pids:
                self._look(pids)
        is_known = self._library_bytes is not None
        least_s = _MAPS_INTERVAL_S if is_known else _MAPS_BEGIN_INTERVAL_S
        return max(least_s, (time.monotonic() - began_s) / _LOOKING_SHARE)

    def _look(self, pids: Sequence[int]) -> None:
        # Between two readings the maps are read: of what grows or shrinks the lesser one counts.
        before = None if self._is_limited else self._charged()
        files = mapped_files(pids)
        after = None if self._is_limited else self._charged()
        if files is None or (not self._is_limited and (before is None or after is None)):
            if self._library_bytes is None:
                self._missing = NOT_SHOWN
            return
        self._missing = None
        self._library_bytes = max(self._library_bytes or 0, files.library_bytes)
        if before is None or after is None:
            return
        mapped, shared = min(before[0], after[0]), min(before[1], after[1])
        charged = max(before[0], after[0])
        # What ended meanwhile may have mapped more than either reading shows.
        beyond = files.own_bytes - (charged - files.shared_bytes) if after[0] >= before[0] else 0
        self._looks.append(
            MapsLook(
                t_ns=time.monotonic_ns(),
                unmapped_shared_bytes=max(0, shared - files.shared_bytes),
                # Which of the charged pages are its own is not shown: all that can be.
                charged_library_bytes=max(0, mapped - files.shared_bytes - files.own_bytes),
                elsewhere_bytes=max(0, beyond),
            )
        )

    def _charged(self) -> tuple[int, int] | None:
        """Read how many bytes of mapped files and of shared memory the cgroup is charged for."""
        stat = self._cgroup.file("memory", "memory.stat")
        if stat is None:
            return None
        values, sources = parse_counters(stat.read_text(errors="replace")), self._cgroup.sources
        mapped = values.get(sources["mapped_file_bytes"].key)
        shared = values.get(sources["shmem_bytes"].key)
        return None if mapped is None or shared is None else (mapped, shared)

    def stop(self, finished: Finished) -> MapsReadings:
        """Return all looks."""
        elsewhere = max((look.elsewhere_bytes for look in self._looks), default=None)
        if not self._is_limited and self._missing == NOT_LOOKED:
            elsewhere = 0
        missing = {"library_bytes": self._missing} if self._missing else {}
        return MapsReadings(self._looks, self._library_bytes, elsewhere, missing)


@dataclass(frozen=True)
class FilesReadings:
    """The large files of a disk that a program used, none of them code.

    Args:
        cached: file → bytes of it in the page cache at the end; None: the kernel does not tell us.
        mapped: those that were mapped.
        read_bytes: file → what processes read by calls while they had it open.
        processes: the most that were seen at once.
        took_s: how long it took to look at what is cached.
    """

    cached: Mapping[Path, int | None]
    mapped: frozenset[Path]
    read_bytes: Mapping[Path, float]
    processes: int = 0
    took_s: float = 0.0


class _Process:
    """A process, the files that it had open, and what it had read at the look that saw the first.

    By thread, since a process's own count has those of children for which it waited.
    """

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.first: int | None = None
        self.threads: dict[str, int] = {}

    @property
    def last(self) -> int:
        """What it had read at the last look."""
        return sum(self.threads.values())


class FilesReader(Reader[FilesReadings]):
    """Sees the files of a trial's processes.

    A file is often open for a short time only. What is opened and closed between two looks is not
    seen.
    """

    keys = ("files",)

    def __init__(self, cgroup: Cgroup) -> None:
        self._cgroup = cgroup
        self._mapped: set[str] = set()
        self._read: set[str] = set()
        self._code: set[str] = set()
        self._processes: dict[int, _Process] = {}
        self._begins_until_s = math.inf
        #: What the command and all for which it has waited read.
        self._all_read = 0
        self._most_processes = 0

    def poll(self) -> float:
        """Look at every process."""
        began_s = time.monotonic()
        pids = self._cgroup.pids()
        self._most_processes = max(self._most_processes, len(pids))
        for pid in pids:
            # It has ended, or is another user's.
            with contextlib.suppress(OSError):
                code, others = code_and_other_files(pid)
                self._code |= code
                self._mapped |= others
            with contextlib.suppress(OSError):
                self._see_opened(pid)
        if pids:
            self._begins_until_s = min(self._begins_until_s, began_s + _BEGIN_S)
        least_s, share = _FILES_INTERVAL_S, _LOOKING_SHARE
        if began_s < self._begins_until_s:
            least_s, share = _BEGIN_INTERVAL_S, _BEGIN_SHARE
        return max(least_s, (time.monotonic() - began_s) / share)

    def _see_opened(self, pid: int) -> None:
        opened = set()
        for entry in os.scandir(_PROC / str(pid) / "fd"):
            with contextlib.suppress(OSError):
                name = os.readlink(entry.path)  # noqa: PTH115 - of very many
                if name.startswith("/") and name not in self._read and is_read(pid, entry):
                    self._read.add(name)
                if name in self._read:
                    opened.add(name)
        process = self._processes.setdefault(pid, _Process())
        for thread in (_PROC / str(pid) / "task").iterdir():
            with contextlib.suppress(OSError):  # it has ended
                process.threads[thread.name] = bytes_read(thread)
        process.names |= opened
        if opened and process.first is None:
            process.first = process.last

    def end(self, command: int) -> None:
        """See what the command read: once it has ended, the reading of its children counts too."""
        with contextlib.suppress(OSError):
            self._all_read = bytes_read(_PROC / str(command))

    def stop(self, finished: Finished) -> FilesReadings:
        """Find the files, and what of each lies in the page cache."""
        in_memory = own_memory_devices()
        cached: dict[Path, int | None] = {}
        until_s = time.monotonic() + LOOK_S
        found = 0
        for name in sorted((self._mapped | self._read) - self._code):
            # It may be gone, or in another file system's tree than ours.
            with contextlib.suppress(OSError):
                if found < MOST_FILES and is_large_on_disk(name, in_memory):
                    found += 1
                    with open_to_read(Path(name)) as file:
                        cached[Path(name)] = cached_bytes(file.fileno(), until_s)
        mapped = frozenset(path for path in cached if str(path) in self._mapped)
        sizes = {path: size for path, size in cached.items() if size is not None}
        read = self._read_bytes({p: size for p, size in sizes.items() if p not in mapped})
        took_s = LOOK_S + time.monotonic() - until_s
        return FilesReadings(cached, mapped, read, self._most_processes, took_s)

    def _read_bytes(self, sizes: Mapping[Path, int]) -> dict[Path, float]:
        """Sum by file what processes read by calls while they were seen to have these files open.

        What a process read is shared among its files by their sizes. What was read after the last
        look is of the process that read most, where there was one beside GNU time.
        """
        read = dict.fromkeys(sizes, 0.0)
        processes = [one for one in self._processes.values() if one.first is not None]
        unseen = self._all_read - sum(one.last for one in self._processes.values())
        if processes and unseen > 0 and len(self._processes) <= _WITH_GNU_TIME:
            max(processes, key=lambda process: process.last).threads["unseen"] = unseen
        for process in processes:
            opened = [path for path in sizes if str(path) in process.names]
            for path in opened:
                share = sizes[path] / max(1, sum(sizes[other] for other in opened))
                read[path] += share * (process.last - (process.first or 0))
        return read


class OutsideReader(Reader[OutsideReport]):
    """Looks at what a program leaves behind.

    Args:
        cgroup: the trial's.
        waits: whether processes that outlive the command are waited for: they are part of the
            trial, so nothing is left.
    """

    keys = ("outside",)

    def __init__(self, cgroup: Cgroup, *, waits: bool) -> None:
        self._cgroup, self._waits = cgroup, waits
        self._left: list[str] = []

    def end(self, command: int) -> None:
        """Find what outlived the command; nothing where that is still running itself."""
        if self._waits or _is_running(command):
            return
        deadline = time.monotonic() + _GRACE_S
        while (alive := running(self._cgroup)) and time.monotonic() < deadline:
            time.sleep(_PAUSE_S)
        for pid in alive:
            name = b"unknown"
            with contextlib.suppress(OSError):
                name = (_PROC / str(pid) / "comm").read_bytes()
            self._left.append(printable(name.decode(errors="replace").strip()))

    def stop(self, finished: Finished) -> OutsideReport:
        """Return what still ran, and the shared memory that stays."""
        names = sorted(set(self._left))
        return OutsideReport(len(self._left), names, finished.counters.shmem_bytes)


def running(cgroup: Cgroup) -> list[int]:
    """List the cgroup's processes that still run."""
    return [pid for pid in cgroup.pids() if _is_running(pid)]


def _is_running(pid: int) -> bool:
    """Whether it exists, and is neither dead nor about to be: it still has memory."""
    try:
        return (_PROC / str(pid) / "statm").read_text(errors="replace").split()[0] != "0"
    except (OSError, IndexError):
        return False


_INTERVAL_S = 0.1
_NOT_LISTED = (
    "{source} lists none of the trial's processes: in a container it may number them otherwise"
)
#: What a worker says of its accelerator, as a report names it.
_NUMBERS = frozenset(
    (
        *("total_bytes", "limit_bytes", "allocated_bytes", "reserved_bytes", "retries", "ooms"),
        *("peak_allocated_bytes", "peak_reserved_bytes", "to_bytes", "to_s"),
        *("from_bytes", "from_s"),
    )
)
_NOT_STARTED = "the trial ended before the accelerator was started"
_NO_PHASE = "the trial ended before its first phase on the accelerator did"


@dataclass
class AcceleratorReadings:
    """What was read; ``missing`` → why. ``system`` has figures as a record does."""

    process_peak_bytes: int | None = None
    process_readings: int = 0
    system: dict[str, dict[str, Any]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)


class AcceleratorReader(Reader[AcceleratorReadings]):
    """Reads what a trial's processes hold on an accelerator, and the machine's own figures.

    Args:
        processes: tells the trial's processes.
        machine: whose files.
        open_memory: what opens what tells each process's memory.
    """

    keys = ("accelerator.process_peak_bytes",)

    def __init__(
        self,
        processes: Callable[[], Sequence[int]],
        machine: SystemFiles | None = None,
        open_memory: Callable[[SystemFiles], ProcessMemory] = process_memory,
    ) -> None:
        self._readings = AcceleratorReadings()
        self._processes, self._machine = processes, machine or SystemFiles()
        self._open_memory = open_memory
        self._memory: ProcessMemory | None = None

    def start(self) -> None:
        """Read the machine's figures before the workload is there, and open the driver."""
        self._read_system()
        try:
            self._memory = self._open_memory(self._machine)
        except UnreadableError as error:
            self._readings.missing["process_peak_bytes"] = str(error)

    def poll(self) -> float:
        """Read the processes' memory and the machine's."""
        readings = self._readings
        try:
            if self._memory:
                sizes, processes = self._memory.read(), set(self._processes())
                readings.process_readings += 1
                if held := [size for pid, size in sizes.items() if pid in processes]:
                    peak = readings.process_peak_bytes or 0
                    readings.process_peak_bytes = max(peak, sum(held))
        except UnreadableError as error:
            # A driver that failed is not asked again.
            readings.missing["process_peak_bytes"] = str(error)
            self.close()
        self._read_system()
        return _INTERVAL_S

    def stop(self, finished: Finished) -> AcceleratorReadings:
        """Return what was read."""
        if self._memory and self._readings.process_peak_bytes is None:
            why = _NOT_LISTED.format(source=self._memory.source)
            self._readings.missing["process_peak_bytes"] = why
        return self._readings

    def close(self) -> None:
        """Close the driver."""
        memory, self._memory = self._memory, None
        if memory:
            memory.close()

    def _read_system(self) -> None:
        readings = self._readings
        for name, figure in SYSTEM_FIGURES.items():
            if name in readings.missing:
                continue
            try:
                size = figure.read(self._machine)
            except (UnreadableError, ValueError) as error:
                readings.missing[name] = str(error)
                continue
            kept = readings.system.setdefault(
                name, {"before_bytes": size, "peak_bytes": size, "source": figure.source}
            )
            kept["peak_bytes"] = max(kept["peak_bytes"], size)


def accelerator_report(
    name: str, events: Iterable[Mapping[str, Any]], readings: AcceleratorReadings
) -> AcceleratorReport:
    """Return what a worker and the driver say of the accelerator of that name.

    A worker's words may be anything: other keys and types are left out.
    """
    title: str | None = None
    numbers: dict[str, Any] = {}
    phases: list[dict[str, Any]] = []
    for event in events:
        if event.get("event") != "accelerator":
            continue
        for part in (event.get("identity"), event.get("total")):
            if not isinstance(part, Mapping):
                continue
            if isinstance(part.get("title"), str):
                title = part["title"]
            for key in _NUMBERS & part.keys():
                if (is_number if key.endswith("_s") else is_count)(part[key]):
                    numbers[key] = part[key]
        listed = event.get("phases")
        if isinstance(listed, list):
            phases += [phase for phase in listed if isinstance(phase, dict)]
    missing = readings.missing
    if "peak_allocated_bytes" not in numbers or title is None:
        why = _NOT_STARTED if title is None else _NO_PHASE
        missing = {**missing, "peak_allocated_bytes": why}
    return AcceleratorReport(
        name=name,
        title=title,
        phases=phases,
        process_peak_bytes=readings.process_peak_bytes,
        process_readings=readings.process_readings,
        system=readings.system,
        missing=missing,
        **numbers,
    )
