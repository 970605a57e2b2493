"""What cgroups above ours hold us to, whoever set it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from edgebench.cgroups.files import cpu_files, has, memory_files, unified_files
from edgebench.cgroups.v1 import UNLIMITED


def ceiling_bytes(version: int, memory: Path) -> int | None:
    """The tightest memory limit at or above our cgroup, as far as it shows; None for none."""
    if version == 1:
        ceiling: int = memory_files(memory).stat["hierarchical_memory_limit"]
        return None if ceiling >= UNLIMITED else ceiling
    limits = [unified_files(folder).memory_max for folder in _upwards(memory, "memory.max")]
    return min((limit for limit in limits if limit is not None), default=None)


def throttle(memory: Path) -> tuple[int, Path] | None:
    """The tightest ``memory.high`` at or above our cgroup and its file; version 1 has none."""
    found = []
    for folder in _upwards(memory, "memory.high"):
        high = unified_files(folder).memory_high
        if high is not None:
            found.append((high, folder / "memory.high"))
    return min(found, default=None)


def cpu_quota(version: int, cpu: Path) -> float | None:
    """The tightest CPU quota at or above our cgroup, in cores; None for none."""
    quotas = _quotas_v1(cpu) if version == 1 else _quotas_v2(cpu)
    return min((quota for quota in quotas if quota is not None), default=None)


def _quotas_v1(cpu: Path) -> Iterator[float | None]:
    for folder in _upwards(cpu, "cpu.cfs_quota_us"):
        files = cpu_files(folder)
        quota = files.cfs_quota_us
        yield None if quota is None or quota < 0 else quota / files.cfs_period_us


def _quotas_v2(cpu: Path) -> Iterator[float | None]:
    for folder in _upwards(cpu, "cpu.max"):
        files: Any = unified_files(folder)
        yield files.cpu_max if has(files, "cpu_max") else None


def _upwards(folder: Path, name: str) -> list[Path]:
    """The folder and those above it that have such a file."""
    return [path for path in (folder, *folder.parents) if (path / name).exists()]
