"""A fault at every step of a sweep: nothing lost, nothing twice, nothing left, nobody else hurt.

The walk is deterministic: see :mod:`tests.trust.stage`. Everything in it is real, the swap too.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile

import pytest

from tests.own_path import python_path

FAULTS = ("kill", "term", "interrupt", "full-disk", "kill-twice")


@pytest.mark.promise(
    "After SIGKILL, SIGTERM, SIGHUP, Ctrl-C or a full disk at every 500th step of a sweep "
    "(SIGHUP aside, every fifth in the long set), the next start completes it: each trial is "
    "there once, and `show` reads them at any time."
)
@pytest.mark.promise(
    "After a harness was killed, the next start removes its cgroups, processes, swap, "
    "temporary files and state file, and nothing of others, even with the same names."
)
@pytest.mark.own_cgroup
@pytest.mark.root
@pytest.mark.swap
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(
    ("fault", "first", "every"),
    [
        *((fault, 40 * n + 3, 500) for n, fault in enumerate([*FAULTS, "hang-up"])),
        # All faults together strike at each step.
        *(
            pytest.param(fault, n, len(FAULTS), marks=pytest.mark.long)
            for n, fault in enumerate(FAULTS)
        ),
    ],
)
def test_a_fault_at_any_step_does_no_harm(fault: str, first: int, every: int) -> None:
    """Results are whole and readable after a restart, and nothing is left.

    At ``kill-twice`` the restart is killed as well, while it clears up after the first kill.
    """
    # On a disk that can hold a swap file, as /tmp often is not.
    with tempfile.TemporaryDirectory(prefix="trust-", dir="/var/tmp") as folder:
        words = [f"{folder}/arena", fault, str(first), str(every)]
        done = subprocess.run(
            [sys.executable, "-m", "tests.trust.stage", *words],
            env={**os.environ, "PYTHONPATH": python_path()},
            stdout=subprocess.PIPE,
            check=True,
        )
    found = json.loads(done.stdout)
    assert found["wrong"] == []
    # A step may move by one from start to start: the kernel takes its time with a kill.
    assert found["struck"] >= max(1, 0.95 * found["tried"] - 1)
