"""Memory limits with real swap behind them, on whatever version this kernel has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from edgebench.cgroups.interface import Cgroup, Limits
from edgebench.cgroups.leftovers import Ownership
from edgebench.cgroups.swap import SwapControl
from edgebench.errors import CgroupError, MachineError
from tests.cgroups.conftest import Run
from tests.cgroups.test_cgroup import MIB, PAGE, TOUCH

pytestmark = [
    pytest.mark.own_cgroup,
    pytest.mark.root,
    pytest.mark.swap,
    pytest.mark.quick,
    pytest.mark.v2_core,
]


@pytest.fixture(autouse=True)
def swap(ownership: Ownership) -> Iterator[None]:
    """A temporary swap file (not on tmpfs), else what swap the machine has."""
    with SwapControl(ownership, Path(__file__).parent) as control:
        try:
            control.use("file", 256 * MIB)
        except MachineError as error:
            if len(Path("/proc/swaps").read_text().splitlines()) < 2:
                pytest.skip(f"no swap file can be had: {error.what}")
        yield


def test_above_the_limit_it_swaps(cgroup: Cgroup, python: Run):
    cgroup.set_limits(Limits(64 * MIB, 128 * MIB))
    assert python(TOUCH, "96").returncode == 0
    counters = cgroup.read()
    assert counters.oom_kills == 0
    assert counters.peak_bytes == 64 * MIB
    assert counters.limit_hits


def test_swap_is_limited_too(cgroup: Cgroup, python: Run):
    cgroup.set_limits(Limits(64 * MIB, 32 * MIB))
    assert python(TOUCH, "160").returncode == -9
    assert cgroup.read().oom_kills


def test_no_swap_means_none(cgroup: Cgroup, python: Run):
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


def test_above_a_throttle_it_goes_on(cgroup: Cgroup, python: Run):
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
