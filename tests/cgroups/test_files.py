"""The typed files of version 2, on plain files, and errors that name what was refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgebench.cgroups.files import (
    check_applied,
    check_cores,
    file_of,
    has,
    put,
    unified_files,
)
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


@pytest.mark.parametrize("got", [8192, 8191, 4097])
def test_a_limit_is_rounded_down_to_whole_pages(tmp_path: Path, got: int):
    """Less than a page below what was asked for; without a limit any is right."""
    check_applied(8192, got, tmp_path)
    check_applied(None, got, tmp_path)


@pytest.mark.parametrize(("got", "words"), [(8193, "8193"), (4096, "4096"), (None, "max")])
def test_a_limit_that_was_not_applied_is_told(tmp_path: Path, got: int | None, words: str):
    """What was asked for, what the kernel has, and which sizes it takes."""
    with pytest.raises(CgroupError) as refused:
        check_applied(8192, got, tmp_path)
    what = f"a limit of 8192 bytes was not applied: the kernel has {words}"
    assert (refused.value.what, refused.value.where) == (what, str(tmp_path))
    assert refused.value.remedy == "choose another size, in whole pages: 64M"


def test_cores_that_this_process_may_not_use_are_named(monkeypatch: pytest.MonkeyPatch):
    """And those that it may."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 2})
    check_cores((0, 2))
    check_cores(None)
    with pytest.raises(CgroupError) as refused:
        check_cores((3, 0, 1))
    assert refused.value.what == "this process can't use the cores [1, 3]"
    assert refused.value.remedy == "choose from [0, 2]"
