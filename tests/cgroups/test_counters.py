"""Counters read from files of each shape, and the reason for each that can't be."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from edgebench.cgroups import v1, v2
from edgebench.cgroups.counters import ONLY, Counters, CounterSource, parse_counters, read_counters
from edgebench.errors import CgroupError


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("4096\n", {ONLY: 4096}),
        ("anon 1\nfile 2\n", {"anon": 1, "file": 2}),
        ("8:0 Read 5\n8:0 Write 6\n8:16 Read 7\nTotal 18\n", {"Read": 12, "Write": 6, "Total": 18}),
        ("8:0 rbytes=5 wbytes=6\n8:16 rbytes=7 wbytes=8\n", {"rbytes": 12, "wbytes": 14}),
        (
            "some avg10=0.00 total=5\nfull avg10=0.10 total=3\n",
            {"some.total": 5, "full.total": 3},
        ),
        ("", {}),
        ("8:0 \n\n", {}),
    ],
)
def test_every_shape_of_file(text: str, numbers: dict[str, int]):
    """One number, keyed numbers, and both kinds of lines by device are told apart and added up."""
    assert parse_counters(text) == numbers


@pytest.mark.parametrize("tables", [(v1.SOURCES, v1.UNAVAILABLE), (v2.SOURCES, {})])
def test_every_counter_is_read_or_explained(tables: tuple[dict[str, object], dict[str, str]]):
    """Each version's tables together name every counter exactly once."""
    sources, unavailable = tables
    assert not set(sources) & set(unavailable)
    assert set(sources) | set(unavailable) == {field.name for field in fields(Counters)}


def test_what_is_not_there_is_none_with_a_reason(tmp_path: Path):
    """No controller, no file, no key: each is None, never 0, and says which of them it is."""
    (tmp_path / "memory.stat").write_text("anon 5\npgfault 9\n")
    sources = {
        "anon_bytes": CounterSource("memory", "memory.stat", "anon", 2),
        "kernel_bytes": CounterSource("memory", "memory.stat", "kernel"),
        "minor_faults": CounterSource("memory", "memory.stat", "pgfault", minus="pgmajfault"),
        "peak_bytes": CounterSource("memory", "memory.peak"),
        "cpu_ns": CounterSource("cpuacct", "cpuacct.usage"),
    }
    unavailable = {"slab_bytes": "never told"}
    counters, reasons = read_counters({"memory": tmp_path}, sources, unavailable)
    assert counters == Counters(anon_bytes=10)
    assert reasons == {
        "kernel_bytes": "this kernel's memory.stat has no kernel",
        "minor_faults": "this kernel's memory.stat has no pgmajfault",
        "peak_bytes": "this kernel has no readable memory.peak",
        "cpu_ns": "the cpuacct controller is not available here",
        "slab_bytes": "never told",
    }


def test_a_device_not_used_yet_is_a_real_zero(tmp_path: Path):
    """A file by device that is there and empty means no I/O; one that is not there, unknown."""
    (tmp_path / "io.stat").write_text("")
    read = {"io_read_bytes": CounterSource("memory", "io.stat", "rbytes", per_device=True)}
    assert read_counters({"memory": tmp_path}, read, {})[0].io_read_bytes == 0
    (tmp_path / "io.stat").unlink()
    assert read_counters({"memory": tmp_path}, read, {})[0].io_read_bytes is None


def test_kills_below_count_where_events_are_local(tmp_path: Path) -> None:
    """Version 2 mounted with ``memory_localevents``: kills in cgroups below are added up once."""
    cgroup = v2.V2Cgroup(tmp_path, lambda: None)
    assert cgroup.read().oom_kills is None
    below = tmp_path / "below"
    below.mkdir()
    for name in ("memory.events", "memory.events.local"):
        (tmp_path / name).write_text("max 3\noom_kill 1\n")
        (below / name).write_text("max 0\noom_kill 2\n")
    assert cgroup.read().oom_kills == 3
    (tmp_path / "memory.events").write_text("max 3\noom_kill 4\n")
    assert cgroup.read().oom_kills == 4


def test_a_limit_moves_on_version_2_by_one_file(tmp_path: Path) -> None:
    """Down and back to none; what the kernel did not apply is an error."""
    cgroup = v2.V2Cgroup(tmp_path, lambda: None)
    (tmp_path / "memory.max").write_text("max")
    assert cgroup.move_memory_limit(64 << 20, None) == 64 << 20
    assert (tmp_path / "memory.max").read_text() == str(64 << 20)
    assert cgroup.move_memory_limit(None, None) is None
    (tmp_path / "memory.max").unlink()
    (tmp_path / "memory.max").mkdir()
    with pytest.raises(CgroupError, match="refused"):
        cgroup.move_memory_limit(64 << 20, None)
