"""Limits set at or above the current cgroup, read from cgroups made of plain files."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgebench.cgroups.hierarchy import (
    cpu_quota_above,
    memory_high_above,
    memory_limit_above,
)


@pytest.fixture
def inner(tmp_path: Path) -> Path:
    """A cgroup in a cgroup."""
    folder = tmp_path / "outer" / "inner"
    folder.mkdir(parents=True)
    return folder


def test_the_tightest_limit_of_version_2_counts(inner: Path):
    """Ours or one above; ``max`` is none."""
    assert memory_limit_above(2, inner) is None
    (inner / "memory.max").write_text("max\n")
    assert memory_limit_above(2, inner) is None
    for ours, above in (("3000000", "2000000"), ("2000000", "3000000"), ("max", "2000000")):
        (inner / "memory.max").write_text(ours)
        (inner.parent / "memory.max").write_text(above)
        assert memory_limit_above(2, inner) == 2_000_000


@pytest.mark.parametrize(("limit", "ceiling"), [(4096, 4096), (0x7FFFFFFFFFFFF000, None)])
def test_the_kernel_tells_version_1_s(inner: Path, limit: int, ceiling: int | None):
    """Its largest number means none."""
    (inner / "memory.stat").write_text(f"cache 1\nhierarchical_memory_limit {limit}\n")
    assert memory_limit_above(1, inner) == ceiling


def test_the_tightest_throttle_and_its_file(inner: Path):
    """``max`` is none."""
    (inner / "memory.high").write_text("max\n")
    assert memory_high_above(inner) is None
    (inner.parent / "memory.high").write_text("5000\n")
    assert memory_high_above(inner) == (5000, inner.parent / "memory.high")
    (inner / "memory.high").write_text("4000\n")
    assert memory_high_above(inner) == (4000, inner / "memory.high")


def test_the_tightest_quota_of_version_1(inner: Path):
    """In cores; -1 is none, and so is 0 of nothing to read."""
    assert cpu_quota_above(1, inner) is None
    for folder, quota in ((inner, "-1"), (inner.parent, "-1")):
        (folder / "cpu.cfs_quota_us").write_text(quota)
        (folder / "cpu.cfs_period_us").write_text("50000")
    assert cpu_quota_above(1, inner) is None
    (inner.parent / "cpu.cfs_quota_us").write_text("75000")
    assert cpu_quota_above(1, inner) == 1.5
    (inner / "cpu.cfs_quota_us").write_text("50000")
    assert cpu_quota_above(1, inner) == 1.0


def test_the_tightest_quota_of_version_2(inner: Path):
    """In cores; ``max`` is none."""
    assert cpu_quota_above(2, inner) is None
    (inner / "cpu.max").write_text("max 100000")
    assert cpu_quota_above(2, inner) is None
    (inner.parent / "cpu.max").write_text("250000 100000")
    assert cpu_quota_above(2, inner) == 2.5
    (inner / "cpu.max").write_text("50000 100000")
    assert cpu_quota_above(2, inner) == 0.5
