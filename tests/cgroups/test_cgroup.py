"""A real cgroup on whatever version this kernel has: limits, counters, peaks, killing, removing."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgebench.cgroups.interface import Cgroup, Limits
from edgebench.cgroups.join import join_command
from edgebench.cgroups.parent import ParentCgroup
from edgebench.errors import CgroupError
from tests.cgroups.conftest import Run

pytestmark = [pytest.mark.own_cgroup, pytest.mark.quick, pytest.mark.v2_core]

MIB = 1 << 20
PAGE = os.sysconf("SC_PAGE_SIZE")
#: Touch argv[1] MiB of anonymous memory.
TOUCH = """
import mmap, sys
size = int(sys.argv[1]) << 20
area = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for offset in range(0, size, mmap.PAGESIZE):
    area[offset] = 1
"""


@pytest.fixture
def asleep(cgroup: Cgroup) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(join_command(cgroup, ["sleep", "1000"], None, None)) as process:
        while process.pid not in cgroup.pids():
            time.sleep(0.001)
        yield process
        process.kill()


@pytest.fixture
def all_limits(parent: ParentCgroup) -> None:
    if missing := {"cpu", "pids"} - parent.bases.keys():
        pytest.skip(f"these controllers are not available here: {', '.join(sorted(missing))}")


def test_limits_are_set_and_read_back(all_limits: None, cgroup: Cgroup):
    applied = cgroup.set_limits(Limits(100 * MIB + 5, 50 * MIB, (0,), 1.5, 100))
    assert applied == Limits(100 * MIB, 50 * MIB, (0,), 1.5, 100)


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (Limits(64 * MIB, 0), Limits(256 * MIB, 64 * MIB)),
        (Limits(256 * MIB, 64 * MIB), Limits(64 * MIB, 0)),
        (Limits(64 * MIB, 256 * MIB), Limits(128 * MIB, 0)),
        (Limits(64 * MIB, 0), Limits(64 * MIB, None)),
    ],
)
def test_limits_move_both_ways(cgroup: Cgroup, first: Limits, then: Limits):
    """Version 1 takes memory and memory + swap only in the right order; both orders work."""
    assert cgroup.set_limits(first) == first
    assert cgroup.set_limits(then) == then


def test_no_limits_at_all(all_limits: None, cgroup: Cgroup):
    cgroup.set_limits(Limits(64 * MIB, 0, (0,), 0.5, 10))
    assert cgroup.set_limits(Limits()) == Limits()


def test_no_swap_without_a_memory_limit(cgroup: Cgroup):
    assert cgroup.set_limits(Limits(None, 0)) == Limits(None, 0)


def test_a_refused_limit_names_the_value(cgroup: Cgroup):
    with pytest.raises(CgroupError) as caught:
        cgroup.set_limits(Limits(cores=(4000,)))
    assert "4000" in caught.value.what
    assert caught.value.remedy


def test_cores_that_only_an_affinity_holds(parent: ParentCgroup):
    bare = ParentCgroup(parent.version, {"memory": parent.path}, parent.ownership)
    made = bare.create(f"{os.getpid()}-cores")
    try:
        if made.version == 1:
            with pytest.raises(CgroupError, match="4000"):
                made.set_limits(Limits(cores=(0, 4000)))
        core = min(os.sched_getaffinity(0))
        assert made.set_limits(Limits(cores=(core,))).cores == (core,)
    finally:
        made.remove()


def test_a_limit_that_does_not_take_is_an_error(cgroup: Cgroup):
    assert cgroup.set_limits(Limits(PAGE)).memory_bytes == PAGE
    assert cgroup.set_limits(Limits(PAGE - 1)).memory_bytes == 0


def test_too_much_is_killed_and_counted(cgroup: Cgroup, python: Run):
    """Above the limit without swap the kernel kills, and says so; the peak is the limit."""
    cgroup.set_limits(Limits(64 * MIB, 0))
    assert python(TOUCH, "96").returncode == -9
    counters = cgroup.read()
    assert counters.oom_kills
    assert counters.limit_hits
    assert counters.peak_bytes == 64 * MIB


def test_enough_is_not_killed(cgroup: Cgroup, python: Run):
    cgroup.set_limits(Limits(64 * MIB, 0))
    assert python(TOUCH, "32").returncode == 0
    counters = cgroup.read()
    assert (counters.oom_kills, counters.limit_hits) == (0, 0)


def test_the_peak_is_the_command_s_alone(cgroup: Cgroup, python: Run):
    """A harness that holds 200 MB changes nothing: joining comes right before exec."""
    ballast = bytearray(200 * MIB)
    ballast[::PAGE] = b"x" * len(ballast[::PAGE])
    assert python(TOUCH, "20").returncode == 0
    peak = cgroup.read().peak_bytes
    assert peak is not None
    assert 20 * MIB <= peak <= 40 * MIB
    assert ballast[0]


def test_the_counters_tell_what_happened(cgroup: Cgroup, python: Run):
    python(TOUCH, "16")
    counters = cgroup.read()
    assert counters.minor_faults is not None
    assert counters.minor_faults >= 16 * MIB // PAGE // 512
    assert counters.cpu_ns
    assert counters.user_ns is not None
    assert counters.system_ns is not None
    unknown = {name for name, value in vars(counters).items() if value is None}
    assert unknown == set(cgroup.missing())


def test_kill_ends_all_of_a_tree(cgroup: Cgroup, asleep: subprocess.Popen[bytes]):
    tree = "for i in 1 2 3 4 5; do setsid sleep 1000 & done; wait"
    with subprocess.Popen(join_command(cgroup, ["sh", "-c", tree], None, None)) as shell:
        while len(cgroup.pids()) < 7:
            time.sleep(0.001)
        cgroup.kill()
        assert cgroup.pids() == ()
        assert shell.wait(200) == asleep.wait(200) == -9
    cgroup.kill()


def test_kill_outruns_a_process_that_forks(all_limits: None, cgroup: Cgroup):
    forks = "while :; do (sleep 1000 &) ; done"
    cgroup.set_limits(Limits(pids=50))
    with subprocess.Popen(
        join_command(cgroup, ["sh", "-c", forks], None, None), stderr=subprocess.DEVNULL
    ) as shell:
        while len(cgroup.pids()) < 20 and shell.poll() is None:
            time.sleep(0.001)
        cgroup.kill()
        assert cgroup.pids() == ()


def test_remove_takes_all_away(cgroup: Cgroup, asleep: subprocess.Popen[bytes]):
    # More than Python's stack holds calls.
    for depth in range(1, 1101):
        Path(f"{cgroup.path}{'/a' * depth}").mkdir()
    folders = [path.parent for path in cgroup.join_files()]
    cgroup.remove()
    cgroup.remove()
    assert asleep.wait(200) == -9
    assert not any(folder.exists() for folder in folders)


def test_two_of_a_name(parent: ParentCgroup, cgroup: Cgroup):
    with pytest.raises(CgroupError, match="already"):
        parent.create(cgroup.path.name.removeprefix("edgebench-"))
    assert cgroup.path.exists()


@pytest.mark.parametrize("name", ["", "a/b", "..", "a b", "x" * 200])
def test_a_name_that_is_no_name(parent: ParentCgroup, name: str):
    with pytest.raises(CgroupError, match="name"):
        parent.create(name) if name != ".." else parent.create("/../x")
