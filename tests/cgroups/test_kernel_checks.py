"""Small programs that show what this kernel does: with injected ends, and for real."""

from __future__ import annotations

import os
import platform
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import astuple
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edgebench.cgroups import kernel_checks
from edgebench.cgroups.interface import Limits
from edgebench.cgroups.kernel_checks import (
    SWAP_BYTES,
    StatEffect,
    check_limit,
    measure_stat_effect,
)
from edgebench.cgroups.leftovers import Ownership
from edgebench.cgroups.parent import ParentCgroup
from edgebench.cgroups.swap import SwapControl
from edgebench.errors import CgroupError, MachineError
from edgebench.measures.machine.system_files import SystemFiles
from edgebench.run.doctor import CheckTarget, observer_check

MIB = 1 << 20
KILLED = -signal.SIGKILL


class Cgroup:
    def __init__(self, kills: int = 0, stat: Path | None = None) -> None:
        self.path = Path("/sys/fs/cgroup/edgebench-1")
        self.limits: Limits | None = None
        self.removed, self._kills, self._stat = False, kills, stat

    def set_limits(self, limits: Limits) -> Limits:
        self.limits = limits
        return limits

    def read(self) -> Any:
        return SimpleNamespace(oom_kills=self._kills)

    def hot_files(self) -> Any:
        return SimpleNamespace(stat=self._stat)

    def remove(self) -> None:
        self.removed = True


def parent_of(make: Callable[[str], Cgroup]) -> Any:
    """A parent whose cgroups are made so, without accounting of their own."""

    def create(name: str, accounting: bool = True) -> Cgroup:
        assert not accounting
        return make(name)

    return SimpleNamespace(create=create)


def checked(monkeypatch: pytest.MonkeyPatch, *codes: int | None) -> tuple[Any, Cgroup, list[str]]:
    """The check where its programs end so: its result or error, its cgroup, what they allocate."""
    left, sizes, cgroup = list(codes), list[str](), Cgroup()

    def run_in(_: object, words: list[str], timeout_s: float) -> int | None:
        assert (words[0], timeout_s) == ("-c", 30.0)
        sizes.append(words[2])
        return left.pop(0)

    monkeypatch.setattr(kernel_checks, "run_in", run_in)
    try:
        result: Any = check_limit(parent_of(lambda _: cgroup))
    except CgroupError as error:
        result = error
    assert cgroup.removed
    return result, cgroup, sizes


def test_less_than_the_limit_ends_well_and_more_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    result, cgroup, sizes = checked(monkeypatch, 0, KILLED)
    assert cgroup.limits == Limits(memory_bytes=64 * MIB, swap_bytes=0)
    assert sizes == [str(32 * MIB), str(96 * MIB)]
    assert result == 64 * MIB


@pytest.mark.promise(
    "`edgebench doctor` reports and says what to type: a limit that can be read but is not "
    "enforced."
)
@pytest.mark.parametrize(
    ("codes", "words"),
    [
        # A tighter one above, one that is only shown, one that is reached and not enforced.
        ((KILLED,), "allocating 32.0 MiB under a limit of 64.0 MiB ended with -9"),
        ((0, 0), "allocating 96.0 MiB under a limit of 64.0 MiB ended with 0"),
        ((0, None), "allocating 96.0 MiB under a limit of 64.0 MiB did not end"),
    ],
)
def test_a_limit_that_does_not_hold_is_told(
    monkeypatch: pytest.MonkeyPatch, codes: tuple[int | None, ...], words: str
) -> None:
    error, cgroup, _ = checked(monkeypatch, *codes)
    assert words in error.what
    assert error.where == str(cgroup.path)
    assert "edgebench doctor" in str(error.remedy)


def test_programs_run_alternately_without_a_reader_and_with_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[Cgroup] = []
    read: list[bool] = []
    running: list[str] = []

    def make(name: str) -> Cgroup:
        assert name.endswith(f"-stale-{len(made)}")
        # The first two without a reader are killed.
        made.append(Cgroup(kills=1 if len(made) in (0, 2) else 0, stat=Path("/stat")))
        return made[-1]

    def run_in(_: object, words: list[str], timeout_s: float) -> int:
        assert Path(words[0]).name == "probes.py"
        assert (words[1:], timeout_s) == (["pages", str(48 * MIB), str(40 * MIB)], 30.0)
        read.append(bool(running))
        return 0

    class Reader:
        def __init__(self, words: list[str], **_: Any) -> None:
            assert words[0] == sys.executable
            assert words[-2] == "/stat"
            running.append("reader")
            self.stdout = SimpleNamespace(readline=lambda: b"\n", close=lambda: None)

        def kill(self) -> None:
            running.remove("reader")

        def wait(self) -> None:
            """It has ended."""

    monkeypatch.setattr(kernel_checks, "run_in", run_in)
    monkeypatch.setattr(kernel_checks.subprocess, "Popen", Reader)
    effect = measure_stat_effect(parent_of(make), tries=3)
    assert effect == StatEffect(tries=3, killed_unread=2, killed_read=0)
    assert effect.reading_saves
    assert not StatEffect(3, 1, 1).reading_saves
    assert read == [False, True] * 3
    assert all(one.removed for one in made)
    assert {one.limits for one in made} == {Limits(memory_bytes=64 * MIB, swap_bytes=64 * MIB)}


@pytest.mark.parametrize(
    ("code", "stat", "words"),
    [
        (None, Path("/stat"), "the test program did not end"),
        (3, Path("/stat"), "process_vm_readv is not allowed here"),
        (0, None, "this kernel has no memory.stat"),
    ],
)
def test_why_the_effect_of_reading_can_not_be_measured(
    monkeypatch: pytest.MonkeyPatch, code: int | None, stat: Path | None, words: str
) -> None:
    cgroup = Cgroup(stat=stat)
    monkeypatch.setattr(kernel_checks, "run_in", lambda *_: code)
    with pytest.raises(CgroupError) as failed:
        measure_stat_effect(parent_of(lambda _: cgroup), tries=1)
    assert (failed.value.what, failed.value.where) == (words, str(cgroup.path))
    assert cgroup.removed


@pytest.mark.own_cgroup
def test_a_limit_is_enforced(parent: ParentCgroup):
    assert check_limit(parent) == 64 * MIB
    assert not list(parent.path.glob(f"edgebench-{os.getpid()}-proof"))


def uses_lists_of_generations() -> bool:
    enabled = Path("/sys/kernel/mm/lru_gen/enabled")
    return enabled.exists() and int(enabled.read_text(), 16) & 1 == 1


@pytest.fixture
def swap(ownership: Ownership) -> Iterator[None]:
    """A swap file; where none can be made (a disk in memory), the machine's own."""
    with SwapControl(ownership) as control:
        try:
            control.use("file", SWAP_BYTES + (1 << 20))
        except MachineError:
            control.use("system")
        yield


@pytest.mark.own_cgroup
@pytest.mark.swap
def test_what_is_killed_unread_lives_while_it_is_read(parent: ParentCgroup, swap: None):
    """From 6.12 on the kernel kills the program with swap free; a reader saves it. Before, neither.

    A flush of the kernel's own every two seconds saves one now and then, and most where the program
    takes that long: on a busy machine it is tried again until the difference shows.
    """
    version = tuple(int(part) for part in platform.release().split(".")[:2])
    if version >= (6, 12) and not uses_lists_of_generations():
        seen = StatEffect(0, 0, 0)
        while seen.tries < 24 and seen.killed_unread < seen.killed_read + 2:
            more = astuple(measure_stat_effect(parent, tries=1))
            seen = StatEffect(*map(sum, zip(astuple(seen), more, strict=True)))
        assert seen.killed_unread >= seen.killed_read + 2, seen
        assert seen.reading_saves
    else:
        seen = measure_stat_effect(parent, tries=4)
        assert seen.killed_unread == 0
        assert not seen.reading_saves
    assert not list(parent.path.glob(f"edgebench-{os.getpid()}-stale-*"))


def test_without_a_cgroup_it_is_absent():
    answer = observer_check.result(CheckTarget())
    assert answer.status == "absent"
    assert "without a cgroup" in answer.says


@pytest.mark.own_cgroup
def test_without_root_and_swap_it_is_absent(
    parent: ParentCgroup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """An ordinary user on a machine without swap is told so, and nothing is tried."""
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "swaps").write_text("Filename Type Size Used Priority\n")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    answer = observer_check.result(CheckTarget(SystemFiles(tmp_path), parent))
    assert (answer.status, answer.says) == ("absent", "can't be tried without free swap")
