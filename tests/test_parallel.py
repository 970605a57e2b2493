"""Work in several processes: the same as in one, whatever happens to a process."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TypeVar

import pytest

from edgebench import parallel
from edgebench.errors import ResultsError
from edgebench.parallel import begun_in_parallel

_Found = TypeVar("_Found")


@pytest.fixture(autouse=True)
def _two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    # A process with threads forks none, and an earlier test's thread may live on in this one.
    monkeypatch.setattr(threading, "active_count", lambda: 1)


def in_parallel(function: Callable[[int], _Found], items: Sequence[int]) -> list[_Found]:
    """What is found where nothing is done meanwhile."""
    with begun_in_parallel(function, items) as found:
        return found()


@pytest.mark.process
def test_results_come_in_order_from_other_processes():
    """What each item comes to, and none of it was made here."""
    found = in_parallel(lambda n: (n * n, os.getpid()), range(7))
    assert [square for square, _ in found] == [0, 1, 4, 9, 16, 25, 36]
    assert os.getpid() not in {pid for _, pid in found}


def test_beside_a_thread_nothing_is_forked(monkeypatch: pytest.MonkeyPatch):
    """A lock that another thread holds would never be opened in a forked process."""
    monkeypatch.setattr(threading, "active_count", lambda: 2)
    assert set(in_parallel(lambda _: os.getpid(), range(3))) == {os.getpid()}


@pytest.mark.process
def test_a_killed_process_is_made_up_for():
    """One is killed, as for lack of memory: its item is done here, and all are there."""
    here = os.getpid()

    def fall(n: int) -> int:
        if n == 2 and os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return n

    assert in_parallel(fall, range(4)) == [0, 1, 2, 3]


@pytest.mark.process
def test_a_fault_is_raised_here():
    """An exception of a process is the caller's."""

    def fall(n: int) -> int:
        raise ValueError(f"no {n}")

    with pytest.raises(ValueError, match="no 0"):
        in_parallel(fall, range(3))


@pytest.mark.process
def test_damage_that_another_process_saw_is_named(monkeypatch: pytest.MonkeyPatch):
    """Warnings of results read while a figure was drawn are the results' own, each once."""
    from edgebench.report.figures.gallery import draw_kinds
    from edgebench.results.results import Results

    results = Results([])
    monkeypatch.setattr(Results, "layers", None)

    def damaged(given: Results):
        given.add_warnings(["events: damaged"])
        raise ResultsError("nothing to draw")
        yield

    drawn = draw_kinds(results, {"one": damaged, "two": damaged}, lambda one: one)
    assert [one.reason for one in drawn.values()] == [
        "no one figure: nothing to draw",
        "no two figure: nothing to draw",
    ]
    assert results.warnings == ["events: damaged"]
    assert not parallel._FUNCTIONS


@pytest.mark.process
def test_the_caller_goes_on_meanwhile(tmp_path: Path):
    """What is begun waits for a file that the caller writes afterwards, and finds it."""
    file = tmp_path / "written"

    def read(n: int) -> str:
        assert wait_until(file.exists)
        return f"{file.read_text()} {n}"

    with begun_in_parallel(read, [1, 2, 3]) as found:
        (tmp_path / "new").write_text("meanwhile")
        (tmp_path / "new").rename(file)
        assert found() == ["meanwhile 1", "meanwhile 2", "meanwhile 3"]


@pytest.mark.process
def test_after_a_fault_of_the_caller_none_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What was begun has ended when the exception is seen, and nothing else is begun."""
    stopped = tmp_path / "stopped"

    class Pool(ProcessPoolExecutor):
        """Its items end only once it was told to stop."""

        def shutdown(self, *words: bool, **options: bool) -> None:
            def tell() -> None:
                assert wait_until(lambda: self._shutdown_thread)
                stopped.touch()

            threading.Thread(target=tell).start()
            super().shutdown(*words, **options)

    def write(n: int) -> None:
        (tmp_path / f"begun {n}").touch()
        assert wait_until(stopped.exists)
        (tmp_path / f"ended {n}").touch()

    monkeypatch.setattr(parallel, "ProcessPoolExecutor", Pool)
    with pytest.raises(ZeroDivisionError), begun_in_parallel(write, range(40)):
        wait_until(lambda: any(tmp_path.iterdir())) / 0
    begun, ended = (list(tmp_path.glob(f"{word} *")) for word in ("begun", "ended"))
    assert 0 < len(begun) == len(ended) < 40
    assert not multiprocessing.active_children()


@pytest.mark.process
def test_its_processes_end_with_a_killed_caller(tmp_path: Path):
    """SIGKILL, which the caller can't answer, leaves no process waiting for more to do."""
    code = (
        "import os, sys, time\n"
        "from pathlib import Path\n"
        "from edgebench.parallel import begun_in_parallel\n"
        "os.sched_getaffinity = lambda _: {0, 1}\n"
        "def note(n):\n"
        "    Path(sys.argv[1], str(os.getpid())).touch()\n"
        "    time.sleep(300)\n"
        "with begun_in_parallel(note, [1, 2]) as found:\n"
        "    found()\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)]) as caller:
        try:
            assert wait_until(lambda: len(list(tmp_path.iterdir())) == 2)
        finally:
            caller.kill()
    numbers = [file.name for file in tmp_path.iterdir()]
    assert wait_until(lambda: not any(map(is_running, numbers)))


def is_running(number: str) -> bool:
    """Whether the process exists and has not ended."""
    try:
        status = Path("/proc", number, "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def wait_until(holds: Callable[[], bool]) -> bool:
    """Whether it holds within some minutes."""
    end = time.monotonic() + 200
    while not holds() and time.monotonic() < end:
        time.sleep(0.01)
    return holds()
