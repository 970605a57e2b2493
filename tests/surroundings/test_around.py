"""What goes on around a trial: real processes that read and fill real memory, and always end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from edgebench.errors import MachineError
from edgebench.surroundings.around import BACKGROUND, INTERVALS, around


def children() -> list[psutil.Process]:
    """The programs of this room that run below us."""
    return [p for p in psutil.Process().children() if "surroundings" in " ".join(p.cmdline())]


def test_the_systems_memory_is_read_at_each_interval():
    """Readings come on schedule, and each has the total less what psutil calls unused."""
    with around({INTERVALS: [0.05, 1.0]}, "0001") as seen:
        memory = psutil.virtual_memory()
        used = memory.total - memory.free - memory.buffers - memory.cached
        time.sleep(1.2)
    fast, slow = seen.system_memory
    assert (fast["interval_s"], slow["interval_s"]) == (0.05, 1.0)
    assert 15 <= fast["samples"] <= 26
    assert slow["samples"] == 2
    assert fast["lowest_bytes"] <= fast["mean_bytes"] <= fast["highest_bytes"]
    assert abs(fast["mean_bytes"] - used) < 1 << 30
    assert seen.notes() == {"system_memory": seen.system_memory}


def test_a_background_really_takes_memory_and_gives_it_back():
    """Its resident memory goes up and down below what it was given, and is gone in the end."""
    most = 96 << 20
    with around({BACKGROUND: most}, "0007"):
        (neighbour,) = children()
        base = min(neighbour.memory_info().rss for _ in range(3))
        seen = []
        for _ in range(40):
            seen.append(neighbour.memory_info().rss)
            time.sleep(0.1)
    assert max(seen) - min(seen) > 8 << 20
    assert max(seen) < base + most + (16 << 20)
    assert not children()


def test_nothing_is_started_where_nothing_is_asked():
    """A sweep without surroundings pays nothing for them."""
    with around({"kind": "inference", BACKGROUND: 0}, "0001") as seen:
        assert not children()
    assert seen.notes() == {}


def test_a_background_that_does_not_fit_is_refused():
    """It would push the trial, or the machine, into swap."""
    with (
        pytest.raises(MachineError, match="leaves too little") as refused,
        around({BACKGROUND: 1 << 50}, "0001"),
    ):
        pass
    assert "around.background" in str(refused.value)


def test_they_end_with_a_harness_that_is_killed():
    """SIGKILL leaves neither of them behind."""
    code = (
        "import sys, time\n"
        "from edgebench.surroundings.around import around\n"
        "with around({'background_bytes': 1 << 20, 'system_intervals_s': [1.0]}, '1'):\n"
        "    print('there', flush=True)\n"
        "    time.sleep(60)\n"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as harness:
        assert harness.stdout
        assert harness.stdout.readline() == "there\n"
        below = psutil.Process(harness.pid).children()
        os.kill(harness.pid, signal.SIGKILL)
    assert len(below) == 2
    _, alive = psutil.wait_procs(below, timeout=5)
    assert not alive
