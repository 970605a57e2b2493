"""``stream``: keep the weights that fit in memory, and read the rest once in each pass.

Weights that are used in the same order again and again are a cyclic scan. A kernel that evicts what
was used longest ago handles it worst: as soon as they don't fit, all of them are read again in each
pass. The best possible is to keep some of them and read only the others (Belady, "A study of
replacement algorithms for a virtual-storage computer", 1966).

The kernel is told which pages to keep, to read ahead or to drop. Pages are given by address, as
madvise(2) and mlock(2) take them: a tensor knows its address, not its mapping.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from edgebench.layers.network import Call, LayeredNetwork, Sample
from edgebench.layers.schedules import OneByOne
from edgebench.swap_areas import read_swap_areas

#: Pages will be read from first to last: the kernel reads more ahead at a fault.
SEQUENTIAL = mmap.MADV_SEQUENTIAL
#: The kernel reads only the missing page at a fault: somebody else reads ahead.
RANDOM = mmap.MADV_RANDOM
#: The kernel starts to read these pages of a file now; the call doesn't wait for them.
READ_AHEAD = mmap.MADV_WILLNEED
#: The kernel takes these pages at once. Linux 5.4 has it; ``mmap`` does not.
_PAGEOUT = 21
_LIBC = ctypes.CDLL(None, use_errno=True)
_PAGE = mmap.PAGESIZE
_PAGE_TABLE = Path("/proc/self/pagemap")
#: Bytes of the page table for one page.
_ENTRY = 8
_LOCKED_AT_ONCE_BYTES = 4 << 20


@dataclass(frozen=True)
class PageRange:
    """Whole pages: the address of the first, and their bytes."""

    address: int
    length: int

    @property
    def end(self) -> int:
        """The address after them."""
        return self.address + self.length

    def split(self, length: int) -> tuple[PageRange, PageRange]:
        """Split off the whole pages in the first ``length`` bytes; returns them and the rest."""
        first = min(self.length, max(0, length) // _PAGE * _PAGE)
        return PageRange(self.address, first), PageRange(self.address + first, self.length - first)

    def pieces(self, length: int) -> Iterator[PageRange]:
        """All of it, in pieces of ``length`` bytes."""
        rest = self
        while rest.length:
            piece, rest = rest.split(length)
            yield piece


def pages_of(tensors: Iterable[torch.Tensor]) -> list[PageRange]:
    """Find the pages that hold these tensors, by address, each once.

    A page belongs to one mapping, so a page with other bytes in it counts as the tensor's too.
    """
    bounds = sorted(
        (start // _PAGE * _PAGE, -(-(start + tensor.nbytes) // _PAGE) * _PAGE)
        for tensor in tensors
        if tensor.nbytes
        for start in [tensor.data_ptr()]
    )
    ranges: list[PageRange] = []
    for start, end in bounds:
        if ranges and start <= ranges[-1].end:
            start, end = ranges[-1].address, max(end, ranges.pop().end)
        ranges.append(PageRange(start, end - start))
    return ranges


def advise(pages: PageRange, advice: int) -> bool:
    """Give the kernel this advice; whether it took it."""
    place = (ctypes.c_void_p(pages.address), ctypes.c_size_t(pages.length))
    return not pages.length or not _LIBC.madvise(*place, advice)


def drop(pages: PageRange) -> None:
    """Give back these pages of a file now; an older kernel drops them when it needs room."""
    if not advise(pages, _PAGEOUT):
        advise(pages, mmap.MADV_DONTNEED)


def lock(pages: PageRange) -> int:
    """Read these pages of a file, and have the kernel keep them until they are unmapped.

    In pieces: pages that are read ahead of a large range may be evicted before their turn.

    Returns:
        How many bytes, from the first on, are locked: fewer where RLIMIT_MEMLOCK allows no more.
    """
    done = 0
    while done < pages.length:
        piece, _ = pages.split(done)[1].split(_LOCKED_AT_ONCE_BYTES)
        advise(piece, READ_AHEAD)
        if _LIBC.mlock(ctypes.c_void_p(piece.address), ctypes.c_size_t(piece.length)):
            break
        done += piece.length
    return done


class PageTable:
    """Which pages this process has in its page table (/proc/self/pagemap)."""

    def __init__(self) -> None:
        try:
            self._fd: int | None = os.open(_PAGE_TABLE, os.O_RDONLY)
        except OSError:
            self._fd = None

    def __enter__(self) -> PageTable:
        return self

    def __exit__(self, *error: object) -> None:
        if self._fd is not None:
            os.close(self._fd)

    @property
    def is_readable(self) -> bool:
        """False on a kernel without CONFIG_PROC_PAGE_MONITOR."""
        return self._fd is not None

    def mapped_bytes(self, pages: PageRange, step: int) -> list[int]:
        """How many bytes are mapped of each ``step`` bytes; a step is whole pages."""
        if self._fd is None:
            return [0] * -(-pages.length // step)
        read = os.pread(self._fd, pages.length // _PAGE * _ENTRY, pages.address // _PAGE * _ENTRY)
        # The bit of a mapped page is in the highest byte, which is zero for the others.
        highest = read[_ENTRY - 1 :: _ENTRY]
        parts = (highest[n : n + step // _PAGE] for n in range(0, len(highest), step // _PAGE))
        return [(len(part) - part.count(0)) * _PAGE for part in parts]


#: Left free: page tables, the command's other processes, and what reclaim needs to work on.
MARGIN_BYTES = 4 << 20
#: Passes that are watched. The first also touches what is needed only once.
_WATCHED, _FIRST = 3, 1
_CLEAR, _MAPS = Path("/proc/self/clear_refs"), Path("/proc/self/smaps")
_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) ")

#: Bytes that are read ahead of what a pass has used.
WINDOW_BYTES = 2 << 20
#: Bytes that are read, or dropped, at a time.
PIECE_BYTES = 256 << 10
#: Seconds between two looks at the page table, while there is something to read or to drop.
_LOOK_S = 0.001
#: A layer uses its weights again if it came back to this share of the dropped pieces, and to this
#: number. A thread that stood still in a piece that looked used comes back to that one alone.
_SHARE, _PIECES = 0.25, 3


@dataclass
class MemoryRoom:
    """How many bytes of weights a cgroup's limit leaves room for.

    The runtime's idle pages may go to swap, where there is some; those that a pass touches must
    stay. The kernel tells which these are: it marks each page that is touched (Linux,
    Documentation/admin-guide/mm/pagemap.rst; ``clear_refs`` needs CONFIG_PROC_PAGE_MONITOR).

    Args:
        limit_bytes: the cgroup's limit; None: unlimited.
        swaps: whether its idle pages can be swapped out.
        free: reads what the limit leaves beside what is in use now, bytes; None: unknown.
    """

    limit_bytes: int | None
    swaps: bool
    free: Callable[[], int | None]
    _hot_bytes: int | None = field(default=None, init=False)
    _watched: int = field(default=0, init=False)

    def for_weights(self) -> int | None:
        """Bytes; None: no limit. Before a pass was watched it is what is free now."""
        if self.limit_bytes is None:
            return None
        known = self.swaps and self._hot_bytes is not None
        free = self.limit_bytes - (self._hot_bytes or 0) if known else self.free()
        return max(0, (free or 0) - MARGIN_BYTES)

    @contextmanager
    def watching(self, weights: Callable[[], Sequence[PageRange]]) -> Iterator[None]:
        """Watch a pass; ``weights``: all pages of its weights, kept or not.

        Only the first passes are watched: marking every page takes milliseconds.
        """
        watched = self.swaps and self.limit_bytes is not None and self._watched < _WATCHED
        self._watched += 1
        try:
            if watched:
                _CLEAR.write_text("1")
        except OSError:
            watched = False
        yield
        touched = _touched_bytes(weights()) if watched else None
        if touched is not None:
            # The highest of the later ones counts: a kernel that looks for pages to evict takes
            # marks away, and with too little room the cgroup is killed.
            later = self._watched > _FIRST + 1
            self._hot_bytes = max(touched, self._hot_bytes or 0) if later else touched


def can_swap() -> bool:
    """Whether the machine has swap (proc(5))."""
    return bool(read_swap_areas())


def _touched_bytes(left_out: Sequence[PageRange]) -> int | None:
    # Weights that are still being dropped look touched, so their mappings are left out.
    touched, counted = 0, True
    try:
        with _MAPS.open() as lines:
            for line in lines:
                if mapping := _MAPPING.match(line):
                    start, end = (int(word, 16) for word in mapping.groups())
                    counted = not any(w.address < end and start < w.end for w in left_out)
                elif counted and line.startswith("Referenced:"):
                    touched += int(line.split()[1]) * 1024
    except OSError:
        return None
    return touched


class Stream(OneByOne):
    """One thread; a network's weights are mapped, and as many locked as there is room for."""

    #: How much a limit leaves for weights; without a limit all are kept.
    room = MemoryRoom(None, swaps=False, free=lambda: None)
    #: Whether there was a pass, in which the kernel could find out what is idle.
    _has_passed = False
    #: The most bytes of weights that were locked at a time.
    _most_kept_bytes = 0

    def notes(self) -> dict[str, Any]:
        """Return the most bytes of weights that were kept."""
        return {"kept_weights_bytes": self._most_kept_bytes}

    def _run_one(self, network: LayeredNetwork, sample: Sample) -> Any:
        weights = StreamedWeights(self.room.for_weights())
        with self._all_loaded(network, weights.add):
            output = self._pass(network, sample, "first", weights)
            for _ in range(self.warm):
                # The first pass has shown what else is needed.
                weights.keep(self.room.for_weights())
                self._pass(network, sample, "execute", weights)
            self._most_kept_bytes = max(self._most_kept_bytes, weights.kept_bytes)
        return output

    def _pass(
        self, network: LayeredNetwork, sample: Sample, phase: str, weights: StreamedWeights
    ) -> Any:
        with (
            self.room.watching(lambda: weights.pages),
            self.pass_span(phase, network),
            weights.reader(network.calls, by_kernel=not self._has_passed) as reader,
        ):
            self._has_passed = True
            return self.forward(
                network,
                sample,
                phase,
                lambda call: reader.before(call.order),
                lambda call: reader.after(call.order),
            )


class StreamedWeights:
    """The pages of a network's weights: those that are kept, and those read in each pass.

    Args:
        room_bytes: how many may be kept; None: all.
    """

    def __init__(self, room_bytes: int | None) -> None:
        self._room = room_bytes
        self.kept_bytes = 0
        #: All of them.
        self.pages: list[PageRange] = []
        #: Part → its pages that are not kept.
        self.read_in_pass: dict[str, list[PageRange]] = {}
        #: Calls that use their weights more than once.
        self._used_again: set[int] = set()

    def add(self, call: Call) -> None:
        """Add its part's mapped weights; tensors of several parts belong to the first."""
        known = {pages.address for pages in self.pages}
        ranges = [
            pages for pages in pages_of(call.part.tensors().values()) if pages.address not in known
        ]
        self.pages += ranges
        self.read_in_pass[call.part.name] = [self._keep(pages) for pages in ranges]

    def keep(self, room_bytes: int | None) -> None:
        """Keep more, from the first part on, if there is more room than there was."""
        self._room = room_bytes
        for part, ranges in self.read_in_pass.items():
            self.read_in_pass[part] = [self._keep(pages) for pages in ranges]

    def reader(self, calls: Sequence[Call], *, by_kernel: bool) -> PassReader:
        """Return what reads the others in one pass.

        ``by_kernel``: within layers the kernel reads and evicts, as it does for any program. So it
        finds out what of the runtime is idle, and swaps that out.
        """
        pages = {call.order: self.read_in_pass.get(call.part.name, ()) for call in calls}
        return PassReader(pages, set(pages) if by_kernel else self._used_again)

    def _keep(self, pages: PageRange) -> PageRange:
        room = pages.length if self._room is None else self._room - self.kept_bytes
        kept = lock(pages.split(room)[0])
        self.kept_bytes += kept
        return pages.split(kept)[1]


class PassReader:
    """Reads weights ahead of a pass, and drops them behind it.

    It has a thread of its own, since a layer may be larger than what may be read ahead. The page
    table shows how far a pass is: a page that was only read ahead is not in it (Linux,
    Documentation/admin-guide/mm/pagemap.rst).

    Some layers use their weights more than once, as a product by blocks does. They are noted, and
    the kernel reads their weights by itself; they are dropped after the layer.

    Args:
        pages: call → its pages that are not kept, in the order of the calls.
        used_again: calls that use their weights more than once; filled in.
    """

    def __init__(self, pages: Mapping[int, Sequence[PageRange]], used_again: set[int]) -> None:
        self._used_again = used_again
        left = (
            (call, [weights for weights in ranges if weights.length])
            for call, ranges in pages.items()
        )
        self._left = [_CallPages(call, ranges) for call, ranges in left if ranges]
        self._begun: set[int] = set()
        self._ended: set[int] = set()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pass-reader", daemon=True)

    def __enter__(self) -> PassReader:
        for weights in self._left:
            weights.advise(SEQUENTIAL if weights.call in self._used_again else RANDOM)
        if self._left:
            self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._thread.ident is not None:
            self._end.set()
            self._thread.join()

    def before(self, call: int) -> None:
        """Note that a call is about to be executed."""
        self._begun.add(call)

    def after(self, call: int) -> None:
        """Note that a call has been executed."""
        self._ended.add(call)

    def _run(self) -> None:
        with PageTable() as table:
            if not table.is_readable:
                for weights in self._left:
                    self._leave_to_kernel(weights)
            while self._left:
                self._look(table)
                if self._end.wait(_LOOK_S):
                    break
        for weights in self._left:
            weights.drop()

    def _look(self, table: PageTable) -> None:
        begun, ended = set(self._begun), set(self._ended)
        for weights in self._left:
            if weights.call in ended:
                weights.drop()
            elif weights.call in begun - self._used_again:
                weights.follow(table)
                if weights.is_used_again:
                    self._leave_to_kernel(weights)
        self._left = [weights for weights in self._left if weights.call not in ended]
        # First read what the pass has already begun to use, then what is next.
        pieces = [piece for weights in self._left for piece in weights.pieces]
        ahead = sum(piece.ahead_bytes for piece in pieces)
        waiting = [piece for piece in pieces if not (piece.asked or piece.dropped)]
        for piece in sorted(waiting, key=lambda piece: not piece.mapped_bytes):
            if ahead >= WINDOW_BYTES:
                break
            advise(piece.pages, READ_AHEAD)
            piece.asked = True
            ahead += piece.ahead_bytes

    def _leave_to_kernel(self, weights: _CallPages) -> None:
        self._used_again.add(weights.call)
        weights.advise(SEQUENTIAL)


@dataclass(eq=False)
class _Piece:
    """A part of what one call reads in a pass."""

    pages: PageRange
    #: Whether it was read ahead.
    asked: bool = False
    mapped_bytes: int = 0
    dropped: bool = False

    @property
    def ahead_bytes(self) -> int:
        return self.pages.length - self.mapped_bytes if self.asked and not self.dropped else 0


class _CallPages:
    """What one call reads in a pass: its ranges, each with its pieces."""

    def __init__(self, call: int, ranges: Sequence[PageRange]) -> None:
        self.call = call
        self._ranges = {
            pages: [_Piece(piece) for piece in pages.pieces(PIECE_BYTES)] for pages in ranges
        }
        self.pieces = [piece for pieces in self._ranges.values() for piece in pieces]
        self._drops = self._returns = 0

    def follow(self, table: PageTable) -> None:
        """Drop the pieces that were used in full at the look before."""
        for pages, pieces in self._ranges.items():
            mapped = table.mapped_bytes(pages, PIECE_BYTES)
            for piece, mapped_bytes in zip(pieces, mapped, strict=True):
                if piece.dropped and mapped_bytes:
                    piece.dropped = False
                    self._returns += 1
                elif not piece.dropped and piece.mapped_bytes == piece.pages.length:
                    drop(piece.pages)
                    piece.dropped, piece.mapped_bytes = True, 0
                    self._drops += 1
                    continue
                piece.mapped_bytes = mapped_bytes

    @property
    def is_used_again(self) -> bool:
        return self._returns >= max(_PIECES, _SHARE * self._drops)

    def advise(self, advice: int) -> None:
        for pages in self._ranges:
            advise(pages, advice)

    def drop(self) -> None:
        for pages in self._ranges:
            drop(pages)
