"""What cgroups support, in words: each finding, good and bad."""

from __future__ import annotations

from typing import Any

import pytest

from edgebench.cgroups import support
from edgebench.cgroups.support import Finding, no_support, support_findings
from edgebench.errors import CgroupError

PLACE: dict[str, Any] = {
    "version": 2,
    "path": "/sys/fs/cgroup/x",
    "hybrid": False,
    "ceiling_bytes": None,
    "throttle_bytes": None,
    "throttle_file": None,
    "cores": 4,
    "cpu_quota": None,
    "controllers": ["cpu", "cpuset", "io", "memory", "pids"],
    "swap_accounting": True,
    "peak": True,
    "peak_resets": True,
    "pressure": True,
}


def test_a_place_that_has_it_all() -> None:
    """Eight findings, all well, nothing to mend."""
    assert support_findings(PLACE) == [
        Finding("cgroup", True, "version 2, below /sys/fs/cgroup/x"),
        Finding("limit above", True, "none"),
        Finding("throttle above", True, "none"),
        Finding("CPUs", True, "4 cores"),
        Finding("controllers", True, "cpu, cpuset, io, memory, pids"),
        Finding("swap accounting", True, "on"),
        Finding("kernel's peak", True, "kept by the kernel, reset at each layer"),
        Finding("pressure", True, "measured for each cgroup"),
    ]


@pytest.mark.parametrize(
    ("changed", "finding"),
    [
        (
            {"hybrid": True},
            Finding(
                "cgroup",
                True,
                "version 2, below /sys/fs/cgroup/x (hybrid: the other version is mounted too)",
            ),
        ),
        (
            {"ceiling_bytes": 512 << 20},
            Finding(
                "limit above",
                None,
                "512.0 MiB: no trial can use more",
                "keep the scenario's limits below it",
            ),
        ),
        (
            {"throttle_bytes": 1 << 30, "throttle_file": "/f/memory.high"},
            Finding(
                "throttle above",
                None,
                "memory.high of 1.00 GiB",
                support.THROTTLED.format(file="/f/memory.high"),
            ),
        ),
        ({"cores": 2}, Finding("CPUs", True, "2 cores")),
        ({"cores": 1}, Finding("CPUs", None, "1 core", support.FEW_CPUS)),
        (
            {"cpu_quota": 1.5},
            Finding("CPUs", None, "4 cores, no more than 1.5 at a time", support.FEW_CPUS),
        ),
        ({"cpu_quota": 2.0}, Finding("CPUs", True, "4 cores, no more than 2 at a time")),
        (
            {"controllers": ["cpu", "memory"]},
            Finding(
                "controllers", None, "cpu, memory; not cpuset, io, pids", support.NO_CONTROLLER
            ),
        ),
        (
            {"version": 1},
            Finding(
                "controllers",
                None,
                "cpu, cpuset, io, memory, pids; not blkio, cpuacct",
                support.NO_CONTROLLER,
            ),
        ),
        (
            {"swap_accounting": False},
            Finding("swap accounting", None, "off", support.NO_SWAP_ACCOUNTING),
        ),
        (
            {"peak_resets": False},
            Finding(
                "kernel's peak", None, "kept by the kernel, but can't be reset", support.NO_RESET
            ),
        ),
        (
            {"peak": False, "peak_resets": False},
            Finding("kernel's peak", None, "not kept by this kernel", support.NO_PEAK),
        ),
        ({"pressure": False}, Finding("pressure", None, "not measured", support.NO_PSI)),
        (
            {"pressure": False, "version": 1},
            Finding("pressure", None, "cgroup version 1 has none"),
        ),
    ],
)
def test_a_place_that_lacks_one_thing(changed: dict[str, Any], finding: Finding) -> None:
    """It says what is lacking and what to do about it."""
    assert finding in support_findings({**PLACE, **changed})


def test_no_place_at_all() -> None:
    """What is wrong, where, and the remedy."""
    error = CgroupError("no cgroup can be made", where="/x", remedy="be root")
    assert no_support(error) == [Finding("cgroup", False, "no cgroup can be made (/x)", "be root")]
    assert no_support(CgroupError("none")) == [Finding("cgroup", False, "none", None)]
