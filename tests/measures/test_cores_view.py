"""CPU time by core as the worker reads it: threads held to a core are found on that core."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from edgebench.measures.strategies.cores import CORE_NS, CoresView
from edgebench.workloads.recorder import NO_DESCRIPTORS

BUSY_S = 0.15


def work(core: int) -> None:
    """Keep one core busy with this thread's own CPU time."""
    os.sched_setaffinity(threading.get_native_id(), {core})
    until = time.thread_time() + BUSY_S
    while time.thread_time() < until:
        pass


def worked(view: CoresView, *cores: int) -> dict[int, float]:
    """Seconds on each core while a thread of each of these is busy."""
    before = view.look(True)
    done = threading.Barrier(len(cores) + 1)
    looked = threading.Event()

    def run(core: int) -> None:
        work(core)
        done.wait()
        looked.wait()

    threads = [threading.Thread(target=run, args=(core,)) for core in cores]
    for thread in threads:
        thread.start()
    done.wait()
    after = view.look(True)
    looked.set()
    for thread in threads:
        thread.join()
    keys = {k: after[k] - before.get(k, 0) for k in after if k.startswith(CORE_NS)}
    return {int(key.removeprefix(CORE_NS)): ns / 1e9 for key, ns in keys.items()}


def total(look: dict[str, int]) -> float:
    """Seconds on all cores."""
    return sum(ns for key, ns in look.items() if key.startswith(CORE_NS)) / 1e9


def test_a_thread_s_time_is_its_core_s() -> None:
    """All of it, on the core that it was held to."""
    core = max(os.sched_getaffinity(0))
    found = worked(CoresView(Path(), NO_DESCRIPTORS), core)
    assert found[core] >= BUSY_S
    # The main thread waits: whatever it takes is little.
    assert sum(found.values()) < BUSY_S * 1.3


def test_two_threads_on_one_core_are_both_that_core_s() -> None:
    """Their times are added up."""
    core = min(os.sched_getaffinity(0))
    assert worked(CoresView(Path(), NO_DESCRIPTORS), core, core)[core] >= 2 * BUSY_S


def test_the_sum_is_the_process_s_own_time() -> None:
    """Nothing is lost and nothing counts twice, whichever cores threads ran on."""
    view = CoresView(Path(), NO_DESCRIPTORS)
    first, process = total(view.look(True)), time.process_time()
    until = process + BUSY_S
    while time.process_time() < until:
        pass
    told = total(view.look(True)) - first
    assert abs(told - (time.process_time() - process)) < 0.02


def test_a_thread_that_ended_does_no_harm() -> None:
    """A new thread may have its number, and a smaller clock."""
    view = CoresView(Path(), NO_DESCRIPTORS)
    for _ in range(3):
        assert all(seconds >= 0 for seconds in worked(view, min(os.sched_getaffinity(0))).values())
