"""Readers look at a trial while it runs; one thread polls them, the earliest first.

A reader that raises, or that takes longer than :data:`PATIENCE_S` for one look, costs its own keys
of the record and nothing else. What moves a limit is no reader: :mod:`.controllers`. The readers
here look at a trial's processes: what they map, use of an accelerator, and leave behind.
"""

from __future__ import annotations

import contextlib
import heapq
import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

from edgebench.cgroups.interface import Cgroup, Counters, parse_counters
from edgebench.cgroups.process_files import mapped_bytes, mapped_files
from edgebench.cgroups.sampler import SAME_BYTES
from edgebench.cgroups.sampler_process import MapsLook
from edgebench.measures.gnu_time import GnuTime
from edgebench.measures.machine.system_files import (
    SYSTEM_FIGURES,
    ProcessMemory,
    SystemFiles,
    UnreadableError,
    process_memory,
)
from edgebench.records import AcceleratorReport, OutsideReport, is_count, is_number
from edgebench.text import printable

#: A reader that takes longer for one look is given up.
PATIENCE_S = 2.0

Fields = TypeVar("Fields")


@dataclass(frozen=True)
class Finished:
    """What a trial ended with.

    Args:
        counters: the cgroup's, when its processes were gone.
        gnu_time: its report; None where GNU time was killed too.
    """

    counters: Counters
    gnu_time: GnuTime | None


class Reader(ABC, Generic[Fields]):
    """Looks at a running trial, and says at its end what it saw."""

    #: Keys of the record that have the reason if it fails.
    keys: tuple[str, ...]

    def start(self) -> None:
        """Begin, before the workload is there."""

    def poll(self) -> float:
        """Look, and return the seconds until the next look."""
        return math.inf

    def end(self, command: int) -> None:
        """Look once more: that process has ended or is about to, and nothing is killed yet."""

    @abstractmethod
    def stop(self, finished: Finished) -> Fields:
        """Return what it saw, once all processes are gone."""

    def close(self) -> None:
        """Give back what it holds, however the trial ended."""


class ReaderLoop:
    """Starts readers, polls them until :meth:`end`, and stops them; a context manager.

    ``missing`` has the reason for each key of a reader that failed.
    """

    def __init__(self, readers: Iterable[Reader[Any] | None]) -> None:
        self.missing: dict[str, str] = {}
        self._readers = [reader for reader in readers if reader is not None]
        self._failed: dict[Reader[Any], str] = {}
        self._poller = _Poller([], self._fail)

    def __enter__(self) -> ReaderLoop:
        for reader in self._readers:
            self._call(reader, reader.start)
        self._poll()
        return self

    def __exit__(self, *_: object) -> None:
        self._poller.ended.set()
        for reader in self._readers:
            self._call(reader, reader.close)

    def check(self) -> None:
        """Give up a reader whose look hangs; call it now and then while the trial runs."""
        looking = self._poller.looking
        if looking and time.monotonic() - looking[1] > PATIENCE_S:
            self._hangs(looking[0])
            # When its look returns after all, that thread ends.
            self._poller.ended.set()
            self._poll()

    def end(self, command: int) -> None:
        """End polling, and have each reader look once more; ``command`` is the first process."""
        self._poller.ended.set()
        self._poller.join(PATIENCE_S)
        if self._poller.is_alive() and (looking := self._poller.looking):
            self._hangs(looking[0])
        for reader in self._left():
            self._call(reader, partial(reader.end, command))

    def stop(self, reader: Reader[Fields] | None, finished: Finished) -> Fields | None:
        """Return what the reader saw; None: there is none, or it failed."""
        if reader is None or reader in self._failed:
            return None
        return self._call(reader, partial(reader.stop, finished))

    def _left(self) -> list[Reader[Any]]:
        return [reader for reader in self._readers if reader not in self._failed]

    def _poll(self) -> None:
        self._poller = _Poller(self._left(), self._fail)
        self._poller.start()

    def _call(self, reader: Reader[Any], call: Callable[[], Fields]) -> Fields | None:
        """Call in a thread of its own, which is left to itself if it hangs."""
        results: list[Fields] = []

        def run() -> None:
            try:
                results.append(call())
            except Exception as error:  # whatever it met costs its own keys alone
                self._fail(reader, f"{type(error).__name__}: {error}")

        thread = threading.Thread(target=run, name="reader", daemon=True)
        thread.start()
        thread.join(PATIENCE_S)
        if thread.is_alive():
            self._hangs(reader)
            return None
        return results[0] if results else None

    def _hangs(self, reader: Reader[Any]) -> None:
        self._fail(reader, f"no answer for {PATIENCE_S:g} s")

    def _fail(self, reader: Reader[Any], reason: str) -> None:
        reason = f"it could not be read: {printable(reason)}"
        if self._failed.setdefault(reader, reason) == reason:
            self.missing |= dict.fromkeys(reader.keys, reason)


class _Poller(threading.Thread):
    """Polls readers until ``ended``; ``looking`` is the one that looks, and since when."""

    def __init__(
        self, readers: Iterable[Reader[Any]], fail: Callable[[Reader[Any], str], None]
    ) -> None:
        super().__init__(name="readers", daemon=True)
        self.ended = threading.Event()
        self.looking: tuple[Reader[Any], float] | None = None
        self._due = [(0.0, number, reader) for number, reader in enumerate(readers)]
        self._fail = fail

    def run(self) -> None:
        while self._due:
            due_s, number, reader = heapq.heappop(self._due)
            if self.ended.wait(max(0.0, due_s - time.monotonic())):
                return
            self.looking = reader, time.monotonic()
            try:
                wait_s = reader.poll()
            except Exception as error:  # whatever it met costs its own keys alone
                self._fail(reader, f"{type(error).__name__}: {error}")
                wait_s = math.inf
            self.looking = None
            if wait_s < math.inf:
                heapq.heappush(self._due, (time.monotonic() + wait_s, number, reader))


_PROC = Path("/proc")
#: The part of a trial's time in which its maps are read at most: the kernel stops changes of a
#: process's maps meanwhile. Measured: 1 ms for a small program, 11 ms for torch.
LOOKING_SHARE = 0.02
#: Between two looks at what is mapped, until maps were read once and later.
_MAPS_BEGIN_INTERVAL_S, _MAPS_INTERVAL_S = 0.05, 0.2
NOT_LOOKED = "the trial ended before its maps were read"
NOT_SHOWN = "this kernel does not show us what the trial's processes map (smaps, memory.stat)"
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
        return max(least_s, (time.monotonic() - began_s) / LOOKING_SHARE)

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
