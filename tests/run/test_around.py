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
from edgebench.records import BACKGROUND, INTERVALS
from edgebench.run.trial.launch import background_activity


def children() -> set[psutil.Process]:
    """Every process below us, also one that has ended and was not waited for."""
    return set(psutil.Process().children())


@pytest.mark.process
def test_the_systems_memory_is_read_at_each_interval():
    begun = time.monotonic()
    ours = []
    with background_activity({INTERVALS: [0.05, 0.25]}, "0001") as seen:
        ready = time.monotonic()
        while time.monotonic() < ready + 1.5:
            memory = psutil.virtual_memory()
            ours.append(memory.total - memory.free - memory.buffers - memory.cached)
            time.sleep(0.1)
        least_s = time.monotonic() - ready
    most_s = time.monotonic() - begun
    fast, slow = seen["system_memory"]
    assert (fast["interval_s"], slow["interval_s"]) == (0.05, 0.25)
    for reader in (fast, slow):
        # A busy machine may wake it late, and each of its readings is still made up for.
        assert least_s / 2 < reader["samples"] * reader["interval_s"] < most_s + 0.25
        assert reader["lowest_bytes"] <= reader["mean_bytes"] <= reader["highest_bytes"]
        assert reader["lowest_bytes"] < max(ours) + (64 << 20)
        assert reader["highest_bytes"] > min(ours) - (64 << 20)
    assert list(seen) == ["system_memory"]


@pytest.mark.process
def test_a_background_really_takes_memory_and_gives_it_back():
    most = 96 << 20
    before = children()
    with background_activity({BACKGROUND: most}, "0007"):
        (neighbour,) = children() - before
        seen = [neighbour.memory_info().rss]
        changes = [0]
        until = time.monotonic() + 200
        while not (min(changes) < -(8 << 20) and max(changes) > 8 << 20):
            assert time.monotonic() < until, seen
            time.sleep(0.1)
            seen.append(neighbour.memory_info().rss)
            changes += [seen[-1] - earlier for earlier in seen[:-1]]
    assert max(seen) < min(seen) + most + (16 << 20)
    assert not children() - before


def test_a_background_that_does_not_fit_is_refused():
    """It would push the trial, or the machine, into swap."""
    with (
        pytest.raises(MachineError, match="leaves too little") as refused,
        background_activity({BACKGROUND: 1 << 50}, "0001"),
    ):
        pass
    assert "around.background" in str(refused.value)


@pytest.mark.process
def test_they_end_with_a_harness_that_is_killed():
    code = (
        "import sys, time\n"
        "from edgebench.run.trial.launch import background_activity\n"
        "settings = {'background_bytes': 1 << 20, 'system_intervals_s': [1.0]}\n"
        "with background_activity(settings, '1'):\n"
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
    _, alive = psutil.wait_procs(below, timeout=200)
    assert not alive
