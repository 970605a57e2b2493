"""What is sampled of each version's files, when, and what the samples come to."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from kernel_files import plain_hot_files

from edgebench.cgroups import sampler
from edgebench.cgroups.interface import Counters, HotFiles
from edgebench.cgroups.sampler import SAME_BYTES, numbers
from edgebench.cgroups.sampler_process import (
    ONE_CORE_QUIET_INTERVAL_S,
    QUIET_INTERVAL_S,
    SamplerProcess,
    SampleSummary,
)
from tests.cgroups.sampling.conftest import BEGIN_NS, MS, Sampled

MIB = 1 << 20


def tables(made: SamplerProcess, folder: Path) -> list[np.ndarray]:
    with (folder / "samples.npz").open("wb") as file:
        made.pack(file)
    archive = np.load(folder / "samples.npz", allow_pickle=False)
    return [archive[name] for name in ("fast", "stat")]


#: Of the files in kernel_files.py; both versions have these.
STAT = {
    "anon_bytes": 6000, "file_bytes": 5000, "mapped_file_bytes": 800, "shmem_bytes": 700,
    "swap_bytes": 330, "major_faults": 17, "refault_anon": 21, "refault_file": 23,
    "kernel_bytes": 1200, "swapcached_bytes": 44, "peak_bytes": 40700, "io_read_bytes": 151,
    "io_write_bytes": 163,
}  # fmt: skip
#: Version → its fast row, and what else its slow row has. Version 1 tells memory + swap, 40603,
#: and CPU time in ns.
ROWS: dict[int, tuple[dict[str, int], dict[str, int]]] = {
    1: ({"usage_bytes": 40100, "swap_bytes": 503, "cpu_ns": 1234567}, {}),
    2: (
        {"usage_bytes": 40100, "swap_bytes": 330, "cpu_ns": 77_000},
        {"page_tables_bytes": 340, "slab_bytes": 410, "pressure_full_us": 73},
    ),
}


@pytest.mark.parametrize("version", ROWS)
def test_each_column_has_its_number(
    sampled: Sampled, tmp_path: Path, folder: Path, version: int
) -> None:
    made = sampled(plain_hot_files(tmp_path / "group", version))
    fast_row, more = ROWS[version]
    report = made.stop()
    assert (report.cpu_s, report.rss_bytes) == (0.25, 4096)
    # 40700 at the peak, less 5000 − 700 cached; 800 of these are mapped. No swap before it.
    assert made.summary() == SampleSummary(
        40100, 330, 36400 + 800, "sampled anon+shmem+swap+kernel+mapped_file and peak", 36400
    )
    # No process held more than 9000, beside shared and the kernel's memory.
    assert made.summary(resident_bytes=9000).undroppable_bytes == 9000 + 700 + 1200
    # anon, shmem, swap and kernel.
    between = made.held_between(BEGIN_NS + 40 * MS, BEGIN_NS + 90 * MS)
    assert between == ([1000.05], [6000 + 700 + 330 + 1200])
    for table, row in zip(tables(made, folder), (fast_row, STAT | more), strict=True):
        last = dict(zip(table.dtype.names, table[-1].tolist(), strict=True))
        assert table.dtype.names[0] == "t_ns"
        last.pop("t_ns")
        assert last == row


def test_what_a_kernel_does_not_tell_is_marked_and_left_out(
    sampled: Sampled, tmp_path: Path, folder: Path
) -> None:
    """-1 in the rows, never 0: without swap accounting, and as Linux 5.15 has version 2."""
    files = {"memory__memsw__usage_in_bytes": "", "cpuacct__usage": ""}
    hot = plain_hot_files(tmp_path / "group", 1, **files)
    stat = tmp_path / "group" / "memory.stat"
    stat.write_text(stat.read_text().replace("total_swap 330\n", ""))
    made = sampled(hot)
    found = made.summary()
    assert (found.swap_peak_bytes, found.demand_source) == (
        None,
        "sampled anon+shmem+kernel+mapped_file and peak",
    )
    fast, slow = tables(made, folder)
    assert (fast[-1]["swap_bytes"], fast[-1]["cpu_ns"], slow[-1]["swap_bytes"]) == (-1, -1, -1)
    usage = HotFiles(tmp_path / "group" / "memory.usage_in_bytes")
    assert sampled(usage).summary() == SampleSummary(40100, None, None, None)


def test_the_most_of_all_samples_counts(sampled: Sampled, tmp_path: Path) -> None:
    """Not the last or the first; of swap the exact column's; demand only until it is to count."""
    hot = plain_hot_files(tmp_path, 1, memory__max_usage_in_bytes="")
    text = (tmp_path / "memory.stat").read_text()

    def show(ms: int) -> None:
        # Most usage between two readings of statistics; most anonymous memory and swap at 80 ms.
        usage = 90 if 41 <= ms < 49 else 50 if 80 <= ms < 120 else 30
        anon = 20 if 40 <= ms < 80 else 40 if 80 <= ms < 120 else 10
        swapped = 7 if 80 <= ms < 120 else 3
        (tmp_path / "memory.usage_in_bytes").write_text(f"{usage * MIB}\n")
        (tmp_path / "memory.memsw.usage_in_bytes").write_text(f"{(usage + 5) * MIB}\n")
        changed = text.replace("total_rss 6000", f"total_rss {anon * MIB}")
        stat = changed.replace("total_swap 330", f"total_swap {swapped * MIB}")
        (tmp_path / "memory.stat").write_text(stat)

    made = sampled(hot, show, stat_interval_s=0.01)
    found = made.summary()
    assert (found.sampled_peak_bytes, found.swap_peak_bytes) == (90 * MIB, 7 * MIB)
    # The mark is the most usage that was sampled so far: 90 MiB less 4300 cached, 3 MiB in swap.
    assert found.undroppable_bytes == 93 * MIB - 4300
    early = made.summary(demand_until_ns=BEGIN_NS + 30 * MS)
    assert early.undroppable_bytes == 30 * MIB - 4300
    # The counters at the end are one more sample; of the kernel's memory they tell none: -1.
    end = Counters(anon_bytes=200 * MIB, swap_bytes=0, shmem_bytes=700, file_bytes=0)
    assert made.summary(end=end).undroppable_bytes == 200 * MIB + 700 - 1


@pytest.mark.parametrize(
    ("usage", "together", "after", "swap"),
    [
        (100, 130, 100, 30),
        # Usage grew by 40 before memory + swap was read: the second reading of usage shows it.
        (100, 140, 140, 0),
        # It fell after the first reading: the larger of both is taken off.
        (100, 130, 60, 30),
        (100, 60, 100, 0),
    ],
)
def test_memory_that_comes_or_goes_between_two_reads_is_no_swap(
    sampled: Sampled,
    tmp_path: Path,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    usage: int,
    together: int,
    after: int,
    swap: int,
) -> None:
    """Version 1 tells memory + swap: usage is read once before it, and again where it differs."""
    files = {"memory__usage_in_bytes": f"{usage}\n", "memory__memsw__usage_in_bytes": f"{together}"}
    hot, pread = plain_hot_files(tmp_path, 1, **files), os.pread

    def read(descriptor: int, size: int, offset: int) -> bytes:
        name = Path(f"/proc/self/fd/{descriptor}").readlink().name
        text = pread(descriptor, size, offset)
        if name.startswith("memory.memsw"):
            hot.usage.write_text(f"{after}\n")
        return text

    monkeypatch.setattr(sampler.os, "pread", read)
    made = sampled(hot, lambda ms: hot.usage.write_text(f"{usage}\n"), lasts_ms=5)
    assert tables(made, folder)[0][0]["swap_bytes"] == swap


def test_no_device_is_no_io_only_on_version_2() -> None:
    """Version 1 without one counts none."""
    assert numbers(b"", ["rbytes=", "wbytes="]) == [0, 0]
    assert numbers(b"8:0 Read 5\nTotal 5\n", ["Read", "Write"]) == [5, -1]


#: Bytes used at a millisecond, and what was asked for → milliseconds between the first readings.
PACES: dict[str, tuple[Callable[[int], int], float | None, list[float]]] = {
    # Twice as long each time up to 5 ms; after a reading that differs, a millisecond again.
    "rests": (lambda ms: 0 if ms < 100 else 2 * SAME_BYTES, None, [0, 2, 4, *[5] * 19, 1, 2, 4, 5]),
    "falls": (lambda ms: 2 * SAME_BYTES if ms < 9 else 0, None, [0, 2, 4, 5, 1, 2, 4, 5, 5]),
    # What the kernel charges ahead on its CPUs comes and goes all the time.
    "a small change is none": (lambda ms: ms % 2 * SAME_BYTES, None, [0, 2, 4, 5, 5, 5]),
    "each millisecond": (lambda ms: 2 * SAME_BYTES * ms, None, [0, 2, *[1] * 30]),
    "as asked for": (lambda ms: 0, 0.002, [0, *[2] * 30]),
}


@pytest.mark.parametrize("case", PACES)
def test_it_reads_as_often_as_usage_changes(
    sampled: Sampled, tmp_path: Path, folder: Path, case: str
) -> None:
    """Less often while it stays the same, unless it was asked for an interval."""
    usage, asked, gaps = PACES[case]
    file = tmp_path / "usage"
    hot = HotFiles(file, peak_resets=True)
    # The slow files are read once.
    intervals = {"interval_s": asked, "stat_interval_s": 1e6}
    made = sampled(hot, lambda ms: file.write_text(f"{usage(ms):>20}\n"), **intervals)
    times = tables(made, folder)[0]["t_ns"]
    assert (np.diff(times) / MS)[: len(gaps)].tolist() == gaps


#: Usage at each millisecond → at which of them the slow files are read, every 10 to 50 ms.
SLOW: list[tuple[Callable[[int], int], dict[str, float], Sequence[int]]] = [
    (lambda ms: 0, {}, (0, 50, 100)),
    (lambda ms: 0, {"stat_interval_s": 0.01}, range(0, 150, 10)),
    # At the first reading after a change, and every 10 ms while it goes on.
    (lambda ms: 4 * SAME_BYTES * (ms >= 75), {}, (0, 50, 75, 125)),
    # It falls by two of what is no change in 16 ms; usage is read at 16, 21, 26 … ms.
    (lambda ms: 8 * SAME_BYTES - min(ms, 60) * SAME_BYTES // 8, {}, (0, 21, 41, 61, 111)),
]


@pytest.mark.parametrize("of_swap", [False, True])
@pytest.mark.parametrize(("size", "intervals", "at_ms"), SLOW)
def test_slow_files_are_read_less_often_while_nothing_changes(
    sampled: Sampled,
    tmp_path: Path,
    folder: Path,
    size: Callable[[int], int],
    intervals: dict[str, float],
    at_ms: Sequence[int],
    of_swap: bool,
) -> None:
    hot = plain_hot_files(tmp_path, 2)
    assert hot.swap
    file = hot.swap if of_swap else hot.usage
    made = sampled(hot, lambda ms: file.write_text(f"{size(ms):>20}\n"), 149, **intervals)
    times = (tables(made, folder)[1]["t_ns"] - BEGIN_NS) / MS
    assert times[: len(at_ms)].tolist() == list(at_ms)


@pytest.mark.parametrize(
    ("interval_s", "stat_interval_s", "told"),
    [
        (None, None, (0.001, 0.01, QUIET_INTERVAL_S, 0.05)),
        (None, 0.02, (0.001, 0.02, QUIET_INTERVAL_S, None)),
        # The slow files are read no more often than usage.
        (0.03, None, (0.03, 0.03, None, None)),
        (0.002, 0.001, (0.002, 0.002, None, None)),
    ],
)
def test_an_interval_that_was_asked_for_is_kept(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    interval_s: float | None,
    stat_interval_s: float | None,
    told: tuple[float | None, ...],
) -> None:
    """Without exact peaks it never rests; on one core, where a reading stops all, it rests more."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    hot = plain_hot_files(tmp_path, 2)
    watching = SamplerProcess(hot, tmp_path, interval_s, stat_interval_s).watching
    assert (watching.usage_interval_s, watching.stat_interval_s) == told[:2]
    assert (watching.quiet_interval_s, watching.quiet_slow_interval_s) == told[2:]
    assert (watching.slow_interval_s, watching.flushes) == (told[1], True)
    bare = SamplerProcess(HotFiles(hot.usage), tmp_path).watching
    assert (bare.quiet_interval_s, bare.stat_interval_s, bare.flushes) == (None, None, False)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {1})
    if told[2]:
        alone = SamplerProcess(hot, tmp_path, interval_s, stat_interval_s).watching
        assert alone.quiet_interval_s == ONE_CORE_QUIET_INTERVAL_S


#: Milliseconds and bytes of each reading → the pace, the largest gap and the number of samples.
REPORTS: list[tuple[bool, list[tuple[int, int]], tuple[float | None, float | None, int]]] = [
    (False, [(0, 0), (1, 0), (3, 0), (10, 0), (11, 0)], (0.0015, 0.007, 5)),
    (False, [(5, 0)], (None, None, 1)),
    # Where it may have meant to wait longer, only a gap after a change tells how well it did.
    (
        True,
        [(0, 0), (10, 0), (20, 9 * MIB), (21, 9 * MIB), (31, 0), (34, 0), (44, 0)],
        (0.002, 0.01, 7),
    ),
]


@pytest.mark.parametrize(("rests", "rows", "told"), REPORTS)
def test_how_even_the_samples_are_is_reckoned_from_their_times(
    folder: Path,
    rests: bool,
    rows: list[tuple[int, int]],
    told: tuple[float | None, float | None, int],
) -> None:
    made = SamplerProcess(HotFiles(folder / "usage", peak_resets=rests), folder)
    table = np.array([(t * MS, size, 0, 0) for t, size in rows], dtype=np.int64)
    (folder / "fast.i64").write_bytes(table.tobytes() + b"torn")
    report = made.stop()
    assert (report.achieved_s, report.largest_gap_s, report.samples) == told
    assert (report.cpu_s, report.rss_bytes) == (None, None)


def test_stopping_what_never_started_tells_nothing(folder: Path) -> None:
    made = SamplerProcess(HotFiles(folder / "usage"), folder)
    report = made.stop()
    assert (report.samples, report.achieved_s, report.largest_gap_s) == (0, None, None)
    assert made.summary() == SampleSummary(None, None, None, None)
    assert [len(table) for table in tables(made, folder)] == [0, 0]
