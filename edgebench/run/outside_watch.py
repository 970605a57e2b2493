"""Sees what of a program's memory its trial does not measure: a thread, and looks at its end.

Three things escape a trial: processes that outlive the command, files that stay in memory, and work
that another cgroup does for a client that waits. Each is seen by what happens, not by a name.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from edgebench.cgroups.counters import Counters, parse_counters
from edgebench.cgroups.hierarchy import hierarchies
from edgebench.cgroups.interface import Cgroup
from edgebench.cgroups.shared_segments import read_segments, remove_left
from edgebench.records import LeftFile, OutsideReport, TrialRecord
from edgebench.text import printable
from edgebench.units import MIB

_INTERVAL_S = 0.1
#: So long a process may outlive the command: helpers end a moment after it.
_GRACE_S, _PAUSE_S = 0.1, 0.005
#: Less than this is no finding.
_LEAST_BYTES = MIB
#: No more entries of file systems, files in a record, and cgroups beside the trial's are looked at.
_MOST_ENTRIES, _MOST_FILES, _MOST_GROUPS = 20_000, 5, 200
_PROC = Path("/proc")
#: How other cgroups of edgebench are called.
_OWN = "edgebench-"
#: How the name of a shared segment begins, before its number.
SEGMENT = "segment "
_PAGE = os.sysconf("SC_PAGESIZE")
#: The kernel counts a cgroup's pages in batches of 64 on each processor.
_BATCH_BYTES = 64 * _PAGE * (os.cpu_count() or 1)
#: A space or the like in a path of ``mountinfo``: ``\\040``.
_OCTAL = re.compile(r"\\([0-7]{3})")


class OutsideWatch:
    """Watches within a ``with`` block; then :meth:`told` completes the trial's record.

    Args:
        cgroup: the trial's.
        wanted: whether to watch at all.
        is_limited: whether its memory is; then nothing is read that flushes its statistics.
        own: a folder of the harness's, whose files don't count.
    """

    def __init__(self, cgroup: Cgroup, own: Path, *, wanted: bool, is_limited: bool) -> None:
        self._cgroup, self._own, self._wanted = cgroup, own, wanted
        self._is_limited = is_limited
        self._others = OtherGroups(cgroup.path)
        self._before: Mapping[str, int] = {}
        #: The command's process, once it was seen.
        self.command: int | None = None
        self._left: list[str] = []
        self._segments: set[int] = set()
        #: The trial's processes, as far as they were seen.
        self._pids: set[int] = set()
        self._locked_bytes: int | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="outside", daemon=True)

    def __enter__(self) -> OutsideWatch:
        """Begin."""
        if self._wanted:
            self._before = held_in_memory(self._own)
            self._segments = set(read_segments())
            if not self._is_limited:
                self._others.begin()
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        self._ended.set()
        if self._wanted and self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(_INTERVAL_S):
            self._pids |= set(self._cgroup.pids())
            self._others.look()
            self._look_locked()

    def _look_locked(self) -> None:
        """Pages that can't be moved: by each process, and by the kernel where that is harmless."""
        sizes = [_status_bytes(pid, "VmLck:") for pid in self._cgroup.pids()]
        stat = None if self._is_limited else self._cgroup.file("memory", "memory.stat")
        if stat is not None:
            with contextlib.suppress(OSError):
                values = parse_counters(stat.read_text())
                sizes.append(values.get("total_unevictable", values.get("unevictable", 0)))
        self._locked_bytes = max(self._locked_bytes or 0, *sizes, 0)

    def running(self) -> list[str]:
        """The names of the trial's processes that still run."""
        return [_comm(pid) for pid in self._cgroup.pids() if _is_running(pid)]

    def look_at_end(self) -> None:
        """Before all is ended: what outlived the command? Nothing, where it runs itself."""
        if not self._wanted or self.command is None or _is_running(self.command):
            return
        deadline = time.monotonic() + _GRACE_S
        while (alive := self.running()) and time.monotonic() < deadline:
            time.sleep(_PAUSE_S)
        self._left = alive

    def told(self, record: TrialRecord, counters: Counters) -> TrialRecord:
        """The record with what was seen; shared segments that nobody can find are removed.

        Args:
            record: of the trial.
            counters: of its cgroup when its processes were gone.
        """
        if not self._wanted:
            return record
        shared_bytes, files = counters.shmem_bytes, list[LeftFile]()
        if shared_bytes is not None and shared_bytes >= _LEAST_BYTES:
            # Its shared memory may lie in its swap, too.
            own_bytes = shared_bytes + (counters.swap_bytes or 0)
            files = grown_files(self._before, held_in_memory(self._own), own_bytes)
        gone = {f"{SEGMENT}{one}" for one in remove_left(self._segments, self._pids)}
        files = [LeftFile(one.path, one.size_bytes, one.path in gone) for one in files]
        report = OutsideReport(
            processes=len(self._left),
            names=sorted(set(self._left)),
            left_bytes=shared_bytes,
            files=files,
            grown_bytes=self._others.grown_bytes,
            grown_cgroup=self._others.name,
            grown_is_new=self._others.is_new,
            locked_bytes=self._locked_bytes,
        )
        return replace(record, outside=report)


@dataclass
class OtherGroups:
    """The cgroups beside a trial's, and beside those above it, as far as they are shown here.

    What counts is their anonymous memory and what they map. Each of them has what is below it, so
    these few are all. Other trials of edgebench, and the harness itself, don't count.
    """

    trial: Path
    grown_bytes: int | None = None
    name: str | None = None
    is_new: bool = False
    _at_first: dict[Path, int] = field(default_factory=dict)

    def begin(self) -> None:
        """What they hold before the trial."""
        if _held(self.trial) is not None:
            self._at_first = {folder: _held(folder) or 0 for folder in self._listed()}
            self.grown_bytes = 0

    def look(self) -> None:
        """One reading."""
        if self.grown_bytes is None:
            return
        for folder in self._listed():
            grown = (_held(folder) or 0) - self._at_first.get(folder, 0)
            if grown >= max(self.grown_bytes, _LEAST_BYTES) and not _has_trials(folder):
                self.grown_bytes, self.is_new = grown, folder not in self._at_first
                top = self._above()[-1]
                self.name = printable(f"/{folder.relative_to(top)}")

    def _above(self) -> list[Path]:
        """The cgroups above the trial's, as far as they are shown, the nearest first."""
        return [one for one in self.trial.parents if (one / "cgroup.procs").exists()]

    def _listed(self) -> Iterator[Path]:
        own = {one.folder for one in hierarchies()}
        for above in self._above():
            with contextlib.suppress(OSError), os.scandir(above) as entries:
                for entry in itertools.islice(entries, _MOST_GROUPS):
                    path = Path(entry.path)
                    is_other = entry.is_dir() and not entry.name.startswith(_OWN)
                    if is_other and path not in own and not self.trial.is_relative_to(path):
                        yield path


def _held(folder: Path) -> int | None:
    """Bytes that a cgroup's processes hold; None where the kernel doesn't tell."""
    with contextlib.suppress(OSError):
        values = parse_counters((folder / "memory.stat").read_text())
        for names in (("total_rss", "total_mapped_file"), ("anon", "file_mapped")):
            if names[0] in values:
                return sum(values.get(name, 0) for name in names)
    return None


def _has_trials(folder: Path) -> bool:
    """Whether another edgebench measures below it now."""
    with contextlib.suppress(OSError):
        return any(name.name.startswith(_OWN) for name in folder.iterdir())
    return False


def held_in_memory(own: Path, proc: Path = _PROC) -> dict[str, int]:
    """What lies in memory though no process needs to hold it: name → bytes.

    Files of every tmpfs, but for those below ``own``, and shared segments of System V.
    """
    found: dict[str, int] = {}
    for folder in _tmpfs_folders((proc / "self" / "mountinfo").read_text()):
        entries = _files(folder, own, folder.stat().st_dev) if folder.is_dir() else iter(())
        for entry in itertools.islice(entries, _MOST_ENTRIES):
            with contextlib.suppress(OSError):
                found[entry.path] = entry.stat(follow_symlinks=False).st_blocks * 512
    segments = read_segments(proc).items()
    return found | {f"{SEGMENT}{number}": one.size_bytes for number, one in segments}


def grown_files(
    before: Mapping[str, int], after: Mapping[str, int], own_bytes: int
) -> list[LeftFile]:
    """What holds more than before, the largest first: at most so many.

    Args:
        before: what each held before the trial, in bytes.
        after: what it holds now.
        own_bytes: what stayed charged to the trial. What grew by more is of another program.
    """
    most_bytes = own_bytes + _BATCH_BYTES
    sizes = {name: size - before.get(name, 0) for name, size in after.items()}
    grown = {name: size for name, size in sizes.items() if size <= most_bytes}
    most = sorted(grown, key=lambda name: -grown[name])[:_MOST_FILES]
    return [LeftFile(printable(name), grown[name]) for name in most if grown[name] >= _PAGE]


def _tmpfs_folders(mountinfo: str) -> list[Path]:
    folders = {}
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        words = before.split(" ")
        if after.startswith("tmpfs ") and len(words) > 4 and "ro" not in words[5].split(","):
            folders[words[2]] = Path(_OCTAL.sub(lambda match: chr(int(match[1], 8)), words[4]))
    return list(folders.values())


def _files(folder: Path, own: Path, device: int) -> Iterator[os.DirEntry[str]]:
    """All regular files below a folder on its own file system."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                yield entry
            elif entry.is_dir(follow_symlinks=False) and Path(entry.path) != own:
                with contextlib.suppress(OSError):
                    if entry.stat(follow_symlinks=False).st_dev == device:
                        yield from _files(Path(entry.path), own, device)


def _comm(pid: int) -> str:
    try:
        return printable((_PROC / str(pid) / "comm").read_text().strip())
    except OSError:
        return "unknown"


def _is_running(pid: int) -> bool:
    """Whether it exists, and is neither dead nor about to be: it still has memory."""
    try:
        return (_PROC / str(pid) / "statm").read_text().split()[0] != "0"
    except (OSError, IndexError):
        return False


def _status_bytes(pid: int, key: str) -> int:
    with contextlib.suppress(OSError):
        lines = (_PROC / str(pid) / "status").read_text().splitlines()
        sizes = (int(line.split()[1]) << 10 for line in lines if line.startswith(key))
        return next(sizes, 0)
    return 0
