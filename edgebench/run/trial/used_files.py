"""The files of a session's programs: found by themselves, and evicted before each trial.

A page of a file is charged to the cgroup that touched it first. What lies in the page cache before
a trial is charged to another one, so that no limit counts it and it is read without a disk. So the
files that a command names, and those that its trials were seen to map or read, are evicted: regular
files of a disk, of 1 MiB or more, that the caller may read and of which no process of the trial
maps a part as code. The kernel drops clean pages that nobody maps, and nothing else: no data is
lost, and what another program has mapped stays.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgebench.cgroups.interface import Cgroup
from edgebench.cgroups.process_files import (
    MOST_FILES,
    bytes_read,
    cached_bytes,
    code_and_other_files,
    is_large_on_disk,
    is_read,
    named_files,
    own_memory_devices,
)
from edgebench.cgroups.sampler_process import SampleSummary
from edgebench.errors import WorkloadError
from edgebench.layers.disk import drop_pages
from edgebench.records import FilesReport, TrialRecord
from edgebench.run.trial.process_readers import LOOKING_SHARE, MapsReadings
from edgebench.run.trial.readers import Finished, Reader
from edgebench.safe_files import open_to_read, walk
from edgebench.text import MIB

#: What can be run of which edgebench knows nothing: these bring files of their own.
PROGRAMS = ("command", "function")
_PROC = Path("/proc")
#: Between two looks for files at least.
_FILES_INTERVAL_S = 0.005
#: The same shortly after the first process came, and the part of the time that looks may take
#: then: some programs end so soon.
_BEGIN_S, _BEGIN_INTERVAL_S, _BEGIN_SHARE = 0.25, 0.001, 0.5
_WITH_GNU_TIME = 2
#: How long a look at what is cached may take: a sparse file has any size.
LOOK_S = 1.5
#: A trial that found less than this of its files in the page cache is as good as any.
_WARM_SHARE, _WARM_BYTES = 0.05, MIB
#: A file of which more than so many times its size was read is read again and again.
_READ_AGAIN = 1.5


def files_at(path: Path) -> list[Path]:
    """Return the file, or every regular file below the folder, sorted.

    What goes meanwhile is left out.
    """
    if path.is_file():
        return [path]
    # Path.glob raises an error where a folder goes.
    found = (top / name for top, names in walk(path) for name in names)
    return sorted(file for file in found if file.is_file())


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
            found = files_at(path)
            if not found:
                raise WorkloadError(
                    f"there is no file {path} to evict from the page cache",
                    remedy="name a file, or a folder with files: --file model.gguf",
                )
            self.add(one.absolute() for one in found)

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
            with contextlib.suppress(OSError), open_to_read(path) as file:
                drop_pages(file.fileno())
                if cached_bytes(file.fileno(), until_s):
                    os.fdatasync(file.fileno())
                    drop_pages(file.fileno())
                kept += cached_bytes(file.fileno(), until_s) or 0
        self.kept_bytes = kept
        return kept


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
        least_s, share = _FILES_INTERVAL_S, LOOKING_SHARE
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


def files_report(
    readings: FilesReadings | None,
    maps: MapsReadings,
    finished: Finished,
    samples: SampleSummary,
    kept_bytes: int,
) -> tuple[FilesReport | None, dict[str, str]]:
    """Find what of a program's files was charged elsewhere, or not sampled; and what is missing.

    Args:
        readings: its files; None: they were not looked for.
        maps: what its maps showed.
        finished: what it ended with: GNU time's largest resident set shows what came after the
            last look and sample.
        samples: what they came to.
        kept_bytes: what the kernel kept of its files when they were evicted.
    """
    if not readings or not readings.cached:
        return None, {}
    paths = sorted(readings.cached, key=lambda path: -(readings.cached[path] or 0))
    report = FilesReport([str(path) for path in paths], kept_bytes)
    if readings.took_s > LOOK_S:
        why = f"a look at what is cached of its files took more than {LOOK_S:g} s"
        return report, {"files.warm_bytes": why}
    counters, gnu_time = finished.counters, finished.gnu_time
    known = {path: size for path, size in readings.cached.items() if size is not None}
    if counters.file_bytes is None or not known:
        return report, {}
    charged = counters.file_bytes - (counters.shmem_bytes or 0)
    warm = max(0, sum(known.values()) - charged)
    mapped = sum(size for path, size in known.items() if path in readings.mapped)
    elsewhere, peak = maps.elsewhere_bytes, counters.peak_bytes
    held = gnu_time.maxrss_bytes - (maps.library_bytes or 0) if gnu_time else 0
    if elsewhere is not None and held and peak:
        # No process can hold more than the peak but for what others are charged for.
        elsewhere = max(elsewhere, min(held - peak, max(0, mapped - charged)))
    late, demand = 0, samples.demand_bytes
    if demand is not None and samples.undroppable_bytes is not None and peak:
        # The rest of what one process held, as far as its files were there and charged.
        beside = elsewhere or 0
        most = min(held, samples.undroppable_bytes + mapped, peak + beside)
        late = max(0, most - demand - beside)
    reread = sum(
        known[path]
        for path, read in readings.read_bytes.items()
        if read > _READ_AGAIN * known[path]
    )
    if demand is not None and peak:
        # Not all of it may have been there at once with the rest.
        reread = min(reread, max(0, peak + (elsewhere or 0) + warm - demand - late))
    return FilesReport(report.paths, kept_bytes, warm, elsewhere, late, reread), {}


def is_warm(record: TrialRecord, kept_bytes: int) -> bool:
    """Whether a trial without a limit found so much cached that one after an eviction differs.

    ``kept_bytes`` is what stays cached of its files all the same.
    """
    warm, demand = record.files.warm_bytes if record.files else None, record.demand_bytes
    if warm is None or demand is None:
        return False
    return warm - kept_bytes > max(_WARM_BYTES, _WARM_SHARE * demand)
