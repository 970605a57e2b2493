"""The event protocol between the worker inside the limit and the harness outside.

One JSON object a line, written to the descriptor the harness gave: spans once the outermost one
has ended (:class:`RecordBuffer`), all others at once.
``t_ns`` is ``CLOCK_MONOTONIC``, the sampler's clock too. Its shapes:

``{"event": "start", "id": 7, "phase": "load", "round": 0, "network": "alexnet", "layer": 3,
"name": "features.6", "thread": 0, "t_ns": …, "usage_bytes": …, "swap_bytes": …}``
    A span begins. ``layer`` and ``name`` are null for a whole phase, ``network`` and ``round``
    are null outside rounds. The phase ``round`` spans one whole round.

``{"event": "end", "id": 7, "t_ns": …, "usage_bytes": …, "swap_bytes": …, "peak_bytes": …,
"cpu_ns": …, "major_faults": …, "minor_faults": …, "maxrss_bytes": …}``
    The span with that id ends. ``peak_bytes`` is the kernel's peak of the cgroup within the
    span (the mark was reset at its start and at every boundary inside it), null where the
    kernel can't reset its mark. The last four are the whole process's, from ``getrusage``;
    ``maxrss_bytes`` is its largest resident set so far, the mark that GNU time prints in the end.

    Of a span that an engine's own profiler timed only ``t_ns`` is known.

``{"event": "note", "t_ns": …, "data": {…}}``
    Anything else worth keeping: library versions, threads, a digest of the output.

``{"event": "collection", "generation": 2, "start_ns": …, "t_ns": …, "collected": …}``
    Python's garbage collector ran until ``t_ns`` and freed so many objects. Full collections
    (generation 2) have one, and others that took a millisecond or more.

``{"event": "counts", "t_ns": …, "round": 3, "in_bytes": …, "swap_in_bytes": …, "out_bytes": …,
"major_faults": …}``
    What a whole round read and wrote (:class:`RoundCounters`), read outside its time.

``{"event": "limit", "t_ns": …, "limit_bytes": …, "direction": "down"}``
    In a walk: the harness has moved the memory limit, and what follows ran at it. Null bytes: there
    is no limit.

``{"event": "accelerator", "t_ns": …, "identity": {…}}`` and ``{…, "phases": […], "total": {…}}``
    Which accelerator it is; then, once the outermost span has ended, its memory and its copies in
    each phase since the last such event, and in all so far
    (:mod:`edgebench.layers.accelerator`).

In a trial of a strategy that looks from inside (:mod:`edgebench.measures.view`), starts and
ends carry ``view``, what it saw there, and ends ``view_peak_bytes``, its own mark within the span.

A null is a value the kernel doesn't tell. Keys may be added.

In a walk the harness answers: before each round the worker writes :data:`READY` to the control's
descriptor and waits, so nothing of the control happens within a round. The answer :data:`GO` is one
more round; any other, and the end of the connection, is the end of the rounds.
"""

from __future__ import annotations

import json
import mmap
import os
import re
import resource
from collections.abc import Iterator, Mapping
from functools import lru_cache
from struct import Struct
from typing import Any, NamedTuple, TypedDict

from edgebench.measures.view import Descriptors

READY, GO, STOP = b"r", b"g", b"s"
#: Kinds of the descriptor ``swap_io``: the statistics of a device that holds swap alone; the whole
#: machine's counters.
ONLY_SWAP, VMSTAT = "device", "vmstat"
Used = resource.struct_rusage
_quoted = lru_cache(maxsize=4096)(json.dumps)


class WorkerSpec(TypedDict):
    """What the worker gets: JSON in its one argument."""

    kind: str
    settings: dict[str, object]
    descriptors: Descriptors


class Spent(NamedTuple):
    """What the process used within a span; its largest resident set is of its whole life so far."""

    cpu_ns: int
    major_faults: int
    minor_faults: int
    maxrss_bytes: int


class SpanPlace(NamedTuple):
    """What a span is of."""

    phase: str
    round: int | None
    network: str | None
    layer: int | None
    name: str | None


def start_line(
    number: int, place: SpanPlace, thread: int, t_ns: int, counters: Mapping[str, Any]
) -> str:
    """Write the line of a span's start."""
    return (
        f'{{"event": "start", "id": {number}, "phase": {_quoted(place.phase)}, '
        f'"round": {_number(place.round)}, "network": {_quoted(place.network)}, '
        f'"layer": {_number(place.layer)}, "name": {_quoted(place.name)}, "thread": {thread}, '
        f'"t_ns": {t_ns}, {_seen(counters)}}}\n'
    )


def end_line(
    number: int, t_ns: int, counters: Mapping[str, Any], peak_bytes: int | None, spent: Spent
) -> str:
    """Write the line of a span's end."""
    return (
        f'{{"event": "end", "id": {number}, "t_ns": {t_ns}, {_seen(counters)}, '
        f'"peak_bytes": {_number(peak_bytes)}, "cpu_ns": {spent.cpu_ns}, '
        f'"major_faults": {spent.major_faults}, "minor_faults": {spent.minor_faults}, '
        f'"maxrss_bytes": {spent.maxrss_bytes}}}\n'
    )


def timed_lines(number: int, place: SpanPlace, start_ns: int, end_ns: int) -> str:
    """Write the lines of a span of which only the times are known."""
    start = start_line(number, place, 0, start_ns, {"usage_bytes": None, "swap_bytes": None})
    return f'{start}{{"event": "end", "id": {number}, "t_ns": {end_ns}}}\n'


def spent_between(before: Used, after: Used) -> tuple[int, int, int, int]:
    """Subtract two readings of ``getrusage``: what the process used between, as ``Spent``."""
    return (
        round((after.ru_utime + after.ru_stime) * 1e9)
        - round((before.ru_utime + before.ru_stime) * 1e9),
        after.ru_majflt - before.ru_majflt,
        after.ru_minflt - before.ru_minflt,
        after.ru_maxrss * 1024,
    )


def event_line(event: str, t_ns: int, **data: Any) -> str:
    """Write the line of any other event."""
    return json.dumps({"event": event, "t_ns": t_ns, **data}) + "\n"


def _number(value: int | None) -> str:
    return "null" if value is None else str(value)


def _seen(counters: Mapping[str, Any]) -> str:
    return ", ".join(
        f'"{key}": {_number(value) if value is None or type(value) is int else json.dumps(value)}'
        for key, value in counters.items()
    )


#: Some two thousand records; what the worker has mapped shows in its resident set.
RECORDS_BYTES = 256 * 1024
#: More than a boundary adds, whatever its names are.
_MARGIN_BYTES = 8 * 1024
_LONGEST_NAMES_BYTES = 4 * 1024
_HEAD, _FIRST = Struct("2q"), Struct("2q")
#: Size, kind, id, round, layer, thread, time, usage, swap; then phase, network and name.
_START = Struct("9q")
#: Size, kind, id, time, usage, swap, peak, CPU time, major and minor faults, largest resident set.
_END = Struct("11q")
_STARTS, _ENDS = 1, 2
#: Between the three names; an empty name is null.
_BETWEEN = "\0"
#: So much text is made at a time: more would be memory of the workload's.
_CHUNK_BYTES = 16 * 1024


class RecordBuffer:
    """Keeps what spans record at their boundaries until it is written as lines.

    Packing numbers takes a fraction of the time of making their line and writing it. Between phases
    nothing of it is in the processor's caches, so each call of a function counts: a boundary has
    few. The memory belongs to a descriptor that the harness made and touched first. So it is
    charged to the harness, and when the worker is killed, the harness has what was not written yet.

    It holds a head (bytes in use with it, and how often it was emptied), then records of two kinds,
    each with its size and kind first. -1 is null. Callers of its methods hold a lock.

    Args:
        fd: of the harness's memory; None: there is no harness.
    """

    def __init__(self, fd: int | None) -> None:
        # Mapped at once: no boundary is delayed by a fault.
        flags = mmap.MAP_SHARED | mmap.MAP_POPULATE
        self._memory: mmap.mmap | bytearray = (
            bytearray(RECORDS_BYTES) if fd is None else mmap.mmap(fd, RECORDS_BYTES, flags)
        )
        self._end = self._emptied = 0
        self.clear()

    @property
    def is_full(self) -> bool:
        """Whether the next boundary may not fit."""
        return self._end > RECORDS_BYTES - _MARGIN_BYTES

    def start(
        self,
        number: int,
        place: SpanPlace,
        thread: int,
        counters: tuple[int | None, int | None],
        t_ns: int,
    ) -> None:
        """Record the start of a span; ``counters``: usage and swap, bytes."""
        phase, of_round, network, layer, name = place
        usage, swap = counters
        text = _names(phase, network, name)
        _START.pack_into(
            self._memory,
            self._end,
            _START.size + len(text),
            _STARTS,
            number,
            -1 if of_round is None else of_round,
            -1 if layer is None else layer,
            thread,
            t_ns,
            -1 if usage is None else usage,
            -1 if swap is None else swap,
        )
        at = self._end + _START.size
        end = at + len(text)
        self._memory[at:end] = text
        # Only now is the record part of it: a kill leaves whole ones.
        self._end = end
        _HEAD.pack_into(self._memory, 0, end, self._emptied)

    def end(
        self,
        number: int,
        t_ns: int,
        counters: tuple[int | None, int | None],
        peak_bytes: int | None,
        spent: tuple[int, int, int, int],
    ) -> None:
        """Record the end of a span; ``spent``: as :class:`Spent`."""
        usage, swap = counters
        _END.pack_into(
            self._memory,
            self._end,
            _END.size,
            _ENDS,
            number,
            t_ns,
            -1 if usage is None else usage,
            -1 if swap is None else swap,
            -1 if peak_bytes is None else peak_bytes,
            *spent,
        )
        self._end = end = self._end + _END.size
        _HEAD.pack_into(self._memory, 0, end, self._emptied)

    def chunks(self) -> Iterator[bytes]:
        """Yield all of it as lines, a few at a time."""
        text = ""
        for line in lines_of(memoryview(self._memory)[: self._end]):
            text += line
            if len(text) > _CHUNK_BYTES:
                yield text.encode()
                text = ""
        if text:
            yield text.encode()

    def clear(self) -> None:
        """Empty it."""
        self._end = _HEAD.size
        self._emptied += 1
        _HEAD.pack_into(self._memory, 0, self._end, self._emptied)


def lines_of(memory: bytes | memoryview, start: int = 0) -> Iterator[str]:
    """Yield the lines of the records from byte ``start`` on; a damaged one is the end."""
    at = start or _HEAD.size
    while at + _FIRST.size <= len(memory):
        size, kind = _FIRST.unpack_from(memory, at)
        is_whole = size >= _START.size if kind == _STARTS else (size, kind) == (_END.size, _ENDS)
        if not is_whole or at + size > len(memory):
            return
        record = memory[at : at + size]
        if kind == _STARTS:
            _, _, number, of_round, layer, thread, t_ns, usage, swap = _START.unpack_from(record)
            text = bytes(record[_START.size :]).decode(errors="replace")
            phase, network, name = (*text.split(_BETWEEN, 2), "", "")[:3]
            place = SpanPlace(phase, _known(of_round), network or None, _known(layer), name or None)
            counters = {"usage_bytes": _known(usage), "swap_bytes": _known(swap)}
            yield start_line(number, place, thread, t_ns, counters)
        else:
            _, _, number, t_ns, usage, swap, peak, *spent = _END.unpack_from(record)
            counters = {"usage_bytes": _known(usage), "swap_bytes": _known(swap)}
            yield end_line(number, t_ns, counters, _known(peak), Spent(*spent))
        at += size


def records_in(memory: mmap.mmap) -> tuple[bytes, int]:
    """Copy what is in use, from outside, with how often the worker has emptied it."""
    end, emptied = _HEAD.unpack_from(memory, 0)
    return memory[: max(0, end)], emptied


@lru_cache(maxsize=4096)
def _names(phase: str, network: str | None, name: str | None) -> bytes:
    text = _BETWEEN.join((phase, network or "", name or ""))
    return text.encode(errors="replace")[:_LONGEST_NAMES_BYTES]


def _known(value: int) -> int | None:
    return None if value < 0 else value


_OWN = "/proc/self/io"
#: Of ``/sys/block/NAME/stat`` (Documentation/block/stat.rst): sectors read and written.
_READ, _WRITTEN, _SECTOR = 2, 6, 512
_PAGE = os.sysconf("SC_PAGE_SIZE")
_MOST = 1 << 14
_READ_BYTES = re.compile(rb"^read_bytes: (\d+)", re.MULTILINE)
_SWAPPED = re.compile(rb"^pswpin (\d+)\npswpout (\d+)", re.MULTILINE)


class RoundCount(NamedTuple):
    """Bytes so far: read in all, of it from swap, written to swap; None: unknown."""

    in_bytes: int | None
    swap_in_bytes: int | None
    out_bytes: int | None

    def since(self, before: RoundCount) -> RoundCount:
        """Subtract an earlier reading."""
        pairs = zip(self, before, strict=True)
        return RoundCount(*(None if a is None or b is None else a - b for a, b in pairs))


class RoundCounters:
    """Reads at the borders of rounds what was read and written so far.

    Nothing here makes the kernel flush the statistics by which it reclaims, as ``memory.stat``
    does. ``/proc/self/io`` counts in ``read_bytes`` what the process had read from any block
    device, swap and zram among them (Documentation/filesystems/proc.rst; ``submit_bio`` in
    block/blk-core.c). A page that was in memory, or in the swap cache, is not counted. A reading
    takes some microseconds and no memory that lasts.

    Args:
        descriptors: what the harness opened.
    """

    def __init__(self, descriptors: Descriptors) -> None:
        self._swap_fd, self._swap_kind = descriptors["swap_io"], descriptors["swap_kind"]
        try:
            self._own_fd: int | None = os.open(_OWN, os.O_RDONLY)
        except OSError:
            # A kernel without CONFIG_TASK_IO_ACCOUNTING.
            self._own_fd = None

    def read(self) -> RoundCount:
        """Read them as they stand now."""
        process_io = os.pread(self._own_fd, _MOST, 0) if self._own_fd is not None else b""
        in_bytes = int(read[1]) if (read := _READ_BYTES.search(process_io)) else None
        swap_in, swap_out = None, None
        text = os.pread(self._swap_fd, _MOST, 0) if self._swap_fd is not None else b""
        if text and self._swap_kind == ONLY_SWAP:
            words = text.split()
            swap_in, swap_out = (int(words[n]) * _SECTOR for n in (_READ, _WRITTEN))
        elif self._swap_kind == VMSTAT and (pages := _SWAPPED.search(text)):
            swap_in, swap_out = int(pages[1]) * _PAGE, int(pages[2]) * _PAGE
        return RoundCount(in_bytes, swap_in, swap_out)
