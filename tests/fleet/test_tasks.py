"""Answers that are there at once: each is taken once; an error is one task's alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest

from edgebench.fleet.connection import OpenTasks

pytestmark = pytest.mark.process

if TYPE_CHECKING:
    from distributed import Client

distributed = pytest.importorskip("distributed")


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    """Of a scheduler and a worker in this process."""
    options = {"processes": False, "n_workers": 1, "dashboard_address": ":0"}
    with distributed.Client(**options, local_directory=tmp_path, set_as_default=False) as made:
        yield made


class Watched:
    """Tasks that have ended, their answers not taken yet."""

    def __init__(self, client: Client, *functions: Callable[[], Any]) -> None:
        self.tasks, self.answers, self.lost = OpenTasks(), [], []
        self._futures = [client.submit(one, pure=False) for one in functions]
        for future in self._futures:
            # Waits until it has ended.
            future.exception()
        for number, future in enumerate(self._futures):
            self.tasks.watch(("sweep", str(number)), future, self.take, self.lose)
        told = Event()
        # Behind the tasks' own, since they are called in turn.
        self._futures[-1].add_done_callback(lambda _: told.set())
        assert told.wait(240)

    def take(self, answer: Any) -> None:
        """An answer."""
        self.answers.append(answer)

    def lose(self, reason: str, final: bool) -> None:
        """None."""
        self.lost.append((reason, final))


def one() -> int:
    """A task."""
    return 1


def test_answers_that_are_there_are_taken_at_once(client: Client):
    """Each once, as by fetching them one by one; an error among them is its own task's alone."""

    def fails() -> None:
        raise ValueError("no")

    watched = Watched(client, one, fails, lambda: 2, one)
    watched.tasks.take(0)
    assert watched.answers == [1, 2, 1]
    assert watched.lost == [("ValueError: no", True)]
    watched.tasks.take(0)
    assert watched.answers == [1, 2, 1]


def test_what_an_answer_leads_to_may_take_the_others_back(client: Client):
    """Answers of a sweep that has ended meanwhile are not handled."""

    class Ending(Watched):
        def take(self, answer: Any) -> None:
            super().take(answer)
            self.tasks.take_back("sweep")

    watched = Ending(client, one, one, one)
    watched.tasks.take(0)
    assert watched.answers == [1]
    assert watched.lost == []
