"""The ordered string of memory references that a workload makes, before any limit is known.

A reference touches one piece of a tensor from its first page to its last. Pieces are at most
:data:`PIECE_BYTES`, so that a layer larger than memory can be half in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from edgebench.slowdown.tables import Layer, Workload
from edgebench.slowdown.tasks import Task

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

#: A piece: small against any limit, large enough to keep strings short.
PIECE_BYTES = 4 << 20
#: The task of what is touched before the first round: the runtime's import.
BEFORE = -1


@dataclass(frozen=True)
class References:
    """A string of ``n`` references to ``k`` pieces.

    Attributes:
        piece: for each reference, which piece it touches.
        task: for each reference, the task that makes it; :data:`BEFORE` for the runtime's.
        write: for each reference, whether it dirties what it touches.
        bytes: of each piece.
        is_file: for each piece, whether it is a file's page cache (clean, read again from the
            file) and not anonymous memory (swapped).
        scattered: for each piece, whether its pages lie apart: read-ahead brings none of them.
        freed: for each piece, the reference after which it is given back; ``n`` if never.
    """

    piece: IntArray
    task: IntArray
    write: BoolArray
    bytes: FloatArray
    is_file: BoolArray
    scattered: BoolArray
    freed: IntArray

    def __len__(self) -> int:
        return len(self.piece)

    @property
    def touched(self) -> FloatArray:
        """Bytes that each reference touches."""
        return self.bytes[self.piece]

    @property
    def alive(self) -> FloatArray:
        """Anonymous bytes that are in use at each reference, in RAM or in swap."""
        change = np.zeros(len(self) + 1)
        first = np.full(len(self.bytes), len(self), dtype=np.int64)
        np.minimum.at(first, self.piece, np.arange(len(self)))
        used = (first < len(self)) & ~self.is_file
        np.add.at(change, first[used], self.bytes[used])
        gone = used & (self.freed < len(self))
        np.add.at(change, self.freed[gone] + 1, -self.bytes[gone])
        return np.asarray(np.cumsum(change)[:-1])


@dataclass
class Script:
    """A string while it is being written."""

    piece: list[int] = field(default_factory=list)
    task: list[int] = field(default_factory=list)
    write: list[bool] = field(default_factory=list)
    bytes: list[int] = field(default_factory=list)
    is_file: list[bool] = field(default_factory=list)
    scattered: list[bool] = field(default_factory=list)
    freed: dict[int, int] = field(default_factory=dict)

    def new(self, size: int, *, is_file: bool = False) -> list[int]:
        """A tensor (or a file) as pieces; none if it is empty."""
        count = -(-size // PIECE_BYTES)
        first = len(self.bytes)
        self.bytes += [size // count + (n < size % count) for n in range(count)]
        self.is_file += [is_file] * count
        self.scattered += [False] * count
        return list(range(first, first + count))

    def scatter(self, size: int) -> list[int]:
        """Memory whose pages lie apart, always touched together: one piece; none if empty."""
        if not size:
            return []
        self.bytes.append(size)
        self.is_file.append(False)
        self.scattered.append(True)
        return [len(self.bytes) - 1]

    def touch(self, pieces: Iterable[int], task: int, *, write: bool = False) -> None:
        """Touch pieces in order."""
        for piece in pieces:
            self.piece.append(piece)
            self.task.append(task)
            self.write.append(write)

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
            bytes=np.array(self.bytes, dtype=np.float64),
            is_file=np.array(self.is_file, dtype=bool),
            scattered=np.array(self.scattered, dtype=bool),
            freed=freed,
        )


@dataclass(frozen=True)
class Base:
    """The runtime's footprint; ``hot_bytes`` execute layers, the rest only its import touches."""

    bytes: float
    hot_bytes: float


def references_of(
    workload: Workload, round_tasks: tuple[Task, ...], rounds: int, base: Base
) -> References:
    """The string of ``rounds`` rounds of these tasks, after the runtime's import.

    Task ``n`` of round ``r`` is number ``r · len(round_tasks) + n``.
    """
    script = Script()
    script.touch(script.new(int(base.bytes - base.hot_bytes)), BEFORE, write=True)
    # Of what layers need of the runtime, next to nothing has gone when the first one begins.
    hot = script.scatter(int(base.hot_bytes))
    script.touch(hot, BEFORE, write=True)
    script.touch(script.new(workload.input_bytes * len(workload.networks)), BEFORE, write=True)
    files = _Files(script, workload)
    for number in range(rounds):
        _Round(script, workload, files, hot).write(round_tasks, number * len(round_tasks))
        if workload.cold:
            files.evict()
    return script.done()


class _Files:
    """The weights files' pages: they outlive a round unless they are evicted."""

    def __init__(self, script: Script, workload: Workload) -> None:
        self._script, self._workload = script, workload
        self._pieces: dict[tuple[int, str], list[int]] = {}

    def pieces(self, network: int, layer: Layer) -> list[int]:
        key = network, layer.part
        if key not in self._pieces:
            self._pieces[key] = self._script.new(layer.file_bytes, is_file=True)
        return self._pieces[key]

    def evict(self) -> None:
        for pieces in self._pieces.values():
            self._script.free(pieces)
        self._pieces.clear()


class _Round:
    """One round's references: weights as the loader brings them, and activations."""

    def __init__(self, script: Script, workload: Workload, files: _Files, hot: list[int]) -> None:
        self._script, self._workload, self._files, self._hot = script, workload, files, hot
        self._weights: dict[tuple[int, str], list[int]] = {}
        self._activation: dict[int, list[int]] = {}

    def write(self, tasks: tuple[Task, ...], first: int) -> None:
        last = _last_uses(self._workload, tasks)
        for place, task in enumerate(tasks):
            (self._load if task.phase == "load" else self._execute)(task, first + place)
            for key in last.get(place, ()):
                self._script.free(self._weights.pop(key, ()))
        for pieces in self._activation.values():
            self._script.free(pieces)

    def _load(self, task: Task, number: int) -> None:
        if self._workload.loader == "mmap":
            return
        key = task.network, task.layer.part
        if key in self._weights:
            return
        read = self._files.pieces(task.network, task.layer)
        own = self._weights[key] = self._script.new(task.layer.file_bytes)
        for file_piece, piece in zip(read, own, strict=True):
            self._script.touch([file_piece], number)
            self._script.touch([piece], number, write=True)

    def _execute(self, task: Task, number: int) -> None:
        layer, network = task.layer, task.network
        before = self._activation.get(network, [])
        if layer.file_bytes:
            # Layers without weights come between others so soon that they change nothing.
            self._script.touch(self._hot, number)
        self._script.touch(before, number)
        self._script.touch(self._used(task), number)
        if layer.output_bytes:
            self._activation[network] = self._script.new(layer.output_bytes)
            self._script.touch(self._activation[network], number, write=True)
            self._script.free(before)

    def _used(self, task: Task) -> list[int]:
        if not task.layer.file_bytes:
            return []
        if self._workload.loader == "mmap":
            return self._files.pieces(task.network, task.layer)
        return self._weights.get((task.network, task.layer.part), [])


def _last_uses(workload: Workload, tasks: tuple[Task, ...]) -> dict[int, list[tuple[int, str]]]:
    """Place of a task → the weights (network, part) that are given back after it."""
    place: dict[tuple[int, int], int] = {}
    for at, task in enumerate(tasks):
        if task.phase != "load":
            place[task.network, task.layer.order] = at
    last: dict[tuple[int, str], int] = {}
    for network, layers in enumerate(workload.tables):
        end = layers[-1].order if workload.schedule == "bulk" else None
        for layer in layers:
            if layer.file_bytes:
                at = place[network, layer.until if end is None else end]
                last[network, layer.part] = max(at, last.get((network, layer.part), -1))
    by_place: dict[int, list[tuple[int, str]]] = {}
    for key, at in last.items():
        by_place.setdefault(at, []).append(key)
    return by_place
