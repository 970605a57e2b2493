"""Kernels of other kinds, made of plain files: which keys count, and what is not told."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from edgebench.cgroups.interface import HotFiles
from edgebench.cgroups.sampler import SAME_BYTES, _SlowPace, numbers
from edgebench.cgroups.sampler_process import SamplerProcess, SampleSummary
from edgebench.errors import MachineError
from tests.cgroups.sampling.conftest import MadeUp

V1_STAT = (
    "cache 1\nrss 2\nshmem 3\npgmajfault 4\ntotal_cache 50\ntotal_rss 60\ntotal_rss_huge 9\n"
    "total_shmem 7\ntotal_mapped_file 8\ntotal_pgmajfault 5\n"
)
V2_STAT = "anon 60\nfile 50\nkernel 11\nshmem 7\nfile_mapped 8\npgmajfault 5\n"


def sampled(hot: HotFiles, folder: Path) -> tuple[SampleSummary, dict[str, int], dict[str, int]]:
    """A moment's sampling: its summary, and the last row of the fast and of the slow table."""
    sampler = SamplerProcess(hot, folder, stat_interval_s=0.001)
    sampler.start()
    time.sleep(0.02)
    sampler.stop()
    summary = sampler.summary()
    sampler.pack(folder / "s.npz")
    archive = np.load(folder / "s.npz")
    fast, stat = (
        dict(zip(archive[name].dtype.names, archive[name][-1].tolist(), strict=True))
        for name in ("fast", "stat")
    )
    return summary, fast, stat


@pytest.mark.process
def test_version_1_counts_the_cgroups_below(made_up: MadeUp, folder: Path) -> None:
    """The total_ keys are read, swap is memory + swap less memory, kernel memory has its file."""
    files = {
        "memory.usage_in_bytes": "122\n",
        "memory.memsw.usage_in_bytes": "162\n",
        "memory.kmem.usage_in_bytes": "12\n",
        "memory.stat": V1_STAT + "total_swap 33\n",
        "cpuacct.usage": "1234567\n",
    }
    hot = made_up(
        "memory.usage_in_bytes",
        files,
        swap="memory.memsw.usage_in_bytes",
        swap_is_memsw=True,
        stat="memory.stat",
        kernel="memory.kmem.usage_in_bytes",
        cpu="cpuacct.usage",
    )
    summary, fast, stat = sampled(hot, folder)
    assert (fast["usage_bytes"], fast["swap_bytes"], fast["cpu_ns"]) == (122, 40, 1234567)
    assert (stat["anon_bytes"], stat["file_bytes"], stat["major_faults"]) == (60, 50, 5)
    assert stat["kernel_bytes"] == 12
    assert summary == SampleSummary(
        122,
        33,
        60 + 7 + 33 + 8 + 12,
        "sampled anon+shmem+swap+kernel+mapped_file and peak",
        60 + 7 + 33 + 12,
    )


@pytest.mark.process
def test_version_1_without_swap_accounting(made_up: MadeUp, folder: Path) -> None:
    """Such a kernel (swapaccount=0) has version 1's keys all the same; swap is not told."""
    files = {"memory.usage_in_bytes": "110\n", "memory.stat": V1_STAT}
    hot = made_up("memory.usage_in_bytes", files, stat="memory.stat")
    summary, fast, stat = sampled(hot, folder)
    assert (fast["swap_bytes"], fast["cpu_ns"], stat["swap_bytes"]) == (-1, -1, -1)
    assert stat["anon_bytes"] == 60
    assert summary.swap_peak_bytes is None
    assert summary.demand_bytes == 60 + 7 + 8
    assert summary.demand_source == "sampled anon+shmem+mapped_file and peak"


@pytest.mark.process
def test_version_2_in_its_own_units(made_up: MadeUp, folder: Path) -> None:
    """Swap is swap alone, CPU comes in µs, pressure and I/O by device are understood."""
    files = {
        "memory.current": "130\n",
        "memory.peak": "180\n",
        "memory.swap.current": "40\n",
        "memory.stat": V2_STAT,
        "cpu.stat": "usage_usec 77\nuser_usec 50\nsystem_usec 27\n",
        "memory.pressure": "some avg10=0.00 total=5\nfull avg10=0.10 avg300=0.00 total=3\n",
        "io.stat": "8:0 rbytes=5 wbytes=6 rios=1\n8:16 rbytes=7 wbytes=8\n",
    }
    hot = made_up(
        "memory.current",
        files,
        peak="memory.peak",
        swap="memory.swap.current",
        stat="memory.stat",
        cpu="cpu.stat",
        cpu_unit_ns=1000,
        pressure="memory.pressure",
        io="io.stat",
    )
    summary, fast, stat = sampled(hot, folder)
    assert (fast["usage_bytes"], fast["swap_bytes"], fast["cpu_ns"]) == (130, 40, 77_000)
    assert (stat["pressure_full_us"], stat["io_read_bytes"], stat["io_write_bytes"]) == (3, 12, 14)
    assert summary.swap_peak_bytes == 40
    # What came and went before the first sample; nothing was swapped then.
    assert stat["peak_bytes"] == 180
    assert summary.demand_bytes == 180 - (50 - 7) + 8


@pytest.mark.process
def test_an_old_version_2_kernel_without_kernel_and_swap(made_up: MadeUp, folder: Path) -> None:
    """What 5.15 does not tell is -1 in the rows and left out of demand, never a 0."""
    files = {"memory.current": "130\n", "memory.stat": V2_STAT.replace("kernel 11\n", "")}
    summary, fast, stat = sampled(made_up("memory.current", files, stat="memory.stat"), folder)
    assert (fast["swap_bytes"], stat["kernel_bytes"]) == (-1, -1)
    assert summary.swap_peak_bytes is None
    assert summary.demand_source == "sampled anon+shmem+mapped_file and peak"


@pytest.mark.process
def test_usage_alone_is_enough(made_up: MadeUp, folder: Path) -> None:
    """With nothing but usage there is a sampled peak and no demand."""
    sampler = SamplerProcess(made_up("memory.current", {"memory.current": "130\n"}), folder)
    sampler.start()
    sampler.stop()
    assert sampler.summary() == SampleSummary(130, None, None, None)


@pytest.mark.parametrize(
    ("text", "shapes", "told"),
    [
        (b"4096\n", ["bare"], [4096]),
        (b"some avg10=0.00 total=5\nfull avg10=0.10 total=3\n", ["full"], [3]),
        (b"8:0 rbytes=5 wbytes=6\n8:16 rbytes=7 wbytes=8\n", ["rbytes=", "wbytes="], [12, 14]),
        (b"", ["rbytes=", "wbytes="], [0, 0]),
        (b"8:0 Read 5\n8:0 Write 6\n8:16 Read 7\nTotal 18\n", ["Read", "Write"], [12, 6]),
        (b"Total 0\n", ["Read", "Write"], [-1, -1]),
    ],
)
def test_small_files_of_each_shape(text: bytes, shapes: list[str], told: list[int]) -> None:
    """Version 2 with no device has done no I/O; version 1 with none does not count it."""
    assert numbers(text, shapes) == told


@pytest.mark.process
def test_a_file_that_is_not_there_is_said_at_once(folder: Path) -> None:
    """A sampler that can't start says why, and nothing keeps running."""
    sampler = SamplerProcess(HotFiles(folder / "gone"), folder)
    with pytest.raises(MachineError, match=r"the sampler did not start: .*gone"):
        sampler.start()
    assert sampler.stop().samples == 0


def test_stopping_what_never_started_tells_nothing(folder: Path) -> None:
    """No rows: no pace, no peak, an empty archive; and no exception."""
    sampler = SamplerProcess(HotFiles(folder / "usage"), folder)
    report = sampler.stop()
    assert (report.samples, report.achieved_s, report.largest_gap_s) == (0, None, None)
    assert (report.cpu_s, report.rss_bytes) == (None, None)
    assert sampler.summary() == SampleSummary(None, None, None, None)
    sampler.pack(folder / "s.npz")
    assert len(np.load(folder / "s.npz")["fast"]) == 0


@pytest.mark.process
def test_a_row_cut_by_a_full_disk_is_left_out(made_up: MadeUp, folder: Path) -> None:
    """Half a row at the end does not shift or spoil the whole ones."""
    sampler = SamplerProcess(made_up("memory.current", {"memory.current": "130\n"}), folder)
    sampler.start()
    whole = sampler.stop().samples
    with (folder / "fast.i64").open("ab") as file:
        file.write(b"\0" * 12)
    assert sampler.stop().samples == whole
    sampler.pack(folder / "s.npz")
    assert set(np.load(folder / "s.npz")["fast"]["usage_bytes"]) == {130}


@pytest.mark.process
def test_a_sampler_killed_alone_leaves_what_it_had_written(made_up: MadeUp, folder: Path) -> None:
    """Its rows so far count; what it cost is not known then, rather than 0."""
    sampler = SamplerProcess(
        made_up("memory.current", {"memory.current": "130\n"}), folder, interval_s=0.0001
    )
    sampler.start()
    deadline = time.monotonic() + 200
    while (folder / "fast.i64").stat().st_size == 0 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert sampler._process is not None
    sampler._process.kill()
    report = sampler.stop()
    assert report.samples > 0
    assert report.cpu_s is None
    assert sampler.summary().sampled_peak_bytes == 130


def test_without_exact_peaks_it_never_reads_less_often(folder: Path) -> None:
    """A kernel whose mark can't be reset leaves layers' peaks to the samples."""
    for resets in (False, True):
        sampler = SamplerProcess(HotFiles(folder / "usage", peak_resets=resets), folder)
        assert (sampler.watching.quiet_interval_s is not None) == resets


def test_of_rare_samples_the_interval_is_that_after_a_change(folder: Path) -> None:
    """Where it may have meant to wait longer, a gap says nothing of how well it did."""
    sampler = SamplerProcess(HotFiles(folder / "usage", peak_resets=True), folder)
    rows = [(0, 0), (10, 0), (20, 9 << 20), (21, 9 << 20), (31, 0), (34, 0)]
    made = np.array([(t * 1_000_000, size, 0, 0) for t, size in rows], dtype=np.int64)
    sampler._files[0].write_bytes(made.tobytes())
    report = sampler.stop()
    assert (report.achieved_s, report.largest_gap_s) == (0.002, 0.01)


def test_how_even_the_samples_are_is_reckoned_from_their_times(folder: Path) -> None:
    """The median of the gaps and the largest, in seconds; none of a single sample."""
    sampler = SamplerProcess(HotFiles(folder / "usage"), folder)
    for times, told in (((0, 1, 3, 9), (0.002, 0.006, 4)), ((5,), (None, None, 1))):
        rows = np.array([(t * 1_000_000, 0, 0, 0) for t in times], dtype=np.int64)
        sampler._files[0].write_bytes(rows.tobytes() + b"torn")
        report = sampler.stop()
        assert (report.achieved_s, report.largest_gap_s, report.samples) == told
        assert (report.cpu_s, report.rss_bytes) == (None, None)


def readings(interval_ms: int, quiet_ms: int, usage: list[int]) -> list[int]:
    """At which milliseconds the slow files are read, where usage is this at each."""
    pace = _SlowPace(interval_ms * 1_000_000, quiet_ms * 1_000_000)
    rows = enumerate(usage)
    return [ms for ms, size in rows if pace.is_due(ms * 1_000_000, (ms, size, 0, 0))]


def test_slow_files_are_read_less_often_while_usage_stays_the_same() -> None:
    """Every 50 ms then; at the first reading after a change, and every 10 ms while it goes on."""
    still = [0] * 100
    assert readings(10, 50, still) == [0, 50]
    assert readings(10, 10, still) == list(range(0, 100, 10))
    step = [0] * 73 + [4 * SAME_BYTES] * 60
    assert readings(10, 50, step) == [0, 50, 73, 123]
    grows = [ms * SAME_BYTES for ms in range(60)]
    assert readings(10, 50, grows) == list(range(0, 60, 10))


def test_an_interval_that_was_asked_for_is_kept(folder: Path) -> None:
    """Of usage and of the slow files each; neither is shorter than usage's."""
    hot = HotFiles(folder / "usage", peak_resets=True)
    asked = {(None, None): (0.005, 0.05), (None, 0.02): (0.005, None), (0.03, None): (None, None)}
    for intervals, quiet in asked.items():
        told = SamplerProcess(hot, folder, *intervals).watching
        assert (told.quiet_interval_s, told.quiet_slow_interval_s) == quiet
    assert told.slow_interval_s == 0.03


@pytest.mark.process
def test_it_ends_at_once_however_long_its_interval(made_up: MadeUp, folder: Path) -> None:
    """It needn't be killed, so what it cost is known."""
    hot = made_up("memory.current", {"memory.current": "130\n"})
    sampler = SamplerProcess(hot, folder, interval_s=60)
    sampler.start()
    assert sampler.stop().cpu_s is not None
