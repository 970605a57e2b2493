"""Dask tasks that are not answered yet, and what is done with each answer."""

from __future__ import annotations

import queue
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from distributed import Future

#: How long answers may take on their way: one; and several that are fetched together.
_FETCH_S = 120.0
_TOGETHER_S = 30.0
#: So many answers are fetched together at most, since they are in memory together.
_TOGETHER = 32
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
        """Wait so long for a task to end, and handle the answers of those that ended."""
        ended = self._next_ended(timeout_s)
        answers = _fetched([task.future for task in ended])
        for task in ended:
            # What another answer led to may have taken it back.
            if self._tasks.get(task.name) is task:
                del self._tasks[task.name]
                _handle(task, answers)

    def _next_ended(self, timeout_s: float) -> list[_Task]:
        """Tasks that ended and were not taken back: one, and what is there besides."""
        found: list[_Task] = []
        with suppress(queue.Empty):
            found.append(self._ended.get(timeout=timeout_s))
            while len(found) < _TOGETHER:
                found.append(self._ended.get_nowait())
        return [task for task in found if self._tasks.get(task.name) is task]

    def take_back(self, sweep: str, names: Callable[[str], bool] | None = None) -> list[str]:
        """Cancel the tasks of a sweep, or those with such names; the names of those that were."""
        found = [one for one in self._tasks if one[0] == sweep and (not names or names(one[1]))]
        for one in found:
            self._tasks.pop(one).future.cancel()
        return [own for _, own in found]


def _fetched(futures: Sequence[Future]) -> dict[str, Any]:
    """Key → answer, fetched in one message; nothing if that fails: then each is fetched alone."""
    done = [future for future in futures if future.status == "finished"]
    if len(done) < 2:
        return {}
    client = done[0].client
    fetch = partial(client.gather, done, asynchronous=True)
    try:
        answers = client.sync(fetch, callback_timeout=_TOGETHER_S)
    except Exception:
        # One of them was lost on its way; alone each shows which.
        return {}
    return dict(zip((future.key for future in done), answers, strict=True))


def _handle(task: _Task, answers: dict[str, Any]) -> None:
    key = task.future.key
    try:
        answer = answers[key] if key in answers else task.future.result(timeout=_FETCH_S)
    except Exception as error:
        task.lost(f"{type(error).__name__}: {error}", task.future.status == "error")
    else:
        task.handle(answer)
