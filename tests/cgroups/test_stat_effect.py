"""Whether reading ``memory.stat`` changes what is killed: the smallest program, for real."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgebench.cgroups.kernel_checks import SWAP_BYTES, measure_stat_effect
from edgebench.cgroups.leftovers import Ownership
from edgebench.cgroups.parent import ParentCgroup
from edgebench.cgroups.swap import SwapControl
from edgebench.errors import MachineError
from edgebench.measures.machine.system_files import SystemFiles
from edgebench.run.checks import CheckTarget
from edgebench.run.checks.limits import observer_check

pytestmark = [pytest.mark.own_cgroup, pytest.mark.swap]


def uses_lists_of_generations() -> bool:
    """Multi-generation lists don't look at the statistics in question."""
    enabled = Path("/sys/kernel/mm/lru_gen/enabled")
    return enabled.exists() and int(enabled.read_text(), 16) & 1 == 1


@pytest.fixture
def swap(ownership: Ownership) -> Iterator[SwapControl]:
    """Swap control whose swap goes with the test."""
    with SwapControl(ownership) as control:
        yield control


def have_swap(swap: SwapControl) -> None:
    """A swap file; where none can be made (a disk in memory), the machine's own."""
    try:
        swap.use("file", SWAP_BYTES + (1 << 20))
    except MachineError:
        swap.use("system")


def test_what_is_killed_unread_lives_while_it_is_read(parent: ParentCgroup, swap: SwapControl):
    """From 6.12 on the kernel kills the program with swap free; a reader saves it. Before, neither.

    A flush of the kernel's own every two seconds may save one now and then, so not all need die.
    """
    have_swap(swap)
    seen = measure_stat_effect(parent, tries=4)
    version = tuple(int(part) for part in platform.release().split(".")[:2])
    if version >= (6, 12) and not uses_lists_of_generations():
        assert seen.killed_unread >= 2
        assert seen.killed_read < seen.killed_unread
        assert seen.reading_saves
    else:
        assert seen.killed_unread == 0
        assert not seen.reading_saves


def test_the_tries_leave_nothing(parent: ParentCgroup, swap: SwapControl):
    """No cgroup of theirs is there afterwards."""
    have_swap(swap)
    measure_stat_effect(parent, tries=1)
    assert not list(parent.path.glob(f"edgebench-{os.getpid()}-stale-*"))


def test_without_a_cgroup_it_is_absent():
    """Nothing is claimed where nothing can be tried."""
    answer = observer_check.result(CheckTarget())
    assert answer.status == "absent"
    assert "without a cgroup" in answer.says


def test_without_root_and_swap_it_is_absent(
    parent: ParentCgroup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """An ordinary user on a machine without swap is told so, and nothing is tried."""
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "swaps").write_text("Filename Type Size Used Priority\n")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    answer = observer_check.result(CheckTarget(SystemFiles(tmp_path), parent))
    assert (answer.status, answer.says) == ("absent", "can't be tried without free swap")
