"""Counters read from files of each shape and in their units, and why one can't be read."""

from __future__ import annotations

import os
from dataclasses import fields
from pathlib import Path

import pytest
from kernel_files import plain_cgroup, write_files

from edgebench.cgroups import v1, v2
from edgebench.cgroups.interface import (
    Counters,
    CounterSource,
    HotFiles,
    read_counters,
)

PAGE = os.sysconf("SC_PAGE_SIZE")
TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
#: What both versions tell of the files in kernel_files.py: faults without the 17 major ones,
#: 71 + 80 and 72 + 91 bytes of two disks.
BOTH = {
    "usage_bytes": 40100, "peak_bytes": 40700, "swap_bytes": 330, "anon_bytes": 6000,
    "file_bytes": 5000, "mapped_file_bytes": 800, "shmem_bytes": 700, "kernel_bytes": 1200,
    "minor_faults": 103, "major_faults": 17, "refault_anon": 21, "refault_file": 23,
    "swapped_in_bytes": 11 * PAGE, "swapped_out_bytes": 13 * PAGE, "io_read_bytes": 151,
    "io_write_bytes": 163,
}  # fmt: skip
#: Version 1: clock ticks, 3 hits of memory's limit and 4 of memory + swap's, kills of the cgroup
#: below too. Version 2: microseconds.
OWN = {
    1: {
        "cpu_ns": 1234567, "user_ns": 31 * TICK_NS, "system_ns": 19 * TICK_NS,
        "throttled_ns": 63, "limit_hits": 7, "oom_kills": 8,
    },
    2: {
        "cpu_ns": 77_000, "user_ns": 50_000, "system_ns": 27_000, "throttled_ns": 63_000,
        "limit_hits": 7, "oom_kills": 2, "swap_peak_bytes": 350, "page_tables_bytes": 340,
        "slab_bytes": 410, "pressure_some_us": 95, "pressure_full_us": 73,
    },
}  # fmt: skip


@pytest.mark.parametrize("version", [1, 2])
def test_each_counter_has_its_file_and_unit(tmp_path: Path, version: int) -> None:
    cgroup = plain_cgroup(tmp_path / "own", version)
    write_files(tmp_path / "own" / "below", {"memory.oom_control": "oom_kill 6\n"})
    assert cgroup.read() == Counters(**BOTH, **OWN[version])
    unknown = {field.name for field in fields(Counters)} - {*BOTH, *OWN[version]}
    assert set(cgroup.missing()) == unknown


def test_the_files_that_are_watched(tmp_path: Path) -> None:
    """Each by what it holds; reading memory.stat, or what lies beside it, flushes statistics."""
    folder = tmp_path / "1"
    assert plain_cgroup(folder, 1).hot_files() == HotFiles(
        usage=folder / "memory.usage_in_bytes",
        peak=folder / "memory.max_usage_in_bytes",
        peak_resets=True,
        swap=folder / "memory.memsw.usage_in_bytes",
        swap_is_memsw=True,
        stat=folder / "memory.stat",
        kernel=folder / "memory.kmem.usage_in_bytes",
        cpu=folder / "cpuacct.usage",
        io=folder / "blkio.throttle.io_service_bytes_recursive",
        flushing=("stat", "cpu", "io"),
    )
    folder = tmp_path / "2"
    two = plain_cgroup(folder, 2).hot_files()
    assert two == HotFiles(
        usage=folder / "memory.current",
        peak=folder / "memory.peak",
        peak_resets=True,
        swap=folder / "memory.swap.current",
        stat=folder / "memory.stat",
        cpu=folder / "cpu.stat",
        cpu_unit_ns=1000,
        pressure=folder / "memory.pressure",
        io=folder / "io.stat",
        flushing=("stat", "cpu", "io"),
    )
    assert (two.without_flushing().stat, two.without_flushing().cpu) == (None, None)
    plain_cgroup(tmp_path / "0", 1)
    folders = {"memory": tmp_path / "1", "cpuacct": tmp_path / "0", "blkio": tmp_path / "0"}
    apart = v1.V1Cgroup(folders, lambda: None)
    assert apart.hot_files().flushing == ("stat",)
    assert apart.join_files() == tuple(tmp_path / n / "cgroup.procs" for n in ("0", "1"))
    bare = plain_cgroup(tmp_path / "3", 2, memory__peak="", memory__pressure="").hot_files()
    assert (bare.peak, bare.peak_resets, bare.pressure) == (None, False, None)


def test_what_is_not_there_is_none_with_a_reason(tmp_path: Path) -> None:
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


def test_a_device_not_used_yet_is_a_real_zero(tmp_path: Path) -> None:
    """Version 2's file without a device means no I/O; version 1's, that the kernel counts none."""
    cgroup = plain_cgroup(tmp_path / "2", 2)
    for text in ("", "8:0 \n\n"):
        (tmp_path / "2" / "io.stat").write_text(text)
        assert cgroup.read().io_read_bytes == 0
    (tmp_path / "2" / "io.stat").unlink()
    assert cgroup.read().io_read_bytes is None
    io = "blkio.throttle.io_service_bytes_recursive"
    first = plain_cgroup(tmp_path / "1", 1)
    (tmp_path / "1" / io).write_text("Total 0\n")
    assert (first.read().io_read_bytes, first.read().io_write_bytes) == (None, None)


def test_kills_below_count_where_events_are_local(tmp_path: Path) -> None:
    """Version 2 mounted with ``memory_localevents``: kills in cgroups below are added up once."""
    cgroup = v2.V2Cgroup(tmp_path, lambda: None)
    assert cgroup.read().oom_kills is None
    below = tmp_path / "below"
    for folder, kills in ((tmp_path, 1), (below, 2)):
        texts = dict.fromkeys(("memory.events", "memory.events.local"), f"oom_kill {kills}\n")
        write_files(folder, texts)
    assert cgroup.read().oom_kills == 3
    (tmp_path / "memory.events").write_text("max 3\noom_kill 4\n")
    assert cgroup.read().oom_kills == 4
