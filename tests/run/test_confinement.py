"""A workload that leaves its cgroup, lifts its limit or resets its peak: it is noticed and said."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from edgebench.cgroups.interface import Limits
from edgebench.records import Doubt, LimitSetting, TrialRecord
from edgebench.run.confinement import SLACK_BYTES, Confinement
from edgebench.run.session import Session
from edgebench.run.trial import TrialFiles, run_trial
from edgebench.run.trial_record import TrialRequest

pytestmark = [pytest.mark.own_cgroup, pytest.mark.root]
MIB = 1 << 20
LIMIT = LimitSetting("64M", 64 * MIB)
#: Where this process's own cgroups are, by the file system.
FIND = (
    "import os, pathlib, sys, time\n"
    "lines = [line.strip().split(':') for line in open('/proc/self/cgroup')]\n"
    "name = next(p for _, _, p in lines if 'edgebench-' in p).rpartition('/')[2]\n"
    "mine = [p for p in pathlib.Path('/sys/fs/cgroup').rglob(name) if p.is_dir()]\n"
)
LEAVE = "for folder in mine:\n (folder.parent / 'cgroup.procs').write_text(str(os.getpid()))\n"


def trial(session: Session, folder: Path, code: str) -> TrialRecord:
    """A trial of Python code under 64 MiB; it may say that it is ready, and wait for `go`."""
    files = TrialFiles(folder / "s.npz", folder / "e.gz", folder / "log", folder)
    command = [sys.executable, "-I", "-S", "-c", FIND + code]
    settings = {"kind": "command", "command": command}
    return run_trial(session.setup, TrialRequest("0001", "p1", 0, 0, settings, LIMIT, 60), files)


@pytest.mark.promise("A workload that leaves its cgroup is noticed, and the answer says so.")
def test_leaving_is_said_and_what_left_is_ended(session: Session, tmp_path: Path) -> None:
    """Also of a child left in the background, which is killed with the trial."""
    fifo = tmp_path / "alive"
    code = LEAVE + (
        f"os.mkfifo({str(fifo)!r})\n"
        "ready, told = os.pipe()\n"
        "if os.fork() == 0:\n"
        f" os.open({str(fifo)!r}, os.O_RDWR)\n os.write(told, b'x')\n time.sleep(1000)\n"
        "os.read(ready, 1)\n"
    )
    record = trial(session, tmp_path, code)
    assert record.outcome == "ok", record.reason
    assert Doubt("left_cgroup") in record.doubts
    # The child had it open for reading and writing: only once it is gone there is no reader.
    wait_until_no_reader(fifo)


def wait_until_no_reader(fifo: Path) -> None:
    """With a deadline of a minute."""
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline:
        try:
            os.close(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))
        except OSError:
            return
        time.sleep(0.01)
    pytest.fail("the child still lives")


@pytest.mark.promise("A workload that lifts its own limit is noticed, and the answer says so.")
def test_a_lifted_limit_is_said(session: Session, tmp_path: Path) -> None:
    """The kernel's limit at the end is not the one that was set."""
    code = (
        "for folder in mine:\n"
        " for name in ('memory.memsw.limit_in_bytes', 'memory.limit_in_bytes', 'memory.max'):\n"
        "  if (folder / name).exists():\n"
        "   (folder / name).write_text('max' if name == 'memory.max' else '-1')\n"
    )
    record = trial(session, tmp_path, code)
    assert record.outcome == "ok", record.reason
    assert Doubt("limit_changed", {"from_bytes": 64 * MIB}, ["memory"]) in record.doubts


def test_a_workload_that_stays_is_told_nothing(session: Session, tmp_path: Path) -> None:
    """Nor is one that makes a cgroup below its own, or starts children."""
    code = (
        "for folder in mine:\n"
        " if any(folder.glob('memory.*')):\n"
        "  (folder / 'below').mkdir()\n"
        "  (folder / 'below' / 'cgroup.procs').write_text(str(os.getpid()))\n"
        "os.fork() or os._exit(0)\nos.wait()"
    )
    record = trial(session, tmp_path, code)
    assert record.outcome == "ok", record.reason
    assert record.broken_limits == []


def test_a_limit_that_was_lifted_for_a_while_shows_in_the_samples(session: Session) -> None:
    """More was used than can be charged ahead; where the limit moves, nothing is concluded."""
    cgroup = session.setup.parent.create("confined")
    try:
        applied = cgroup.set_limits(Limits(64 * MIB, 0))
        seen = Confinement(cgroup, can_leave=True)
        for used, moved, count in ((64 * MIB + SLACK_BYTES, False, 0), (90 * MIB, False, 1)):
            assert len(seen.broken(applied, is_moved=moved, sampled_peak_bytes=used)) == count
        assert seen.broken(applied, is_moved=True, sampled_peak_bytes=90 * MIB) == []
        other = replace(applied, swap_bytes=5)
        (changed,) = seen.broken(other, is_moved=False, sampled_peak_bytes=0)
        assert (changed.kind, changed.names) == ("limit_changed", ["swap"])
        other = replace(applied, memory_high_bytes=5 * MIB)
        (changed,) = seen.broken(other, is_moved=False, sampled_peak_bytes=0)
        assert (changed.kind, changed.names) == ("limit_changed", ["memory_high"])
    finally:
        cgroup.remove()
    gone = seen.broken(applied, is_moved=False, sampled_peak_bytes=0)
    assert gone == [Doubt("cgroup_gone")]


def test_a_process_that_is_ending_has_not_left(session: Session) -> None:
    """The kernel puts it into the root cgroup; one that lives elsewhere has left."""
    cgroup = session.setup.parent.create("ending")
    child = os.fork()
    if not child:
        os._exit(0)
    try:
        seen = Confinement(cgroup, can_leave=True)
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        assert not seen._is_out(child)
        assert seen._is_out(os.getpid())
    finally:
        os.waitpid(child, 0)
        cgroup.remove()


def test_a_process_may_end_while_it_is_looked_at(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folder goes between two reads of it; the trial goes on."""

    def gone(self: Path, pattern: str) -> Iterator[Path]:
        raise FileNotFoundError(2, "No such file or directory", str(self))

    cgroup = session.setup.parent.create("ended")
    try:
        with Confinement(cgroup, can_leave=True) as seen, monkeypatch.context() as patched:
            patched.setattr(Path, "glob", gone)
            seen.look(os.getpid())
    finally:
        cgroup.remove()
