"""CPU time by core as the worker reads it, and by phase from its events."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from edgebench.errors import ResultsError
from edgebench.measures.strategies import TrialData
from edgebench.measures.strategies import engines as cores
from edgebench.measures.strategies.engines import CORE_NS, Cores, CoresView
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
        del self._used[thread]

    def _clock(self, clock: int) -> int:
        thread = ~(clock >> 3)
        if thread not in self._used:
            raise OSError("no such thread")
        return self._used[thread]


@pytest.fixture
def threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Threads:
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
    view = CoresView(Path(), NO_DESCRIPTORS)
    threads[1] = (10, 0)
    by_core(view)
    threads[1] = (30, 1)
    assert by_core(view) == {0: 20, 1: 10}
    threads[1] = (40, 1)
    assert by_core(view) == {0: 20, 1: 20}


def test_a_thread_that_ended_does_no_harm(threads: Threads) -> None:
    view = CoresView(Path(), NO_DESCRIPTORS)
    threads[1], threads[2] = (10, 0), (90, 0)
    by_core(view)
    threads.end(2)
    assert by_core(view) == {0: 100}
    threads[2] = (3, 1)
    # Half of it is put where the number was last seen.
    assert by_core(view) == {0: 101.5, 1: 1.5}


def test_the_kernel_tells_a_real_thread_s_time_and_core() -> None:
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


def span(
    number: int,
    phase: str,
    round_: int,
    ms: tuple[int, int],
    layer: int | None = None,
    **cores: Any,
) -> list[Any]:
    """A span's two events; each of ``cores`` is its milliseconds so far, before and after."""
    before = {f"core_ns_{name[1:]}": at[0] * 10**6 for name, at in cores.items()}
    after = {f"core_ns_{name[1:]}": at[1] * 10**6 for name, at in cores.items()}
    before["looked_ns"], after["looked_ns"] = ((at + 1000) * 10**6 for at in ms)
    told = {"id": number, "layer": layer}
    start = {**told, "event": "start", "phase": phase, "round": round_, "view": before}
    end = {**told, "event": "end", "cpu_ns": 7 * 10**6, "view": after}
    return [{**start, "t_ns": ms[0] * 10**6}, {**end, "t_ns": ms[1] * 10**6}]


def test_each_phase_has_its_time_on_each_core() -> None:
    events = [
        *span(1, "forward", 0, (0, 90), c0=(0, 90)),
        *span(2, "forward", 1, (100, 110), c0=(90, 98), c1=(0, 4)),
        *span(3, "forward", 2, (120, 130), c0=(98, 104), c1=(4, 10)),
        *span(4, "backward", 2, (130, 150), c0=(104, 106), c1=(10, 29)),
    ]
    parts = Cores().read(TrialData(events)).parts
    assert parts == {
        "forward|wall_ns": 20 * 10**6,
        "forward|looked_ns": 20 * 10**6,
        "forward|cpu_ns": 14 * 10**6,
        "forward|core_ns_0": 14 * 10**6,
        "forward|core_ns_1": 10 * 10**6,
        "backward|wall_ns": 20 * 10**6,
        "backward|looked_ns": 20 * 10**6,
        "backward|cpu_ns": 7 * 10**6,
        "backward|core_ns_0": 2 * 10**6,
        "backward|core_ns_1": 19 * 10**6,
    }


def test_a_single_round_counts() -> None:
    """Or there would be nothing."""
    events = span(1, "forward", 0, (0, 10), c0=(0, 9))
    assert Cores().read(TrialData(events)).parts["forward|core_ns_0"] == 9 * 10**6


def test_layers_count_where_there_are_any() -> None:
    """The whole phase around them would count twice."""
    events = [
        *span(1, "load", 0, (0, 5), layer=0, c0=(0, 4)),
        *span(2, "load", 0, (5, 9), layer=1, c0=(4, 5)),
        *span(3, "load", 0, (0, 10), c0=(0, 5)),
    ]
    parts = Cores().read(TrialData(events)).parts
    assert (parts["load|wall_ns"], parts["load|core_ns_0"]) == (9 * 10**6, 5 * 10**6)


def test_nothing_seen_is_said() -> None:
    with pytest.raises(ResultsError, match="no round was seen whole"):
        Cores().read(TrialData([]))
