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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgebench.process import python_path

pytestmark = [pytest.mark.cgroup, pytest.mark.root, pytest.mark.swap]
FAULTS = ("kill", "term", "interrupt", "full-disk")


@pytest.fixture
def arena() -> Iterator[Path]:
    """A folder on a disk that can hold a swap file, as /tmp often is not."""
    folder = Path(tempfile.mkdtemp(prefix="trust-", dir="/var/tmp"))
    yield folder
    shutil.rmtree(folder)


def walk(arena: Path, fault: str, first: int, every: int) -> dict[str, Any]:
    """Let the fault strike at each of these steps, each time in a sweep of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.trust.stage", str(arena), fault, str(first), str(every)],
        env={**os.environ, "PYTHONPATH": python_path()},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(("fault", "first"), [(fault, 7 * n + 3) for n, fault in enumerate(FAULTS)])
def test_a_fault_here_and_there_does_no_harm(arena: Path, fault: str, first: int) -> None:
    """A few of the steps below; the results are whole and readable, and nothing is left."""
    found = walk(arena, fault, first, 140)
    assert found["wrong"] == []
    assert found["struck"] > 0


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("fault", [*FAULTS, "kill-twice"])
def test_a_fault_at_every_step_does_no_harm(arena: Path, fault: str) -> None:
    """SIGKILL, SIGTERM, Ctrl-C and a full disk at each step, one sweep each, then a restart.

    At ``kill-twice`` the restart is killed as well, while it clears up after the first kill.
    """
    found = walk(arena, fault, 0, 1)
    assert found["wrong"] == []
    # A step may move by one from start to start: the kernel takes its time with a kill.
    assert found["struck"] >= 0.95 * found["tried"]
