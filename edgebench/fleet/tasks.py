"""Dask tasks that are not answered yet, and what is done with each answer."""

from __future__ import annotations

import queue
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from distributed import Future

_FETCH_S = 120.0
#: A sweep's key, and the name of a task of it.
TaskName = tuple[str, str]


@dataclass(frozen=True)
class _Task:
    """``lost`` gets why there is no answer, and whether the same again would have none either."""

    name: TaskName
    future: Future
    handle: Callable[[Any], None]
    lost: Callable[[str, bool], None]


class OpenTasks:
    """The tasks of a run. All answers are taken in one thread, one after another."""

    def __init__(self) -> None:
        self._tasks: dict[TaskName, _Task] = {}
        self._ended: queue.Queue[_Task] = queue.Queue()

    def watch(
        self,
        name: TaskName,
        future: Future,
        handle: Callable[[Any], None],
        lost: Callable[[str, bool], None],
    ) -> None:
        """Take the answer of a task, once it has one."""
        task = self._tasks[name] = _Task(name, future, handle, lost)
        future.add_done_callback(lambda _: self._ended.put(task))

    def take(self, timeout_s: float) -> None:
        """Wait so long for a task to end, and handle its answer."""
        with suppress(queue.Empty):
            task = self._ended.get(timeout=timeout_s)
            if self._tasks.get(task.name) is not task:
                # It was taken back.
                return
            del self._tasks[task.name]
            try:
                answer = task.future.result(timeout=_FETCH_S)
            except Exception as error:
                task.lost(f"{type(error).__name__}: {error}", task.future.status == "error")
            else:
                task.handle(answer)

    def take_back(self, sweep: str, names: Callable[[str], bool] | None = None) -> list[str]:
        """Cancel the tasks of a sweep, or those with such names; the names of those that were."""
        found = [one for one in self._tasks if one[0] == sweep and (not names or names(one[1]))]
        for one in found:
            self._tasks.pop(one).future.cancel()
        return [own for _, own in found]
