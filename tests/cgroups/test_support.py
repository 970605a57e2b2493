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
    findings = support_findings(PLACE)
    assert len(findings) == 8
    assert {(one.ok, one.remedy) for one in findings} == {(True, None)}
    says = {one.name: one.says for one in findings}
    assert (says["limit above"], says["throttle above"], says["CPUs"]) == (
        "none",
        "none",
        "4 cores",
    )
    assert says["controllers"] == "cpu, cpuset, io, memory, pids"


@pytest.mark.parametrize(
    ("changed", "name", "says", "remedy"),
    [
        ({"ceiling_bytes": 512 << 20}, "limit above", "512.0 MiB", "keep the scenario's limits"),
        (
            {"throttle_bytes": 1 << 30, "throttle_file": "/f/memory.high"},
            *("throttle above", "1.00 GiB", "/f/memory.high"),
        ),
        ({"cores": 1}, "CPUs", "1 core", support.FEW_CPUS),
        ({"cpu_quota": 1.5}, "CPUs", "no more than 1.5", support.FEW_CPUS),
        ({"controllers": ["cpu"]}, "controllers", "not cpuset, io", support.NO_CONTROLLER),
        ({"version": 1}, "controllers", "not blkio, cpuacct", support.NO_CONTROLLER),
        ({"swap_accounting": False}, "swap accounting", "off", support.NO_SWAP_ACCOUNTING),
        ({"peak_resets": False}, "kernel's peak", "can't be reset", support.NO_RESET),
        ({"peak": False, "peak_resets": False}, "kernel's peak", "not kept", support.NO_PEAK),
        ({"pressure": False}, "pressure", "not measured", support.NO_PSI),
        ({"pressure": False, "version": 1}, "pressure", "version 1 has none", ""),
    ],
)
def test_a_place_that_lacks_one_thing(
    changed: dict[str, Any], name: str, says: str, remedy: str
) -> None:
    """It says what is lacking and what to do about it."""
    found = next(one for one in support_findings({**PLACE, **changed}) if one.name == name)
    assert found.ok is None
    assert says in found.says
    assert remedy in (found.remedy or "")


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"hybrid": True}, "the other version is mounted too"),
        ({"cores": 2}, "2 cores"),
        ({"cpu_quota": 2.0}, "no more than 2 at a time"),
    ],
)
def test_what_is_told_and_is_well(changed: dict[str, Any], says: str) -> None:
    """Two processors are enough, and a second version does no harm."""
    findings = support_findings({**PLACE, **changed})
    assert all(one.ok for one in findings)
    assert any(says in one.says for one in findings)


def test_no_place_at_all() -> None:
    """What is wrong, where, and the remedy."""
    error = CgroupError("no cgroup can be made", where="/x", remedy="be root")
    assert no_support(error) == [Finding("cgroup", False, "no cgroup can be made (/x)", "be root")]
    assert no_support(CgroupError("none")) == [Finding("cgroup", False, "none", None)]
