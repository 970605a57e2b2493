"""A fault at every step of a sweep: nothing lost, nothing twice, nothing left, nobody else hurt.

The walk is deterministic: see :mod:`tests.trust.stage`. Everything in it is real, the swap too.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.own_path import python_path

pytestmark = [pytest.mark.own_cgroup, pytest.mark.root, pytest.mark.swap]
FAULTS = ("kill", "term", "interrupt", "full-disk", "kill-twice")
#: How many sweeps at once: a sweep mostly waits, for processes to start and for the disk.
AT_ONCE = 2 * (os.cpu_count() or 1)


def walk(fault: str, first: int, every: int) -> dict[str, Any]:
    """Many steps of the stage at once, each sweep in an arena of its own."""
    # On a disk that can hold a swap file, as /tmp often is not.
    folder = Path(tempfile.mkdtemp(prefix="trust-", dir="/var/tmp"))
    program = [sys.executable, "-m", "tests.trust.stage"]
    stages = [
        subprocess.Popen(
            [*program, str(folder / str(n)), fault, str(first + n * every), str(AT_ONCE * every)],
            env={**os.environ, "PYTHONPATH": python_path()},
            stdout=subprocess.PIPE,
        )
        for n in range(AT_ONCE)
    ]
    try:
        found = [json.loads(stage.communicate()[0]) for stage in stages]
    finally:
        for stage in stages:
            stage.terminate()
            stage.wait()
        shutil.rmtree(folder)
    return {
        **{name: sum(one[name] for one in found) for name in ("tried", "struck")},
        "wrong": [words for one in found for words in one["wrong"]],
    }


@pytest.mark.promise(
    "After SIGKILL, SIGTERM, SIGHUP, Ctrl-C or a full disk at every 500th step of a sweep "
    "(SIGHUP aside, every fifth in the long set), the next start completes it: each trial is "
    "there once, and `show` reads them at any time."
)
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("fault", "first"), [(fault, 40 * n + 3) for n, fault in enumerate([*FAULTS, "hang-up"])]
)
def test_a_fault_here_and_there_does_no_harm(fault: str, first: int) -> None:
    """At every 500th of the steps below: results are whole and readable, and nothing is left."""
    found = walk(fault, first, 500)
    assert found["wrong"] == []
    assert found["struck"] > 0


@pytest.mark.promise(
    "After SIGKILL, SIGTERM, SIGHUP, Ctrl-C or a full disk at every 500th step of a sweep "
    "(SIGHUP aside, every fifth in the long set), the next start completes it: each trial is "
    "there once, and `show` reads them at any time."
)
@pytest.mark.promise(
    "After a harness was killed, the next start removes its cgroups, processes, swap, "
    "temporary files and state file, and nothing of others, even with the same names."
)
@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_at_every_fifth_step_does_no_harm(fault: str) -> None:
    """SIGKILL, SIGTERM, Ctrl-C and a full disk at a step, one sweep each, then a restart.

    At ``kill-twice`` the restart is killed as well, while it clears up after the first kill. All
    faults together strike at each step.
    """
    found = walk(fault, FAULTS.index(fault), len(FAULTS))
    assert found["wrong"] == []
    # A step may move by one from start to start: the kernel takes its time with a kill.
    assert found["struck"] >= 0.95 * found["tried"]
