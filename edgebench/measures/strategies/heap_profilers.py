"""Heap profilers around the workload: valgrind's massif, memray, and gperftools' tcmalloc.

Massif is exact, at a cost that only small networks bear. memray records every allocation, Python's
and native. tcmalloc, preloaded, dumps the heap as it grows. Only figures are read here;
``ms_print``, memray's reports and ``pprof`` show who allocated.
"""

from __future__ import annotations

import ctypes.util
import importlib.util
import mmap
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgebench.errors import ResultsError
from edgebench.installation import install
from edgebench.measures.strategies import (
    Boundaries,
    HeapPoint,
    HeapProfile,
    HeapStrategy,
    StrategyOptions,
    boundary_times,
    registered_strategy,
)
from edgebench.measures.view import Descriptors, View
from edgebench.safe_files import open_to_read, read_file, read_text
from edgebench.text import format_duration, format_size

if TYPE_CHECKING:
    from memray import FileReader

_MASSIF_UNIT = re.compile(r"^time_unit: ms$", re.MULTILINE)
_MASSIF_SNAPSHOT = re.compile(r"^time=(\d{1,19})\nmem_heap_B=(\d{1,19})\n", re.MULTILINE)
LIMIT_S = 1800.0
#: Of the trial's time: in the rest it writes its file, before the trial is killed.
_MASSIF_SHARE = 0.9
_MASSIF_FILE, _VALGRIND_LOG = "massif.out", "valgrind.log"
#: ``==00:00:01:23.456 789== ``: days, hours, minutes, seconds since valgrind's start.
_SINCE_START = re.compile(r"^==(\d+):(\d\d):(\d\d):(\d\d\.\d{3}) ", re.MULTILINE)
#: Valgrind's words as :program:`timeout` ends it.
_STOPPED = "default action of signal 15"
_MASSIF_ERROR = "a peak is exact within 1 %; snapshots are rarer in a longer trial"


def parse_massif(text: str) -> list[tuple[int, int]]:
    """List the time in ms and the heap's bytes of each whole snapshot in a massif file.

    It has a block for each (valgrind, ``massif/ms_main.c``), of which these lines are read::

        time=120
        mem_heap_B=1000

    Raises:
        ResultsError: it is no massif file.
    """
    if not text.startswith("desc: ") or not _MASSIF_UNIT.search(text):
        raise ResultsError("not a file of valgrind's massif, or cut short", where=_MASSIF_FILE)
    return [(int(time_ms), int(size)) for time_ms, size in _MASSIF_SNAPSHOT.findall(text)]


@registered_strategy
class Massif(HeapStrategy):
    """The heap by massif: every allocation, executed on valgrind's simulated processor."""

    name = "massif"
    title = "heap (valgrind's massif)"
    counts = "bytes requested from malloc and functions like it, and not yet freed"
    blind_to = (
        "everything mapped: weights (the loaders map them), Python's arenas, code, thread stacks; "
        "whether a byte was ever touched or is in swap; which Python code called; unused space "
        "inside the allocator"
    )
    method = "massif's peak snapshot"

    def __init__(self, limit_s: float = LIMIT_S) -> None:
        self.limit_s = limit_s

    def configured(self, asked: StrategyOptions) -> Massif:
        """Have it end before its trial is killed: killed, it writes no file."""
        if asked.timeout_s is None:
            return self
        return Massif(min(self.limit_s, _MASSIF_SHARE * asked.timeout_s))

    def unavailable(self) -> str | None:
        """Say why it can't be used on this machine; None if it can."""
        if shutil.which("valgrind"):
            return None
        return "valgrind is not on this machine: apt-get install valgrind"

    def wrap(
        self, command: Sequence[str], env: Mapping[str, str], folder: Path
    ) -> tuple[list[str], dict[str, str]]:
        """Run the words under valgrind, and end it at the limit: it writes as it ends."""
        command, env = super().wrap(command, env, folder)
        words = [
            *("timeout", "--signal=TERM", "--kill-after=60", f"{self.limit_s}"),
            *("valgrind", "--tool=massif", "--time-unit=ms", "--max-snapshots=1000"),
            f"--massif-out-file={folder / _MASSIF_FILE}",
            *(f"--log-file={folder / _VALGRIND_LOG}", "--time-stamp=yes"),
        ]
        return [*words, *command], env

    def profile(self, folder: Path, numbered: Boundaries, offset_ns: int) -> HeapProfile:
        """Read massif's file; link snapshots by time alone, which at its pace is enough.

        Raises:
            ResultsError: there is none, or it can't be read.
        """
        log = folder / _VALGRIND_LOG
        lines = read_text(log, "replace").splitlines() if log.exists() else []
        if not (folder / _MASSIF_FILE).exists():
            words = [line.partition("== ")[2] for line in lines if line.partition("== ")[2].strip()]
            if not words:
                raise ResultsError("massif left no file: valgrind did not start")
            killed = f"killed, perhaps at its limit of {format_duration(self.limit_s)}"
            raise ResultsError(f"massif left no file: {killed}; its last message: {words[-1]}")
        snapshots = parse_massif(read_text(folder / _MASSIF_FILE, "replace"))
        times = _SINCE_START.findall("\n".join(lines))
        if not times:
            raise ResultsError("valgrind's log tells no time", where=log.name)
        # Valgrind began at its log's time less what its last line says.
        days, hours, minutes, seconds = times[-1]
        since_s = ((int(days) * 24 + int(hours)) * 60 + int(minutes)) * 60 + float(seconds)
        start_ns = log.stat().st_mtime_ns - round(since_s * 1e9) - offset_ns
        points = (HeapPoint(start_ns + ms * 1_000_000, size) for ms, size in snapshots)
        notes = []
        if any(_STOPPED in line for line in lines):
            limit = format_duration(self.limit_s)
            notes.append(f"stopped at its limit of {limit}: what came later is not known")
        return HeapProfile(tuple(points), None, _MASSIF_ERROR, tuple(notes))


#: A mapping of this size and as many pages as a boundary's number marks the boundary. It is address
#: space alone: none of its pages is ever touched.
MARK_BYTES = 32 << 30
#: More boundaries than a trial has: a mapping beyond it is no mark.
_MARKS = 1 << 20
_SNAPSHOTS = 10_000_000
_MEMRAY_ERROR = "every allocation is recorded, with its size, in order"
_MEMRAY_FILE = "memray.bin"
#: How often memray records its time and the heap's size.
_INTERVAL_MS = 5


class LiveSet:
    """Live bytes. What was allocated before the record began is not in it."""

    def __init__(self) -> None:
        self.live_bytes = 0
        self._blocks: dict[int, int] = {}
        self._mappings: dict[int, int] = {}

    def allocate(self, address: int, size: int) -> None:
        """Add a block of malloc and its kin; one at the same address was freed unseen."""
        self.free(address)
        self._blocks[address] = size
        self.live_bytes += size

    def free(self, address: int) -> None:
        """Give a block back; do nothing if its allocation was not seen."""
        self.live_bytes -= self._blocks.pop(address, 0)

    def map(self, start: int, size: int) -> None:
        """Add a mapping: it takes the place of what was mapped there."""
        self.unmap(start, size)
        self._mappings[start] = size
        self.live_bytes += size

    def unmap(self, start: int, size: int) -> None:
        """Give this range back: a mapping, part of one, or parts of several."""
        end = start + size
        for at, length in list(self._mappings.items()):
            if at >= end or at + length <= start:
                continue
            del self._mappings[at]
            for piece, until in ((at, start), (end, at + length)):
                if piece < until:
                    self._mappings[piece] = until - piece
            self.live_bytes -= min(end, at + length) - max(start, at)


def stretches(reader: FileReader) -> Iterator[tuple[int | None, int, int]]:
    """Yield what lies between two boundaries, in order.

    Each is the number of the boundary it ends at (None of what follows the last), the live bytes
    there, and the most within it.
    """
    from memray import AllocatorType

    map_, unmap = int(AllocatorType.MMAP), int(AllocatorType.MUNMAP)
    free = int(AllocatorType.FREE)
    heap, peak = LiveSet(), 0
    for record in reader.get_allocation_records():
        if record.allocator == map_:
            number, rest = divmod(record.size - MARK_BYTES, mmap.PAGESIZE)
            if rest == 0 and 0 < number < _MARKS:
                yield number, heap.live_bytes, peak
                peak = heap.live_bytes
                continue
            heap.map(record.address, record.size)
        elif record.allocator == unmap:
            heap.unmap(record.address, record.size)
        elif record.allocator == free:
            heap.free(record.address)
        else:
            heap.allocate(record.address, record.size)
        peak = max(peak, heap.live_bytes)
    yield None, heap.live_bytes, peak


class MemrayView(View):
    """Tracks the worker with memray from before the runtime's import to the workload's end."""

    def __init__(self, folder: Path, descriptors: Descriptors) -> None:
        import memray

        super().__init__(folder, descriptors)
        self._boundaries = 0
        self._tracker = memray.Tracker(folder / _MEMRAY_FILE, memory_interval_ms=_INTERVAL_MS)
        self._tracker.__enter__()

    def look(self, whole: bool) -> dict[str, int]:
        """Mark this boundary among the allocations; return its number."""
        self._boundaries += 1
        size = MARK_BYTES + self._boundaries * mmap.PAGESIZE
        # Private and read-only: the kernel reserves nothing for it.
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        mmap.mmap(-1, size, flags=flags, prot=mmap.PROT_READ).close()
        return {"boundary": self._boundaries}

    def close(self) -> None:
        """Write out what is recorded."""
        self._tracker.__exit__(None, None, None)


@registered_strategy
class Memray(HeapStrategy):
    """The heap by memray: each allocation of the worker.

    Its record is replayed from one boundary of a span to the next: memray's own summaries know the
    whole record, or slices of its time.
    """

    name = "memray"
    view = MemrayView
    title = "heap (memray)"
    counts = (
        "bytes requested from malloc and functions like it, and from mmap, and not yet freed, "
        "counted from before the runtime's import: tensors, mapped weights, Python's arenas"
    )
    blind_to = (
        "whether a byte was ever touched or is in swap; code, thread stacks and what the C "
        "library maps; unused space inside the allocator; what was allocated before memray started"
    )
    method = "the largest sum over every allocation"
    inside_worker = True
    counts_mapped = True

    def unavailable(self) -> str | None:
        """Say why it can't be used on this machine; None if it can."""
        if importlib.util.find_spec("memray"):
            return None
        return f"memray is not installed: {install('memray')}"

    def profile(self, folder: Path, numbered: Boundaries, offset_ns: int) -> HeapProfile:
        """Replay the record.

        Raises:
            ResultsError: there is none, or it can't be read.
        """
        path, moments = folder / _MEMRAY_FILE, boundary_times(numbered)
        if not path.exists():
            raise ResultsError("memray left no record: the worker ended before it began")
        from memray import FileReader

        points = []
        try:
            # It reads the file as it replays it: of any size, but no FIFO.
            open_to_read(path).close()
            with FileReader(path, max_memory_records=_SNAPSHOTS) as reader:
                line = tuple(
                    (snapshot.time * 1_000_000 - offset_ns, snapshot.heap)
                    for snapshot in reader.get_memory_snapshots()
                    # One that fell between a mark and its end holds the mark.
                    if snapshot.heap < MARK_BYTES
                )
                end_ns = max([*moments.values(), *(t_ns for t_ns, _ in line[-1:])], default=0)
                for number, live_bytes, peak_bytes in stretches(reader):
                    boundary = number if number in moments else None
                    t_ns = end_ns if boundary is None else moments[boundary]
                    points.append(HeapPoint(t_ns, live_bytes, peak_bytes, boundary))
        except (OSError, ValueError, RuntimeError) as error:
            raise ResultsError(
                f"memray's record can't be read: {error}", where=_MEMRAY_FILE
            ) from None
        return HeapProfile(tuple(points), 0, _MEMRAY_ERROR, line=line)


_DUMP_HEADER = re.compile(
    rb"heap profile:\s*\d+:\s*(\d{1,19}) \[\s*\d+:\s*(\d{1,19})\] @ heapprofile\n"
)
#: The dumps' names, numbered; of a process that another started, with its id.
DUMP_NAME = re.compile(r"heap(?:_(\d+))?\.(\d{4,9})\.heap")
#: Many times what gperftools writes at most.
_MOST_DUMP_BYTES = 16 << 20


@dataclass(frozen=True)
class Dump:
    """A dump's totals, its number (in the order of allocation), and its file's wall time."""

    number: int
    wall_ns: int
    live_bytes: int
    allocated_bytes: int


def find_dumps(folder: Path) -> tuple[list[Dump], list[str]]:
    """Find the dumps of the process that allocated most, in order; note each left out.

    A dump's first line has its totals (gperftools, ``heap-profile-table.cc``): counts and bytes
    live, in brackets counts and bytes since the start::

        heap profile:   1234:  5678 [  2345:   9876] @ heapprofile
    """
    processes: dict[str, list[Dump]] = {}
    notes = []
    for path in sorted(folder.iterdir()):
        name = DUMP_NAME.fullmatch(path.name)
        if not name:
            continue
        try:
            header = _DUMP_HEADER.match(read_file(path, _MOST_DUMP_BYTES))
        except OSError as error:
            what = f"a heap dump can't be read: {error.strerror}"
            notes.append(f"{what} and left out ({path.name})")
            continue
        if header:
            dump = Dump(int(name[2]), path.lstat().st_mtime_ns, int(header[1]), int(header[2]))
            processes.setdefault(name[1] or "", []).append(dump)
        else:
            notes.append(f"a heap dump is cut short and left out ({path.name})")
    most = max(
        processes.values(),
        key=lambda dumps: max(dump.allocated_bytes for dump in dumps),
        default=[],
    )
    return sorted(most, key=lambda dump: dump.number), notes


_DUMP_ERROR = "what malloc may give between two dumps; a dump's time is its file's, within 10 ms"
#: A dump takes a good part of a second: where less than this has changed, the last one serves.
_LEAST_CHANGE_BYTES = 64 << 10


class TcmallocView(View):
    """Has the preloaded profiler dump the heap at each boundary, whose number is the dump's."""

    def __init__(self, folder: Path, descriptors: Descriptors) -> None:
        super().__init__(folder, descriptors)
        self._folder = folder
        # Not there if the preload had no effect: then nothing is dumped, and the reader says why.
        self._dump: Any = getattr(ctypes.CDLL(None), "HeapProfilerDump", None)
        self._number: int | None = None
        self._live = (0, 0)

    def look(self, whole: bool) -> dict[str, int]:
        """Dump the heap, unless it is as it was; dumps are numbered in the order of allocation."""
        if self._dump is None:
            return {}
        live = (_allocated(), sum(read() for read in self.gauges.values()))
        changed = abs(live[0] - self._live[0]) >= _LEAST_CHANGE_BYTES or live[1] != self._live[1]
        if changed or self._number is None:
            self._dump(b"boundary")
            names = (DUMP_NAME.fullmatch(path.name) for path in self._folder.iterdir())
            mine = (name for name in names if name and name[1] in (None, str(os.getpid())))
            self._number = max((int(name[2]) for name in mine), default=None)
            self._live = live
        return {} if self._number is None else {"boundary": self._number}


def _allocated() -> int:
    size = ctypes.c_size_t()
    ctypes.CDLL(None).MallocExtension_GetNumericProperty(
        b"generic.current_allocated_bytes", ctypes.byref(size)
    )
    return size.value


@registered_strategy
class Tcmalloc(HeapStrategy):
    """The heap by gperftools: what malloc handed out.

    A dump is written each time ``every_bytes`` more were allocated, each time as many were freed,
    and at each boundary of a span. So between two dumps ``malloc`` can't have given more than that.
    Mapped memory is not counted: once torch is imported a dump of 1 MiB has no room for every
    mapping, and gperftools 2.17 can't count them at all.
    """

    name = "tcmalloc"
    view = TcmallocView
    title = "heap (gperftools' tcmalloc)"
    counts = (
        "bytes requested from malloc, new and posix_memalign and not yet freed: tensors that "
        "torch allocates, and what libraries allocate"
    )
    blind_to = (
        "everything mapped: weights (the loaders map them), Python's arenas, code, thread stacks; "
        "whether a byte was ever touched or is in swap; which Python code called; unused space "
        "inside the allocator, which it replaces"
    )
    method = "the largest of its dumps"

    def __init__(self, every_bytes: int = StrategyOptions.dump_every_bytes) -> None:
        self.every_bytes = every_bytes

    def configured(self, asked: StrategyOptions) -> Tcmalloc:
        """Return it with the dumps that the scenario asks for."""
        return Tcmalloc(asked.dump_every_bytes)

    def unavailable(self) -> str | None:
        """Say why it can't be used on this machine; None if it can."""
        if ctypes.util.find_library("tcmalloc"):
            return None
        return "gperftools is not on this machine: apt-get install libgoogle-perftools4"

    def wrap(
        self, command: Sequence[str], env: Mapping[str, str], folder: Path
    ) -> tuple[list[str], dict[str, str]]:
        """Start the same command with tcmalloc preloaded, which dumps into the folder."""
        command, env = super().wrap(command, env, folder)
        library = ctypes.util.find_library("tcmalloc") or "libtcmalloc.so.4"
        every = str(self.every_bytes)
        return command, {
            **env,
            "LD_PRELOAD": " ".join(filter(None, [library, env.get("LD_PRELOAD")])),
            "HEAPPROFILE": str(folder / "heap"),
            "HEAP_PROFILE_ALLOCATION_INTERVAL": every,
            "HEAP_PROFILE_DEALLOCATION_INTERVAL": every,
            "HEAP_PROFILE_INUSE_INTERVAL": every,
        }

    def profile(self, folder: Path, numbered: Boundaries, offset_ns: int) -> HeapProfile:
        """Read the dumps of the process that allocated most; leave out one that is cut short.

        Raises:
            ResultsError: no dump can be read; says why, as far as that shows.
        """
        dumps, notes = find_dumps(folder)
        if not dumps:
            why = (
                f"the program ended before it allocated {format_size(self.every_bytes)}, is linked "
                "statically, or has an allocator of its own"
            )
            raise ResultsError(f"tcmalloc left no heap: {notes[0] if notes else why}")
        moments = boundary_times(numbered)
        # A file's time is coarse: it may lie before an earlier dump's.
        times = accumulate((moments.get(d.number, d.wall_ns - offset_ns) for d in dumps), max)
        points = tuple(
            HeapPoint(t_ns, d.live_bytes, boundary=d.number if d.number in moments else None)
            for d, t_ns in zip(dumps, times, strict=True)
        )
        return HeapProfile(points, self.every_bytes, _DUMP_ERROR, tuple(notes))
