"""The typed files of version 2, on plain files, and errors that name what was refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgebench.cgroups.files import file_of, has, put, unified_files
from edgebench.errors import CgroupError


@pytest.mark.parametrize(
    ("name", "file", "value", "text"),
    [
        ("memory_max", "memory.max", 4096, "4096"),
        ("memory_max", "memory.max", None, "max"),
        ("swap_max", "memory.swap.max", 0, "0"),
        ("cpu_max", "cpu.max", 1.5, "150000 100000"),
        ("cpu_max", "cpu.max", None, "max 100000"),
        ("pids_max", "pids.max", 10, "10"),
        ("oom_group", "memory.oom.group", True, "1"),
        ("cpus", "cpuset.cpus", {0, 1, 3}, "0-1,3"),
    ],
)
def test_values_go_there_and_back(tmp_path: Path, name: str, file: str, value: object, text: str):
    """What is written is the kernel's own form, and reads back as it was given."""
    files = unified_files(tmp_path)
    assert not has(files, name)
    put(files, name, value)
    assert file_of(files, name) == tmp_path / file
    assert (tmp_path / file).read_text() == text
    assert getattr(files, name) == value


def test_a_refusal_names_file_and_value():
    """What the kernel won't take is one error with the file and the value."""
    files = unified_files(Path("/proc/self"))
    with pytest.raises(CgroupError, match="4096") as caught:
        put(files, "memory_max", 4096)
    assert caught.value.where == "/proc/self/memory.max"
