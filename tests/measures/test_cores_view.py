"""CPU time by core as the worker reads it."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from edgebench.measures.strategies import cores
from edgebench.measures.strategies.cores import CORE_NS, CoresView
from edgebench.workloads.recorder import NO_DESCRIPTORS

MS = 10**6
BUSY_S = 0.05


class Threads:
    """Threads as the kernel tells them: each with its CPU time and its core."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self._folder, self._used = folder, dict[int, int]()
        patch.setattr(cores, "_TASKS", folder)
        patch.setattr(time, "clock_gettime_ns", self._clock)

    def __setitem__(self, thread: int, state: tuple[int, int]) -> None:
        used_ms, core = state
        self._used[thread] = used_ms * MS
        (self._folder / str(thread)).mkdir(exist_ok=True)
        fields = ["0"] * 50
        # The processor is the 39th field, the third is the first after the name.
        fields[39 - 3] = str(core)
        (self._folder / str(thread) / "stat").write_text(f"{thread} (a ) b) {' '.join(fields)}")

    def end(self, thread: int) -> None:
        """It is listed, and has no clock any more."""
        del self._used[thread]

    def _clock(self, clock: int) -> int:
        thread = ~(clock >> 3)
        if thread not in self._used:
            raise OSError("no such thread")
        return self._used[thread]


@pytest.fixture
def threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Threads:
    """None yet."""
    return Threads(tmp_path, monkeypatch)


def by_core(view: CoresView) -> dict[int, float]:
    """Milliseconds on each core so far."""
    look = view.look(True)
    keys = {key.removeprefix(CORE_NS): ns for key, ns in look.items() if key.startswith(CORE_NS)}
    return {int(core): ns / MS for core, ns in keys.items()}


def test_times_of_threads_on_one_core_are_added_up(threads: Threads) -> None:
    """Each look adds what was used since the one before."""
    view = CoresView(Path(), NO_DESCRIPTORS)
    threads[1], threads[2], threads[3] = (10, 0), (20, 0), (5, 1)
    assert by_core(view) == {0: 30, 1: 5}
    threads[2] = (50, 0)
    assert by_core(view) == {0: 60, 1: 5}


def test_a_thread_that_moved_counts_half_for_each_core(threads: Threads) -> None:
    """Where it was between two looks isn't known."""
    view = CoresView(Path(), NO_DESCRIPTORS)
    threads[1] = (10, 0)
    by_core(view)
    threads[1] = (30, 1)
    assert by_core(view) == {0: 20, 1: 10}
    threads[1] = (40, 1)
    assert by_core(view) == {0: 20, 1: 20}


def test_a_thread_that_ended_does_no_harm(threads: Threads) -> None:
    """A new thread may have its number, and a smaller clock."""
    view = CoresView(Path(), NO_DESCRIPTORS)
    threads[1], threads[2] = (10, 0), (90, 0)
    by_core(view)
    threads.end(2)
    assert by_core(view) == {0: 100}
    threads[2] = (3, 1)
    # Half of it is put where the number was last seen.
    assert by_core(view) == {0: 101.5, 1: 1.5}


def test_the_kernel_tells_a_real_thread_s_time_and_core() -> None:
    """At least what it used by its own clock, on the core that it was held to."""
    core = max(os.sched_getaffinity(0))
    view = CoresView(Path(), NO_DESCRIPTORS)
    before = by_core(view).get(core, 0)
    done, looked = threading.Event(), threading.Event()

    def work() -> None:
        os.sched_setaffinity(threading.get_native_id(), {core})
        until = time.thread_time() + BUSY_S
        while time.thread_time() < until:
            pass
        done.set()
        looked.wait()

    thread = threading.Thread(target=work)
    thread.start()
    done.wait()
    after = by_core(view)
    looked.set()
    thread.join()
    assert after[core] - before >= BUSY_S * 1000
