"""What a place for cgroups lacks: each finding, and whether sweeps run all the same."""

from __future__ import annotations

from typing import Any

import pytest

from edgebench.cgroups.kernel_checks import support_findings

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


@pytest.mark.parametrize(
    ("changed", "lacking"),
    [
        ({}, None),
        # A second version does no harm, and two processors are enough.
        ({"hybrid": True}, None),
        ({"cores": 2}, None),
        ({"cpu_quota": 2.0}, None),
        ({"ceiling_bytes": 512 << 20}, "limit above"),
        ({"throttle_bytes": 1 << 30, "throttle_file": "/f/memory.high"}, "throttle above"),
        ({"cores": 1}, "CPUs"),
        ({"cpu_quota": 1.9}, "CPUs"),
        ({"controllers": ["cpu", "cpuset", "pids"]}, "controllers"),
        ({"version": 1}, "controllers"),
        ({"swap_accounting": False}, "swap accounting"),
        ({"peak_resets": False}, "kernel's peak"),
        ({"peak": False, "peak_resets": False}, "kernel's peak"),
        ({"pressure": False}, "pressure"),
    ],
)
def test_what_a_place_lacks_is_found(changed: dict[str, Any], lacking: str | None) -> None:
    """Alone, with a remedy; and sweeps run."""
    findings = {one.name: one for one in support_findings({**PLACE, **changed})}
    assert len(findings) == 8
    found = {name: one for name, one in findings.items() if one.ok is not True}
    assert set(found) == ({lacking} if lacking else set())
    assert {one.ok for one in found.values()} <= {None}
    assert all(one.remedy for one in found.values())
