"""Which readers look at a trial, and those of what it shares: files, swap areas, the machine."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
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
    own_memory_devices,
)
from edgebench.cgroups.sampler_process import SampleSummary
from edgebench.measures.machine.noise import NoiseWatch
from edgebench.records import Doubt, FilesReport, OutsideReport, TrialRecord
from edgebench.run.trial.controllers import group_swap
from edgebench.run.trial.outcome import KillReader, KillReadings
from edgebench.run.trial.readers import (
    LOOKING_SHARE,
    AcceleratorReader,
    AcceleratorReadings,
    Finished,
    MapsReader,
    MapsReadings,
    OutsideReader,
    Reader,
    ReaderLoop,
)
from edgebench.run.trial.record import TrialRequest
from edgebench.run.trial.session import LOOK_S, TrialSetup
from edgebench.safe_files import open_to_read
from edgebench.swap_areas import SwapArea, read_swap_areas
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
#: A trial that found less than this of its files in the page cache is as good as any.
_WARM_SHARE, _WARM_BYTES = 0.05, MIB
#: A file of which more than so many times its size was read is read again and again.
_READ_AGAIN = 1.5


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
        listed = 0
        for name in sorted((self._mapped | self._read) - self._code):
            # It may be gone, or in another file system's tree than ours.
            with contextlib.suppress(OSError):
                if listed < MOST_FILES and is_large_on_disk(name, in_memory):
                    listed += 1
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
        processes = [process for process in self._processes.values() if process.first is not None]
        unseen = self._all_read - sum(process.last for process in self._processes.values())
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


_NOISE_INTERVAL_S, _SWAP_INTERVAL_S = 1.0, 0.1
#: What is in no area's count for a moment: slots that each CPU keeps, pages on their way.
_UNCERTAIN_BYTES = 1 << 20
OTHER_SWAP = "other_swap_bytes"


class NoiseReader(Reader[dict[str, Any]]):
    """Reads what disturbs the machine; fills a record's ``noise``."""

    keys = ("noise",)

    def __init__(self) -> None:
        self._watch = NoiseWatch()

    def start(self) -> None:
        """Note how the machine stands."""
        self._watch.start()

    def poll(self) -> float:
        """Look for what shows only while it lasts."""
        self._watch.look()
        return _NOISE_INTERVAL_S

    def stop(self, finished: Finished) -> dict[str, Any]:
        """Return what went on besides the trial."""
        cpu_ns = finished.counters.cpu_ns
        return self._watch.stop(None if cpu_ns is None else cpu_ns / 1e9)


@dataclass(frozen=True)
class SwapReadings:
    """By how much other swap areas grew (None: not known), doubts of that, and what is missing."""

    other_bytes: int | None = None
    doubts: list[Doubt] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)


class SwapReader(Reader[SwapReadings]):
    """Reads whether a trial's swap goes to another area than its own.

    The kernel fills areas in the order of their priorities, whoever swaps. So a trial can get its
    swap from another area, whose size and speed are not those that were asked for.

    Args:
        own: the trial's own area.
        read_areas: reads the machine's swap areas; None where they can't be read.
        read_group: reads how much swap the trial's cgroup has in use; None: not known.
    """

    keys = (OTHER_SWAP,)

    def __init__(
        self,
        own: Path,
        read_areas: Callable[[], Mapping[Path, SwapArea] | None],
        read_group: Callable[[], int | None],
    ) -> None:
        self._own, self._read_areas, self._read_group = own, read_areas, read_group
        self._before: Mapping[Path, SwapArea] | None = None
        self._grown_bytes = self._elsewhere_bytes = 0
        self._where: list[str] = []

    def start(self) -> None:
        """Note what lies in the areas."""
        self._before = self._read_areas()

    def poll(self) -> float:
        """Read the areas, and the trial's swap before and after them."""
        group, areas, after = self._read_group(), self._read_areas(), self._read_group()
        if areas is None or self._before is None:
            return _SWAP_INTERVAL_S
        others = {name: area.used_bytes for name, area in areas.items() if name != self._own}
        growth = {name: used - _used(self._before, name) for name, used in others.items()}
        grown = {name: more for name, more in growth.items() if more > 0}
        total = sum(grown.values())
        self._grown_bytes = max(self._grown_bytes, total)
        if group is not None and after is not None:
            # The lesser of the two: it may swap, or give swap back, between the readings.
            elsewhere = min(total, min(group, after) - _used(areas, self._own))
            if elsewhere > self._elsewhere_bytes:
                self._elsewhere_bytes = elsewhere
                self._where = sorted(map(str, grown))
        return _SWAP_INTERVAL_S

    def stop(self, finished: Finished) -> SwapReadings:
        """Return the growth, and a doubt if the trial's own area was passed over."""
        if self._before is None:
            return SwapReadings(missing={OTHER_SWAP: "/proc/swaps can't be read"})
        doubts = []
        if self._elsewhere_bytes > _UNCERTAIN_BYTES:
            elsewhere = {"swap_bytes": float(self._elsewhere_bytes)}
            doubts = [Doubt("other_swap_area", elsewhere, self._where)]
        return SwapReadings(self._grown_bytes, doubts)


def _used(areas: Mapping[Path, SwapArea], name: Path) -> int:
    return areas[name].used_bytes if name in areas else 0


@dataclass(frozen=True)
class Readings:
    """What the readers of a trial saw; ``missing`` has the reasons of those that failed."""

    kills: KillReadings | None
    files: FilesReadings | None
    outside: OutsideReport | None
    accelerator: AcceleratorReadings | None
    maps: MapsReadings = field(default_factory=MapsReadings)
    swap: SwapReadings = field(default_factory=SwapReadings)
    noise: dict[str, Any] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)


class TrialReaders:
    """The readers of one trial, as they start; None: it is not looked at so.

    ``limited``: its memory is, or will be.
    """

    def __init__(
        self, setup: TrialSetup, request: TrialRequest, cgroup: Cgroup, *, limited: bool
    ) -> None:
        limits, settings = request.limits, request.settings
        own = setup.storage.swap.state.device if limits.swap_kind != "none" else None
        swap = group_swap(cgroup.hot_files())
        is_program = settings["kind"] in PROGRAMS and request.strategy is None
        # One trial of a program on an emulated board: are its libraries too much for that?
        sizes_board = is_program and limits.board is not None and not setup.starts_cold
        reads_maps = request.strategy is None and (not limited or sizes_board)
        reads_files = is_program and not (limited and setup.starts_cold)
        waits = bool(settings.get("stop_after_s"))
        self.kills = KillReader(cgroup.path.name)
        self.swap = SwapReader(own, read_swap_areas, swap) if own else None
        self.accelerator = AcceleratorReader(cgroup.pids) if settings.get("accelerator") else None
        self.noise = NoiseReader()
        self.maps = MapsReader(cgroup, is_limited=limited) if reads_maps else None
        self.files = FilesReader(cgroup) if reads_files else None
        self.outside = OutsideReader(cgroup, waits=waits) if is_program else None

    def all(self) -> list[Reader[Any] | None]:
        """List them, in the order in which they start."""
        return list(vars(self).values())

    def stop(self, loop: ReaderLoop, finished: Finished) -> Readings:
        """Stop them, and return what they saw."""
        accelerator = loop.stop(self.accelerator, finished)
        if self.accelerator and accelerator is None:
            accelerator = AcceleratorReadings(missing=dict(loop.missing))
        maps = loop.stop(self.maps, finished) or MapsReadings()
        swap = loop.stop(self.swap, finished) or SwapReadings()
        return Readings(
            kills=loop.stop(self.kills, finished),
            files=loop.stop(self.files, finished),
            outside=loop.stop(self.outside, finished),
            accelerator=accelerator,
            maps=maps,
            swap=swap,
            noise=loop.stop(self.noise, finished) or {},
            missing={**maps.missing, **swap.missing, **loop.missing},
        )
