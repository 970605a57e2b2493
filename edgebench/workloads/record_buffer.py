"""What spans record at their boundaries, until it is written as lines: numbers in shared memory.

Packing numbers takes a fraction of the time of making their line and writing it. Between phases
nothing of it is in the processor's caches, so each call of a function counts: a boundary has few.
The memory belongs to a descriptor that the harness made and touched first. So it is charged to the
harness, and when the worker is killed, the harness has what was not written yet.

It holds a head (bytes in use with it, and how often it was emptied), then records of two kinds,
each with its size and kind first. -1 is null.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from functools import lru_cache
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
        seen: tuple[int | None, int | None],
        t_ns: int,
    ) -> None:
        """A span begins; ``seen``: usage and swap, bytes."""
        phase, of_round, network, layer, name = place
        usage, swap = seen
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
        seen: tuple[int | None, int | None],
        peak_bytes: int | None,
        spent: tuple[int, int, int, int],
    ) -> None:
        """It ends; ``spent``: as :class:`~edgebench.workloads.events.Spent`."""
        usage, swap = seen
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


@lru_cache(maxsize=4096)
def _names(phase: str, network: str | None, name: str | None) -> bytes:
    """As a record holds them."""
    text = _BETWEEN.join((phase, network or "", name or ""))
    return text.encode(errors="replace")[:_LONGEST_NAMES_BYTES]


def _known(value: int) -> int | None:
    return None if value < 0 else value
