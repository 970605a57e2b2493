"""A workload's rounds as a string of references: what loads, executions and steps touch."""

from __future__ import annotations

from edgebench.slowdown.references import BEFORE, Base, References, Script
from edgebench.slowdown.stepping import Steps
from edgebench.slowdown.tables import Layer, Workload
from edgebench.slowdown.tasks import Task


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
    write = _steps if workload.training else _rounds
    write(script, workload, hot, round_tasks, rounds)
    return script.done()


def _rounds(
    script: Script, workload: Workload, hot: list[int], tasks: tuple[Task, ...], rounds: int
) -> None:
    script.touch(script.new(workload.input_bytes * len(workload.networks)), BEFORE, write=True)
    files = _Files(script, workload)
    for number in range(rounds):
        _Round(script, workload, files, hot).write(tasks, number * len(tasks))
        if workload.cold:
            files.evict()


def _steps(
    script: Script, workload: Workload, hot: list[int], tasks: tuple[Task, ...], rounds: int
) -> None:
    steps = Steps(script, workload, hot)
    for number in range(rounds):
        steps.write(tasks, number * len(tasks))


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
