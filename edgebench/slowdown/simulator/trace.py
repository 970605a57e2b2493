"""The references of a workload: what its import, loads and executions touch, in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from edgebench.slowdown.simulator.activations import Activations
from edgebench.slowdown.simulator.heap_pages import HeapPages
from edgebench.slowdown.simulator.references import BEFORE, ReferenceRecorder, References
from edgebench.slowdown.simulator.tasks import Task
from edgebench.slowdown.simulator.workload import Layer, Workload

#: The import as equal steps, each of which makes memory and uses a part of what those before made:
#: the core, a share of what rounds don't need. Chosen on the faults of imports below their base.
_STEPS, _CORE_SHARE = 12, 0.55
#: Pages apart that rounds use once, when all is loaded and when all was executed once. Chosen on
#: the faults of first rounds.
_AFTER_LOADS, _AFTER_FIRST = 1_470_000, 1_260_000
#: Of the networks' own memory, and of weights that are read in panels, the share that read-ahead
#: does not bring: a fault brings two pages of these. Chosen on counted faults
#: (docs/decisions.md).
APART = 0.3


@dataclass(frozen=True)
class RuntimeBase:
    """The runtime's footprint; ``hot_bytes`` of it are used by rounds, the rest by the import.

    ``own_bytes`` more are the networks' own: compiled kernels, and what the allocator keeps. Every
    execution uses them.
    """

    bytes: float
    hot_bytes: float
    own_bytes: float = 0.0


@dataclass(frozen=True)
class RuntimePages:
    """Pieces of the runtime that rounds use: seldom, and the networks' own in every execution.

    Seldom is at the end of loading and of first executions. Each network has its own.
    """

    after_loads: list[int]
    after_first: list[int]
    own: list[list[int]]


def write_import(
    script: ReferenceRecorder, base: RuntimeBase, layers: Sequence[int] = (1,)
) -> RuntimePages:
    """The import; what of the hot part is not used seldom is in use from then on.

    ``layers`` are the networks' numbers of layers, by which they share what is their own.
    """
    shares = [base.own_bytes * count / max(1, sum(layers)) for count in layers]
    part = min(1.0, base.hot_bytes / (_AFTER_LOADS + _AFTER_FIRST))
    seldom = RuntimePages(
        script.new(int(part * _AFTER_LOADS), scattered=1.0),
        script.new(int(part * _AFTER_FIRST), scattered=1.0),
        [script.new(int(share), scattered=APART) for share in shares],
    )
    idle = (base.bytes - base.hot_bytes) / _STEPS
    core: list[int] = []
    for step in range(_STEPS):
        if step == _STEPS // 2:
            script.touch(seldom.after_loads, BEFORE, write=True)
            script.touch(seldom.after_first, BEFORE, write=True)
        script.touch(script.new(int(idle * (1 - _CORE_SHARE))), BEFORE, write=True)
        own = script.new(int(idle * _CORE_SHARE))
        script.touch(own, BEFORE, write=True)
        script.touch(core, BEFORE)
        core += own
    used = base.hot_bytes - part * (_AFTER_LOADS + _AFTER_FIRST)
    script.touch(script.new(int(used), is_busy=True), BEFORE, write=True)
    return seldom


def references_of(
    workload: Workload,
    round_tasks: tuple[Task, ...],
    rounds: int,
    base: RuntimeBase,
    ahead_bytes: float = 0.0,
) -> References:
    """The string of ``rounds`` rounds of these tasks, after the runtime's import.

    Task ``n`` of round ``r`` is number ``r · len(round_tasks) + n``. ``ahead_bytes`` are read at
    once: of a mapped file when it is opened, of one that is copied before they are needed.
    """
    script = ReferenceRecorder()
    runtime = write_import(script, base, [len(layers) for layers in workload.tables])
    trace = _InferenceTrace(script, workload, runtime, ahead_bytes)
    for number in range(rounds):
        trace.write(round_tasks, number * len(round_tasks))
    return script.done()


class _InferenceTrace:
    """Writes one round after another: weights as the loader brings them, and activations.

    The weights files' pages outlive a round unless they are evicted.
    """

    def __init__(
        self,
        script: ReferenceRecorder,
        workload: Workload,
        runtime: RuntimePages,
        ahead_bytes: float,
    ) -> None:
        self._script, self._workload, self._runtime = script, workload, runtime
        self._files: dict[tuple[int, str], list[int]] = {}
        self._ahead_bytes = ahead_bytes
        self._heap = HeapPages(script, workload.malloc)
        inputs = script.new(workload.input_bytes * len(workload.networks))
        script.touch(inputs, BEFORE, write=True)

    def write(self, tasks: tuple[Task, ...], first: int) -> None:
        self._weights: dict[tuple[int, str], list[int]] = {}
        self._activations = {
            place: Activations(self._heap, _input_bytes(layers))
            for place, layers in enumerate(self._workload.tables)
        }
        self._begun: set[tuple[str, int, int]] = set()
        last = _last_uses(self._workload, tasks)
        # The last load and first execution of the round.
        ends = {task.phase: place for place, task in enumerate(tasks)}
        for place, task in enumerate(tasks):
            (self._load if task.phase == "load" else self._execute)(task, first + place)
            if place == ends.get("load"):
                self._script.touch(self._runtime.after_loads, first + place)
            if place == ends.get("first"):
                self._script.touch(self._runtime.after_first, first + place)
            for key in last.get(place, ()):
                self._script.free(self._weights.pop(key, ()))
        for activations in self._activations.values():
            activations.free()
        if self._workload.cold:
            for pieces in self._files.values():
                self._script.free(pieces)
            self._files.clear()

    def _file(self, network: int, layer: Layer) -> list[int]:
        key = network, layer.part
        if key not in self._files:
            mapped = self._workload.loader == "mmap"
            self._files[key] = self._script.new(layer.file_bytes, is_file=True, mapped=mapped)
        return self._files[key]

    def _load(self, task: Task, number: int) -> None:
        if self._workload.loader == "mmap":
            self._script.touch(self._read_ahead(task), number)
            return
        key = task.network, task.layer.part
        if key in self._weights:
            return
        read = self._file(task.network, task.layer)
        apart = APART if task.layer.in_panels else 0.0
        own = self._weights[key] = self._script.new(task.layer.file_bytes, scattered=apart)
        window = int(self._ahead_bytes // self._script.piece_bytes)
        for place, (file_piece, piece) in enumerate(zip(read, own, strict=True)):
            if window and place % window == 0:
                # Whoever reads the first page of a window has the next one read, too.
                self._script.touch(read[place : place + 2 * window], number, ahead=True)
            self._script.touch([file_piece], number)
            self._script.touch([piece], number, write=True)

    def _read_ahead(self, task: Task) -> list[int]:
        """What of a mapped file is read with its first page, as far as these are whole pieces."""
        pieces = self._file(task.network, task.layer)
        ends = accumulate(self._script.bytes[piece] for piece in pieces)
        return [p for p, end in zip(pieces, ends, strict=True) if end <= self._ahead_bytes]

    def _execute(self, task: Task, number: int) -> None:
        layer, network = task.layer, task.network
        execution = task.phase, task.number, network
        if execution not in self._begun:
            self._begun.add(execution)
            self._script.touch(self._runtime.own[network], number, write=True)
        activations = self._activations[network]
        activations.begin(layer, number)
        self._script.touch(self._used(task), number)
        activations.end(layer, number)

    def _used(self, task: Task) -> list[int]:
        if not task.layer.file_bytes:
            return []
        if self._workload.loader == "mmap":
            return self._file(task.network, task.layer)
        return self._weights.get((task.network, task.layer.part), [])


def _input_bytes(layers: Sequence[Layer]) -> int:
    """Of a network, as its table tells them; 0 where it doesn't."""
    return next((layer.live.before_bytes for layer in layers if layer.live), 0)


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
