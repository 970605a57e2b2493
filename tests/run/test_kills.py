"""Kills with swap left and without, made for real in real cgroups with real swap."""

from __future__ import annotations

import mmap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgebench.answers.trials import reason_words
from edgebench.errors import MachineError
from edgebench.records import LimitSetting, TrialRecord
from edgebench.run.trial import outcome
from edgebench.run.trial.session import Session, open_session
from tests.run.made_trials import python_trial

pytestmark = [pytest.mark.own_cgroup, pytest.mark.swap]
MIB = 1 << 20
SWAP = 128 * MIB
#: Locked memory is what the kernel can't reclaim, however much swap there is.
LOCKED = (
    "import ctypes, mmap\n"
    "assert ctypes.CDLL(None, use_errno=True).mlockall(2) == 0\n"
    "mmap.mmap(-1, 150 << 20)"
)
#: More than memory and swap together, of bytes that are not zero.
TOO_LARGE = "import os; b = bytearray(os.urandom(1 << 20)) * 400"


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    """The real setup, with a swap file; with the machine's own swap where no file can be."""
    with open_session() as session:
        try:
            session.swap.use("file", SWAP)
        except MachineError:
            session.swap.use("system", SWAP)
        yield session


def killed(session: Session, folder: Path, code: str) -> TrialRecord:
    """A trial of code that doesn't fit 64 MiB, with the session's swap."""
    limits = LimitSetting("64M", 64 * MIB, session.swap.state.kind, SWAP)
    record = python_trial(session.setup, folder, code, limits=limits)
    assert record.outcome == "oom-killed", record.reason
    return record


def killed_and_logged(session: Session, folder: Path, code: str) -> TrialRecord:
    """The same, once more where the kernel kept its words to itself: it logs ten kills in 5 s."""
    for _ in range(20):
        record = killed(session, folder, code)
        if record.kill and record.kill.logged_s is not None:
            break
        time.sleep(5)
    return record


@pytest.mark.promise(
    "A kill while most of the swap was free is marked, with the kernel's list sizes and the "
    "free swap."
)
@pytest.mark.root
def test_a_kill_with_swap_left_is_marked(session: Session, tmp_path: Path) -> None:
    record = killed_and_logged(session, tmp_path, LOCKED)
    kill = record.kill
    assert record.killed_with_swap_free is True
    assert kill is not None
    # A swap file's first page is no swap, and the machine may have no other.
    assert SWAP - mmap.PAGESIZE <= (kill.swap_allowed_bytes or 0) <= SWAP
    assert SWAP // 2 < (kill.swap_free_bytes or 0) <= SWAP
    assert kill.swap_free_bytes == min(kill.group_swap_free_bytes, kill.system_swap_free_bytes)
    assert 32 * MIB < (kill.unevictable_bytes or 0) <= 64 * MIB
    assert None not in (kill.logged_s, kill.active_anon_bytes, kill.inactive_anon_bytes)
    assert "locked in memory (mlock), which no swap can hold" in reason_words(record)


@pytest.mark.promise(
    "A kill while most of the swap was free is marked, with the kernel's list sizes and the "
    "free swap."
)
@pytest.mark.root
def test_a_kill_for_want_of_swap_is_not(session: Session, tmp_path: Path) -> None:
    record = killed_and_logged(session, tmp_path, TOO_LARGE)
    assert record.killed_with_swap_free is False
    assert record.kill is not None
    assert (record.kill.swap_free_bytes or 0) < SWAP // 4
    assert (record.kill.inactive_anon_bytes or 0) + (record.kill.active_anon_bytes or 0) > 0
    assert "of swap were free" not in str(record.reason)


@pytest.mark.promise(
    "A kill while most of the swap was free is marked, with the kernel's list sizes and the "
    "free swap."
)
@pytest.mark.parametrize(("code", "free"), [(LOCKED, True), (TOO_LARGE, False)])
def test_without_the_log_samples_tell(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, free: bool
) -> None:
    """Where the kernel's log can't be read, swap is told from the samples, and the lists aren't."""
    monkeypatch.setattr(outcome, "LOG", tmp_path / "no-kmsg")
    record = killed(session, tmp_path, code)
    assert record.killed_with_swap_free is free
    assert record.kill is not None
    assert record.kill.logged_s is None
    assert record.kill.active_anon_bytes is None
    assert "No such file" in record.missing["kill_lists"]
