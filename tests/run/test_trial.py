"""Trials in real cgroups: what the kernel counts, what is left, who is charged."""

from __future__ import annotations

import gzip
import os
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from msgspec import structs

from edgebench.cgroups.interface import Limits
from edgebench.errors import CgroupError
from edgebench.records import Doubt, LimitSetting, TrialRecord
from edgebench.run.trial.record import TrialRequest
from edgebench.run.trial.session import Session
from edgebench.run.trial.trial import TrialFiles, run_trial
from edgebench.run.trial.trial import _limits_of as limits_of
from tests.chance import cgroups_named, given_time
from tests.run.made_trials import python_trial

pytestmark = pytest.mark.own_cgroup
MIB = 1 << 20
#: Touches so many MiB of anonymous memory and holds them for a moment.
TOUCH = (
    "import time; b = bytearray({mib} << 20); b[::4096] = b'x' * len(b[::4096]); time.sleep({s})"
)


def trial(
    session: Session,
    folder: Path,
    code: str,
    memory_mib: int | None = None,
    timeout_s: float = 60,
) -> TrialRecord:
    limits = LimitSetting(f"{memory_mib}M", memory_mib * MIB) if memory_mib else LimitSetting()
    return python_trial(session.setup, folder, code, limits=limits, timeout_s=timeout_s)


@pytest.mark.v2_core
@pytest.mark.quick
def test_a_known_allocation_shows_in_every_measure(session: Session, tmp_path: Path) -> None:
    """Kernel, sampler and GNU time all see 100 MiB that were touched; the rest is Python's own."""

    def check(held_s: float) -> None:
        record = trial(session, tmp_path, TOUCH.format(mib=100, s=held_s))
        assert record.outcome == "ok"
        for peak in (record.peak_bytes, record.sampled_peak_bytes, record.gnu_time_maxrss_bytes):
            assert peak is not None
            assert 100 * MIB < peak < 125 * MIB
        assert record.demand_bytes is not None
        assert record.demand_bytes >= 100 * MIB
        assert record.saturated is False

    given_time(check)


#: Two processes share so many MiB of ``multiprocessing``'s memory and hold them for a while.
SHARE = """
import os, sys, time
from multiprocessing import shared_memory
area = shared_memory.SharedMemory(create=True, size=100 << 20)
child = os.fork()
for i in range(0, area.size, 4096):
    area.buf[i] = 1
time.sleep(HELD_S)
area.close()
if child:
    os.waitpid(child, 0)
    area.unlink()
else:
    os._exit(0)
"""


@pytest.mark.quick
def test_memory_that_processes_share_counts_once(session: Session, tmp_path: Path) -> None:
    """Demand is no more than the kernel's peak and swap; libraries stand beside it."""

    def check(held_s: float) -> None:
        record = trial(session, tmp_path, SHARE.replace("HELD_S", str(held_s)))
        assert record.outcome == "ok"
        assert record.demand_bytes is not None
        assert record.peak_bytes is not None
        assert 100 * MIB < record.demand_bytes <= record.peak_bytes + (record.swap_peak_bytes or 0)
        assert record.library_bytes is not None
        assert 2 * MIB < record.library_bytes < 100 * MIB

    given_time(check)


@pytest.mark.v2_core
@pytest.mark.quick
def test_a_limit_below_demand_without_swap_is_a_recorded_kill(
    session: Session, tmp_path: Path
) -> None:
    record = trial(session, tmp_path, TOUCH.format(mib=200, s=0), memory_mib=64)
    assert record.outcome == "oom-killed"
    assert record.oom_kills
    assert record.limit_bytes == 64 * MIB
    assert record.saturated is True
    assert record.demand_bytes is None
    assert "demand_bytes" in record.missing
    assert record.kill is not None
    assert record.kill.swap_allowed_bytes == 0
    assert not record.killed_with_swap_free
    assert record.library_bytes is None


@pytest.mark.quick
def test_what_was_seen_of_a_trial_is_in_its_record_and_its_files(
    session: Session, tmp_path: Path
) -> None:
    files = TrialFiles.scratch(tmp_path)
    live = tmp_path / "live"
    code = f"print('rate 12.5 a second', flush=True); {TOUCH.format(mib=20, s=0.1)}"
    settings = {
        "kind": "command",
        "command": [sys.executable, "-I", "-S", "-c", code],
        "throughput_pattern": "rate ([0-9.]+)",
    }
    request = TrialRequest("0001", "p1", 0, 0, settings, LimitSetting(), 60)
    setup = replace(session.setup, interval_s=0.002, stat_interval_s=0.05)
    record = run_trial(setup, request, replace(files, live=live))
    assert record.outcome == "ok"
    assert record.throughput_per_s == 12.5
    assert record.sampler is not None
    assert record.sampler.interval_s == 0.002
    assert record.watched is not None
    assert (record.watched.usage_interval_s, record.watched.stat_interval_s) == (0.002, 0.05)
    assert record.watched.marks_reset_at_boundaries is False
    assert (record.kill, record.storage) == (None, None)
    assert record.noise
    assert live.exists()
    assert files.log.read_text() == "rate 12.5 a second\n"
    assert gzip.decompress(files.events.read_bytes()) == b""
    with zipfile.ZipFile(files.samples) as archive:
        assert {"fast.npy", "stat.npy"} <= set(archive.namelist())


#: Programs that go on after the kernel killed a child of theirs which needs 300 MiB.
LOSING_A_CHILD = {
    "grandchild": (
        "import subprocess, sys\n"
        f"inner = {TOUCH.format(mib=300, s=0)!r}\n"
        "child = 'import subprocess, sys; subprocess.run(sys.argv[1:])'\n"
        "python = [sys.executable, '-I', '-S', '-c']\n"
        "subprocess.run([*python, child, *python, inner])"
    ),
    "multiprocessing": (
        "import multiprocessing\n"
        "def touch():\n"
        "    b = bytearray(300 << 20); b[::4096] = b'x' * len(b[::4096])\n"
        "child = multiprocessing.get_context('fork').Process(target=touch)\n"
        "child.start(); child.join()"
    ),
    "shell": (
        "import os, sys\n"
        f"os.environ['INNER'] = {TOUCH.format(mib=300, s=0)!r}\n"
        'script = \'"$0" -I -S -c "$INNER"; echo going on\'\n'
        "os.execv('/bin/sh', ['sh', '-c', script, sys.executable])"
    ),
}


@pytest.mark.v2_core
@pytest.mark.promise(
    "A trial in which the kernel killed any process is not `ok`, even a grandchild, or a "
    "child of `multiprocessing` or of a shell that continued."
)
@pytest.mark.parametrize("kind", LOSING_A_CHILD)
def test_a_killed_child_is_no_success(session: Session, tmp_path: Path, kind: str) -> None:
    """The kernel kills a child, the command goes on and ends well: killed, and both are told.

    Where the kernel kills a cgroup as a whole (version 2), the command is killed as well.
    """
    record = trial(session, tmp_path, LOSING_A_CHILD[kind], memory_mib=100)
    assert record.outcome == "oom-killed"
    assert record.oom_kills
    if record.exit_code == 0:
        assert record.reason == (
            "the kernel killed 1 process of it; the command itself ended with 0"
        )
    else:
        assert session.setup.parent.version == 2
        assert str(record.reason).startswith("killed by the kernel")


@pytest.mark.v2_core
@pytest.mark.promise(
    "A trial in which the kernel killed any process is not `ok`, even a grandchild, or a "
    "child of `multiprocessing` or of a shell that continued."
)
@pytest.mark.root
def test_a_kill_in_a_cgroup_below_counts(session: Session, tmp_path: Path) -> None:
    memory = session.setup.parent.bases["memory"] / f"edgebench-{os.getpid()}-0001"
    inner = TOUCH.format(mib=300, s=0)
    code = (
        "import os, pathlib, subprocess, sys\n"
        f"below = pathlib.Path({str(memory)!r}, 'below'); below.mkdir()\n"
        "pid = os.fork()\n"
        "if not pid:\n"
        "    (below / 'cgroup.procs').write_text('0')\n"
        f"    os.execv(sys.executable, [sys.executable, '-I', '-S', '-c', {inner!r}])\n"
        "os.waitpid(pid, 0)"
    )
    record = trial(session, tmp_path, code, memory_mib=100)
    assert record.outcome == "oom-killed", record.reason
    assert record.oom_kills
    assert not memory.exists()


@pytest.mark.v2_core
@pytest.mark.promise("A workload that changes its own limit is noticed, and the answer says so.")
@pytest.mark.root
def test_a_limit_that_was_changed_is_said(session: Session, tmp_path: Path) -> None:
    memory = session.setup.parent.bases["memory"] / f"edgebench-{os.getpid()}-0001"
    names = ("memory.memsw.limit_in_bytes", "memory.limit_in_bytes", "memory.max")
    code = (
        f"import pathlib\nfor name in {names!r}:\n"
        f" file = pathlib.Path({str(memory)!r}, name)\n"
        " if file.exists():\n"
        "  file.write_text('max' if name == 'memory.max' else '-1')\n"
    )
    record = trial(session, tmp_path, code, memory_mib=64)
    assert record.outcome == "ok", record.reason
    assert record.broken_limits[0] == Doubt("limit_changed", {"from_bytes": 64 * MIB}, ["memory"])
    assert trial(session, tmp_path, "pass", memory_mib=64).broken_limits == []


def test_a_hanging_workload_times_out_and_leaves_nothing(session: Session, tmp_path: Path) -> None:
    code = (
        "import subprocess, sys, time\n"
        "subprocess.Popen(['sleep', '4242'], start_new_session=True); time.sleep(60)"
    )
    # This process may keep one that a test of another module made.
    name = f"edgebench-{os.getpid()}-*"
    before = cgroups_named(name)
    record = trial(session, tmp_path, code, timeout_s=0.8)
    assert record.outcome == "timeout"
    running = [process.info["cmdline"] for process in psutil.process_iter(["cmdline"])]
    assert ["sleep", "4242"] not in running
    assert cgroups_named(name) == before


def test_what_is_asked_is_what_is_set() -> None:
    asked = LimitSetting(
        "x", memory_bytes=5, swap_kind="file", swap_bytes=7, cores=1, cpu_quota=1.5
    )
    first = min(os.sched_getaffinity(0))
    assert limits_of(asked) == Limits(5, 7, (first,), 1.5)
    assert limits_of(structs.replace(asked, swap_kind="none")).swap_bytes == 0
    assert limits_of(LimitSetting()) == Limits(swap_bytes=limits_of(LimitSetting()).swap_bytes)
    assert limits_of(LimitSetting()).cores is None


@pytest.mark.v2_core
@pytest.mark.quick
def test_a_throttled_trial_tells_no_demand(session: Session, tmp_path: Path) -> None:
    limits = LimitSetting(memory_high="100M", memory_high_bytes=100 * MIB)
    if session.setup.parent.version == 1:
        with pytest.raises(CgroupError, match="memory_high needs cgroup version 2"):
            python_trial(session.setup, tmp_path, "pass", limits=limits)
        return
    record = python_trial(session.setup, tmp_path, "pass", limits=limits)
    assert (record.outcome, record.saturated, record.limit_bytes) == ("ok", False, None)
    assert (record.limits.memory_high, record.limits.memory_high_bytes) == ("100M", 100 * MIB)
    assert record.missing["demand_bytes"] == "demand shows only without a limit"
