"""The ordered string of memory references that a workload makes, before any limit is known.

A reference touches one piece of a tensor from its first page to its last. Pieces are at most
:data:`PIECE_BYTES`, so that a layer larger than memory can be half in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
ReferenceStep = tuple[int, int, bool, bool, Sequence[int]]

#: A piece: small against any limit, large enough to keep strings short. Pieces of a quarter and of
#: twice the size give the same counts within a few percent.
PIECE_BYTES = 2 << 20
#: The task of what is touched before the first round: the runtime's import.
BEFORE = -1


@dataclass(frozen=True)
class References:
    """A string of ``n`` references to ``k`` pieces.

    Attributes:
        piece: for each reference, which piece it touches.
        task: for each reference, the task that makes it; :data:`BEFORE` for the runtime's.
        write: for each reference, whether it dirties what it touches.
        ahead: for each reference, whether it uses nothing: it reads ahead what is not in memory.
        bytes: of each piece.
        is_file: for each piece, whether it is a file's page cache (clean, read again from the
            file) and not anonymous memory (swapped).
        mapped: for each piece, whether page tables show its use: anonymous memory and mapped files,
            not files that are read by calls.
        is_busy: for each piece, whether it is in use all the time, between references too.
        scattered: for each piece, the share of its pages that lie apart: read-ahead brings none of
            these.
        freed: for each piece, the reference after which it is given back; ``n`` if never.
    """

    piece: IntArray
    task: IntArray
    write: BoolArray
    ahead: BoolArray
    bytes: FloatArray
    is_file: BoolArray
    mapped: BoolArray
    is_busy: BoolArray
    scattered: FloatArray
    freed: IntArray

    def __len__(self) -> int:
        return len(self.piece)

    @property
    def touched(self) -> FloatArray:
        """Bytes that each reference touches."""
        return self.bytes[self.piece]

    @cached_property
    def alive(self) -> FloatArray:
        """Anonymous bytes that are in use at each reference, in RAM or in swap."""
        return self._held(~self.is_file)

    @cached_property
    def held_bytes(self) -> float:
        """The most bytes held at once where nothing is ever reclaimed, files' among them."""
        return float(self._held(np.ones(len(self.bytes), dtype=bool)).max(initial=0.0))

    def steps(self) -> list[ReferenceStep]:
        """Each reference: piece, task, whether it writes or only reads ahead, what is freed."""
        freed: dict[int, list[int]] = {}
        for piece, at in enumerate(self.freed.tolist()):
            freed.setdefault(at, []).append(piece)
        columns = (self.piece, self.task, self.write, self.ahead)
        touched = [column.tolist() for column in columns]
        gone = (freed.get(at, ()) for at in range(len(self)))
        return list(zip(*touched, gone, strict=True))

    def _held(self, counted: BoolArray) -> FloatArray:
        change = np.zeros(len(self) + 1)
        first = np.full(len(self.bytes), len(self), dtype=np.int64)
        np.minimum.at(first, self.piece, np.arange(len(self)))
        used = (first < len(self)) & counted
        np.add.at(change, first[used], self.bytes[used])
        gone = used & (self.freed < len(self))
        np.add.at(change, self.freed[gone] + 1, -self.bytes[gone])
        return np.asarray(np.cumsum(change)[:-1])


@dataclass
class ReferenceRecorder:
    """A string while it is being written; no piece is larger than ``piece_bytes``."""

    piece_bytes: int = PIECE_BYTES
    piece: list[int] = field(default_factory=list)
    task: list[int] = field(default_factory=list)
    write: list[bool] = field(default_factory=list)
    ahead: list[bool] = field(default_factory=list)
    bytes: list[int] = field(default_factory=list)
    is_file: list[bool] = field(default_factory=list)
    mapped: list[bool] = field(default_factory=list)
    is_busy: list[bool] = field(default_factory=list)
    scattered: list[float] = field(default_factory=list)
    freed: dict[int, int] = field(default_factory=dict)

    def new(
        self,
        size: int,
        *,
        is_file: bool = False,
        mapped: bool = True,
        is_busy: bool = False,
        scattered: float = 0.0,
    ) -> list[int]:
        """A tensor (or a file) as pieces; none if it is empty."""
        count = -(-size // self.piece_bytes)
        first = len(self.bytes)
        self.bytes += [size // count + (n < size % count) for n in range(count)]
        self.is_file += [is_file] * count
        self.mapped += [mapped] * count
        self.is_busy += [is_busy] * count
        self.scattered += [scattered] * count
        return list(range(first, first + count))

    def touch(
        self, pieces: Iterable[int], task: int, *, write: bool = False, ahead: bool = False
    ) -> None:
        """Touch pieces in order."""
        for piece in pieces:
            self.piece.append(piece)
            self.task.append(task)
            self.write.append(write)
            self.ahead.append(ahead)

    def free(self, pieces: Iterable[int]) -> None:
        """Give pieces back after the last reference so far."""
        for piece in pieces:
            self.freed.setdefault(piece, len(self.piece) - 1)

    def done(self) -> References:
        """The string."""
        freed = np.full(len(self.bytes), len(self.piece), dtype=np.int64)
        for piece, at in self.freed.items():
            freed[piece] = at
        return References(
            piece=np.array(self.piece, dtype=np.int64),
            task=np.array(self.task, dtype=np.int64),
            write=np.array(self.write, dtype=bool),
            ahead=np.array(self.ahead, dtype=bool),
            bytes=np.array(self.bytes, dtype=np.float64),
            is_file=np.array(self.is_file, dtype=bool),
            mapped=np.array(self.mapped, dtype=bool),
            is_busy=np.array(self.is_busy, dtype=bool),
            scattered=np.array(self.scattered, dtype=np.float64),
            freed=freed,
        )
