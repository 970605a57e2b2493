"""A real cgroup of this kernel's version: limits, swap, counters, peaks, killing, removing."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgebench.cgroups.interface import Cgroup, Limits
from edgebench.cgroups.join import join_command
from edgebench.cgroups.leftovers import Ownership
from edgebench.cgroups.parent import ParentCgroup
from edgebench.cgroups.swap import SwapControl
from edgebench.errors import CgroupError, MachineError
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
    assert cgroup.set_limits(Limits()) == Limits()


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (Limits(64 * MIB, 0), Limits(256 * MIB, 64 * MIB)),
        (Limits(256 * MIB, 64 * MIB), Limits(64 * MIB, 0)),
        (Limits(64 * MIB, 256 * MIB), Limits(128 * MIB, 0)),
        (Limits(64 * MIB, 0), Limits(64 * MIB, None)),
        (Limits(64 * MIB, None), Limits(None, 0)),
    ],
)
def test_limits_move_both_ways(cgroup: Cgroup, first: Limits, then: Limits):
    """Version 1 takes memory and memory + swap only in the right order; both orders work."""
    assert cgroup.set_limits(first) == first
    assert cgroup.set_limits(then) == then


def test_a_refused_limit_names_the_value(cgroup: Cgroup):
    with pytest.raises(CgroupError) as caught:
        cgroup.set_limits(Limits(cores=(4000,)))
    assert "4000" in caught.value.what
    assert Path(str(caught.value.where)).name == "cpuset.cpus"
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
    assert python(TOUCH, "32").returncode == 0
    counters = cgroup.read()
    assert (counters.oom_kills, counters.limit_hits) == (0, 0)
    assert python(TOUCH, "96").returncode == -9
    counters = cgroup.read()
    assert counters.oom_kills
    assert counters.limit_hits
    assert counters.peak_bytes == 64 * MIB


def test_the_peak_is_the_command_s_alone(cgroup: Cgroup, python: Run):
    """A harness that holds 200 MB changes nothing: joining comes right before exec."""
    ballast = bytearray(200 * MIB)
    ballast[::PAGE] = b"x" * len(ballast[::PAGE])
    assert python(TOUCH, "20").returncode == 0
    assert 20 * MIB <= (cgroup.read().peak_bytes or 0) <= 40 * MIB
    assert ballast[0]


def test_the_counters_tell_what_happened(cgroup: Cgroup, python: Run):
    python(TOUCH, "16")
    counters = cgroup.read()
    assert (counters.minor_faults or 0) >= 16 * MIB // PAGE // 512
    assert counters.cpu_ns
    unknown = {name for name, value in vars(counters).items() if value is None}
    assert unknown == set(cgroup.missing())
    assert not unknown & {"user_ns", "system_ns"}


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


@pytest.mark.parametrize("name", ["", "/../x", "a b", "x" * 200])
def test_a_name_that_is_no_name(parent: ParentCgroup, name: str):
    with pytest.raises(CgroupError, match="name"):
        parent.create(name)


@pytest.fixture
def swap(ownership: Ownership) -> Iterator[None]:
    """A temporary swap file (not on tmpfs), else what swap the machine has."""
    with SwapControl(ownership, Path(__file__).parent) as control:
        try:
            control.use("file", 256 * MIB)
        except MachineError as error:
            if len(Path("/proc/swaps").read_text().splitlines()) < 2:
                pytest.skip(f"no swap file can be had: {error.what}")
        yield


@pytest.mark.root
@pytest.mark.swap
def test_above_the_limit_it_swaps(swap: None, cgroup: Cgroup, python: Run):
    cgroup.set_limits(Limits(64 * MIB, 128 * MIB))
    assert python(TOUCH, "96").returncode == 0
    counters = cgroup.read()
    assert counters.oom_kills == 0
    assert counters.peak_bytes == 64 * MIB
    assert counters.limit_hits


@pytest.mark.root
@pytest.mark.swap
def test_swap_is_limited_too(swap: None, cgroup: Cgroup, python: Run):
    cgroup.set_limits(Limits(64 * MIB, 32 * MIB))
    assert python(TOUCH, "160").returncode == -9
    assert cgroup.read().oom_kills


@pytest.mark.root
@pytest.mark.swap
def test_no_swap_means_none(swap: None, cgroup: Cgroup, python: Run):
    """Where there is to be no swap not a page of it is used, though the machine has some."""
    cgroup.set_limits(Limits(64 * MIB, 0))
    assert python(TOUCH, "96").returncode == -9
    counters = cgroup.read()
    assert counters.limit_hits
    if cgroup.version == 1:
        both = int((cgroup.path / "memory.memsw.max_usage_in_bytes").read_text())
        # A charge of 64 pages at once is tried on the sum first, and given back.
        assert both <= 64 * MIB + 64 * PAGE
    else:
        assert counters.swap_peak_bytes in (0, None)


@pytest.mark.root
@pytest.mark.swap
def test_above_a_throttle_it_goes_on(swap: None, cgroup: Cgroup, python: Run):
    """Version 2 reclaims from there on and kills nothing; version 1 has no such limit."""
    limits = Limits(swap_bytes=128 * MIB, memory_high_bytes=64 * MIB)
    if cgroup.version == 1:
        with pytest.raises(CgroupError, match="memory_high needs cgroup version 2"):
            cgroup.set_limits(limits)
        return
    assert cgroup.set_limits(limits).memory_high_bytes == 64 * MIB
    assert python(TOUCH, "96").returncode == 0
    counters = cgroup.read()
    assert counters.oom_kills == 0
    assert counters.swap_peak_bytes
