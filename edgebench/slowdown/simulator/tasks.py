"""A round as tasks: each layer's load and execution, in the order in which they begin.

What ``edgebench.layers.schedules`` does with threads is done here with a clock: a lane is a
thread, and a task begins when its lane is free and what it waits for has ended. The order is that
of a trial with enough memory; a limit stretches tasks but leaves their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from edgebench.slowdown.simulator.references import FloatArray
from edgebench.slowdown.simulator.workload import Layer, Workload, file_bytes


@dataclass(frozen=True)
class Task:
    """One layer's ``load``, ``first`` or (warm) ``execute``.

    ``network`` is its place in the pipeline, ``number`` the pass's among the warm ones. ``after``
    are the places in the round of the tasks that it waits for; they all come before it.
    """

    phase: str
    network: int
    layer: Layer
    number: int = 0
    after: tuple[int, ...] = ()


#: Seconds of a task that nothing limits.
Seconds = Callable[[Task], float]


def tasks_of(workload: Workload, seconds: Seconds) -> tuple[Task, ...]:
    """One round's tasks in the order in which they begin.

    Raises:
        KeyError: no such schedule.
    """
    lanes = _Lanes(seconds)
    _SCHEDULES[workload.schedule](workload, lanes)
    return lanes.in_order()


def path_s(tasks: tuple[Task, ...], seconds: FloatArray) -> FloatArray:
    """When a round ends, each task beginning when those it waits for have ended.

    ``seconds`` has a row a task; its columns are rounds of their own.
    """
    ends = np.zeros_like(seconds)
    for place, task in enumerate(tasks):
        begin = ends[list(task.after)].max(axis=0) if task.after else 0.0
        ends[place] = begin + seconds[place]
    return np.asarray(ends.max(axis=0))


class _Lanes:
    """Tasks put one by one on lanes, each as early as it can begin."""

    def __init__(self, seconds: Seconds) -> None:
        self._seconds = seconds
        self._tasks: list[Task] = []
        self._starts: list[float] = []
        self._ends: list[float] = []
        self._last: dict[int, int] = {}

    def add(self, lane: int, task: Task, *after: int) -> int:
        """Put a task behind the last of its lane; its number."""
        waits = sorted({*after, *([self._last[lane]] if lane in self._last else [])})
        start = max((self._ends[number] for number in waits), default=0.0)
        number = len(self._tasks)
        self._tasks.append(Task(task.phase, task.network, task.layer, task.number, tuple(waits)))
        self._starts.append(start)
        self._ends.append(start + self._seconds(task))
        self._last[lane] = number
        return number

    def free_at(self, lane: int) -> float:
        """When a lane's last task ends."""
        return self._ends[self._last[lane]] if lane in self._last else 0.0

    def end_of(self, number: int) -> float:
        """When a task ends."""
        return self._ends[number]

    def in_order(self) -> tuple[Task, ...]:
        """All tasks by their start, waiting for one another by their new places."""
        order = sorted(range(len(self._tasks)), key=lambda n: (self._starts[n], n))
        place = {number: at for at, number in enumerate(order)}
        return tuple(
            Task(t.phase, t.network, t.layer, t.number, tuple(sorted(place[n] for n in t.after)))
            for t in (self._tasks[number] for number in order)
        )


def _calls(workload: Workload) -> Iterator[tuple[int, Layer]]:
    for network, layers in enumerate(workload.tables):
        for layer in layers:
            yield network, layer


def _linear(workload: Workload, lanes: _Lanes) -> None:
    for network, layer in _calls(workload):
        if layer.file_bytes:
            lanes.add(0, Task("load", network, layer))
        lanes.add(0, Task("first", network, layer))


def _bulk(workload: Workload, lanes: _Lanes) -> None:
    for network, layers in enumerate(workload.tables):
        wanted = file_bytes(layers)
        for layer in layers:
            if wanted.pop(layer.part, 0):
                lanes.add(0, Task("load", network, layer))
        for number in range(workload.passes):
            phase = "execute" if number else "first"
            for layer in layers:
                lanes.add(0, Task(phase, network, layer, max(0, number - 1)))


def _partial(workload: Workload, lanes: _Lanes) -> None:
    loaders = range(1, workload.workers)
    if not loaders:
        _linear(workload, lanes)
        return
    loads = {
        (network, layer.order): lanes.add(
            min(loaders, key=lanes.free_at), Task("load", network, layer)
        )
        for network, layer in _calls(workload)
        if layer.file_bytes
    }
    for network, layer in _calls(workload):
        load = loads.get((network, layer.order))
        lanes.add(0, Task("first", network, layer), *([] if load is None else [load]))


def _admission(workload: Workload, lanes: _Lanes) -> None:
    # With enough memory every network is admitted as soon as a worker is free.
    for network, layers in enumerate(workload.tables):
        lane = min(range(workload.workers), key=lanes.free_at)
        for layer in layers:
            if layer.file_bytes:
                lanes.add(lane, Task("load", network, layer))
            lanes.add(lane, Task("first", network, layer))


def _convolutions(workload: Workload, lanes: _Lanes) -> dict[int, int]:
    """The first lane of ``deepeye``; network → its last task there."""
    convolved = {}
    for network, layers in enumerate(workload.tables):
        for layer in layers[: _split(layers)]:
            if layer.file_bytes:
                lanes.add(0, Task("load", network, layer))
            convolved[network] = lanes.add(0, Task("first", network, layer))
    return convolved


def _deepeye_frugal(workload: Workload, lanes: _Lanes) -> None:
    convolved = _convolutions(workload, lanes)
    for network, layers in enumerate(workload.tables):
        for layer in layers[_split(layers) :]:
            if layer.file_bytes:
                lanes.add(1, Task("load", network, layer))
        _connected(workload, network, convolved, lanes)


def _deepeye(workload: Workload, lanes: _Lanes) -> None:
    convolved = _convolutions(workload, lanes)
    ready: list[int] = []
    for network, layers in enumerate(workload.tables):
        for layer in layers[_split(layers) :]:
            # What can be executed goes before what can be loaded.
            while ready and (
                ready[0] not in convolved or lanes.end_of(convolved[ready[0]]) <= lanes.free_at(1)
            ):
                _connected(workload, ready.pop(0), convolved, lanes)
            if layer.file_bytes:
                lanes.add(1, Task("load", network, layer))
        ready.append(network)
    for network in ready:
        _connected(workload, network, convolved, lanes)


def _connected(workload: Workload, network: int, convolved: dict[int, int], lanes: _Lanes) -> None:
    layers = workload.tables[network]
    for layer in layers[_split(layers) :]:
        after = [convolved[network]] if network in convolved else []
        lanes.add(1, Task("first", network, layer), *after)


def _split(layers: tuple[Layer, ...]) -> int:
    """Order of the first fully connected layer; how many layers, if none."""
    return next((n for n, layer in enumerate(layers) if layer.connected), len(layers))


_SCHEDULES: dict[str, Callable[[Workload, _Lanes], None]] = {
    "linear": _linear,
    "bulk": _bulk,
    "partial": _partial,
    "deepeye": _deepeye,
    "deepeye-frugal": _deepeye_frugal,
    "admission": _admission,
}
