"""What spans record at their boundaries, until it is written as lines: numbers in shared memory.

Packing numbers takes a fraction of the time of making their line and writing it. The memory belongs
to a descriptor that the harness made and touched first. So it is charged to the harness, and when
the worker is killed, the harness has what was not written yet.

It holds a head (bytes in use with it, and how often it was emptied), then records of two kinds,
each with its size and kind first. -1 is null.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from struct import Struct

from edgebench.workloads.events import SpanPlace, Spent, end_line, start_line

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
    """The worker's side: spans are packed, and read back as lines. Its callers hold a lock.

    Args:
        fd: of the harness's memory; None: there is no harness.
    """

    def __init__(self, fd: int | None) -> None:
        # Mapped at once: no boundary is delayed by a fault.
        flags = mmap.MAP_SHARED | mmap.MAP_POPULATE
        self._memory: mmap.mmap | bytearray = (
            bytearray(RECORDS_BYTES) if fd is None else mmap.mmap(fd, RECORDS_BYTES, flags)
        )
        self._emptied = 0
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
        seen: tuple[int | None, int | None],
        t_ns: int,
    ) -> None:
        """A span begins; ``seen``: usage and swap, bytes."""
        names = _BETWEEN.join((place.phase, place.network or "", place.name or ""))
        text = names.encode(errors="replace")[:_LONGEST_NAMES_BYTES]
        at, size = self._end, _START.size + len(text)
        self._memory[at + _START.size : at + size] = text
        where = _packed(place.round), _packed(place.layer), thread
        usage, swap = seen
        _START.pack_into(
            self._memory,
            at,
            *(size, _STARTS, number, *where, t_ns, _packed(usage), _packed(swap)),
        )
        self._grow(size)

    def end(
        self,
        number: int,
        t_ns: int,
        seen: tuple[int | None, int | None],
        peak_bytes: int | None,
        spent: Spent,
    ) -> None:
        """It ends."""
        usage, swap = seen
        figures = _packed(usage), _packed(swap), _packed(peak_bytes), *spent
        _END.pack_into(self._memory, self._end, _END.size, _ENDS, number, t_ns, *figures)
        self._grow(_END.size)

    def chunks(self) -> Iterator[bytes]:
        """All of it as lines, a few at a time."""
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

    def _grow(self, size: int) -> None:
        # Only now is the record part of it: a kill leaves whole ones.
        self._end += size
        _HEAD.pack_into(self._memory, 0, self._end, self._emptied)


def lines_of(memory: bytes | memoryview, start: int = 0) -> Iterator[str]:
    """The lines of the records from byte ``start`` on; a damaged one is the end."""
    at = start or _HEAD.size
    while at + _FIRST.size <= len(memory):
        size, kind = _FIRST.unpack_from(memory, at)
        is_whole = size >= _START.size if kind == _STARTS else (size, kind) == (_END.size, _ENDS)
        if not is_whole or at + size > len(memory):
            return
        record = memory[at : at + size]
        yield _start_of(record) if kind == _STARTS else _end_of(record)
        at += size


def records_in(memory: mmap.mmap) -> tuple[bytes, int]:
    """A copy of what is in use, and how often the worker has emptied it; from outside."""
    end, emptied = _HEAD.unpack_from(memory, 0)
    return memory[: max(0, end)], emptied


def _start_of(record: bytes | memoryview) -> str:
    _, _, number, of_round, layer, thread, t_ns, usage, swap = _START.unpack_from(record, 0)
    text = bytes(record[_START.size :]).decode(errors="replace")
    phase, network, name = (*text.split(_BETWEEN, 2), "", "")[:3]
    place = SpanPlace(phase, _known(of_round), network or None, _known(layer), name or None)
    return start_line(number, place, thread, t_ns, _seen(usage, swap))


def _end_of(record: bytes | memoryview) -> str:
    _, _, number, t_ns, usage, swap, peak, *spent = _END.unpack_from(record, 0)
    return end_line(number, t_ns, _seen(usage, swap), _known(peak), Spent(*spent))


def _seen(usage: int, swap: int) -> dict[str, int | None]:
    return {"usage_bytes": _known(usage), "swap_bytes": _known(swap)}


def _packed(value: int | None) -> int:
    return -1 if value is None else value


def _known(value: int) -> int | None:
    return None if value < 0 else value
