"""The sampler on a real cgroup: what it sees, how it ends, what it costs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest

from edgebench.cgroups.interface import Cgroup
from edgebench.cgroups.join import join_command
from edgebench.cgroups.sampler import SAME_BYTES
from edgebench.cgroups.sampler_process import (
    FAST_COLUMNS,
    ONE_CORE_QUIET_INTERVAL_S,
    QUIET_INTERVAL_S,
    QUIET_STAT_INTERVAL_S,
    SamplerProcess,
)

pytestmark = pytest.mark.own_cgroup
MIB = 1 << 20
#: Holds 40 MiB of anonymous memory until its input ends.
HOLD = "import sys; b = b'x' * (40 << 20); print('held', flush=True); sys.stdin.read()"
ALLOCATED = 40 * MIB
#: The tables that it writes.
FAST, STAT = 0, 1
#: Starts a sampler, tells its pid and dies at once by SIGKILL.
DIE = """
import os, sys
from pathlib import Path
from edgebench.cgroups.interface import HotFiles
from edgebench.cgroups.sampler_process import SamplerProcess
sampler = SamplerProcess(HotFiles(Path(sys.argv[1])), Path(sys.argv[2]))
sampler.start()
print(sampler._process.pid, flush=True)
os.kill(os.getpid(), 9)
"""


def in_cgroup(cgroup: Cgroup, code: str) -> list[str]:
    """The command that runs lines of Python in the cgroup."""
    return join_command(cgroup, [sys.executable, "-I", "-S", "-c", code], None, None)


@contextmanager
def holding(cgroup: Cgroup) -> Iterator[None]:
    """A process of the cgroup holds its memory while the block runs."""
    with subprocess.Popen(
        in_cgroup(cgroup, HOLD), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield
    assert process.returncode == 0


def wait_until(happened: Callable[[], bool]) -> None:
    """Until it has."""
    deadline = time.monotonic() + 200
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def times_ns(sampler: SamplerProcess, table: int = FAST) -> np.ndarray:
    """When it took the rows that it has written."""
    columns = FAST_COLUMNS if table == FAST else sampler.stat_columns
    return np.array(sampler._rows(table)[:: len(columns)], dtype=np.int64)


def wait_for_rows(sampler: SamplerProcess, rows: int, table: int = FAST) -> None:
    """Until it has written so many."""
    wait_until(lambda: len(times_ns(sampler, table)) >= rows)


def wait_for_readings_from_now_on(sampler: SamplerProcess) -> None:
    """Until each table has a row that was taken after this call."""
    now_ns = time.monotonic_ns()
    for table in (FAST, STAT):
        wait_until(lambda table=table: times_ns(sampler, table)[-1:].max(initial=0) > now_ns)


def most_in_a_row(sampler: SamplerProcess, shorter_than_s: float, table: int = FAST) -> int:
    """How many gaps that are shorter than this follow each other."""
    short = np.diff(times_ns(sampler, table)) < shorter_than_s * 1e9
    return max((len(list(run)) for is_short, run in groupby(short) if is_short), default=0)


def test_it_sees_what_is_allocated(cgroup: Cgroup, folder: Path) -> None:
    """40 MiB that are held show in usage, anonymous memory and demand."""
    sampler = SamplerProcess(cgroup.hot_files(), folder)
    sampler.start()
    with holding(cgroup):
        wait_for_readings_from_now_on(sampler)
        wait_for_rows(sampler, 21)
    report, summary = sampler.stop(), sampler.summary()
    assert report.samples > 20
    for size in (summary.sampled_peak_bytes, summary.demand_bytes):
        assert size is not None
        assert ALLOCATED < size < ALLOCATED + 30 * MIB
    assert summary.demand_source is not None
    assert summary.demand_source.startswith("sampled anon+shmem")


def test_achieved_interval_and_largest_gap_are_of_the_rows(cgroup: Cgroup, folder: Path) -> None:
    """What the report says of the pace is what the rows' own times say."""
    sampler = SamplerProcess(cgroup.hot_files(), folder, interval_s=0.001)
    sampler.start()
    time.sleep(0.3)
    report = sampler.stop()
    sampler.pack(folder / "samples.npz")
    gaps_s = np.diff(np.load(folder / "samples.npz")["fast"]["t_ns"]) / 1e9
    assert report.achieved_s == pytest.approx(np.median(gaps_s))
    assert report.largest_gap_s == pytest.approx(gaps_s.max())
    assert report.interval_s == 0.001
    assert (gaps_s > 0).all()


def test_it_reads_less_often_while_nothing_changes(cgroup: Cgroup, folder: Path) -> None:
    """In an empty cgroup every 5 ms, unless it was asked for an interval.

    A process that is woken late makes one gap short, or two where it reads the slow files then.
    """
    if not cgroup.hot_files().peak_resets:
        pytest.skip("the mark can't be reset here")
    half_s = QUIET_INTERVAL_S / 2
    rests = SamplerProcess(cgroup.hot_files(), folder)
    rests.start()
    wait_for_rows(rests, 51)
    rests.stop()
    assert rests.watching.quiet_interval_s == QUIET_INTERVAL_S
    assert most_in_a_row(rests, half_s) < 4
    lasted_s = np.ptp(times_ns(rests)) / 1e9
    assert len(times_ns(rests)) < 2 * lasted_s / QUIET_INTERVAL_S
    asked = SamplerProcess(cgroup.hot_files(), folder, interval_s=0.001)
    asked.start()
    wait_until(lambda: most_in_a_row(asked, half_s) >= 8)
    asked.stop()
    assert asked.watching.quiet_interval_s is None


def test_on_one_core_it_rests_longer(cgroup: Cgroup, folder: Path) -> None:
    """Each reading stops the workload there: in an empty cgroup every 50 ms, as the slow files."""
    if not cgroup.hot_files().peak_resets:
        pytest.skip("the mark can't be reset here")
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        alone = SamplerProcess(cgroup.hot_files(), folder)
        alone.start()
        wait_for_rows(alone, 15)
        alone.stop()
    finally:
        os.sched_setaffinity(0, cores)
    assert alone.watching.quiet_interval_s == ONE_CORE_QUIET_INTERVAL_S
    # Its first pauses double up to that.
    lasted_s = np.ptp(times_ns(alone)) / 1e9
    assert len(times_ns(alone)) < 10 + 2 * lasted_s / ONE_CORE_QUIET_INTERVAL_S


def test_slow_files_are_read_less_often_while_nothing_changes(cgroup: Cgroup, folder: Path) -> None:
    """In an empty cgroup every 50 ms, unless they have an interval."""
    if not cgroup.hot_files().peak_resets:
        pytest.skip("the mark can't be reset here")
    rests = SamplerProcess(cgroup.hot_files(), folder)
    rests.start()
    wait_for_rows(rests, 4, STAT)
    rests.stop()
    # One that comes late keeps the pace where it is late by less than half of 10 ms.
    assert most_in_a_row(rests, QUIET_STAT_INTERVAL_S - 0.0051, STAT) == 0
    asked = SamplerProcess(cgroup.hot_files(), folder, stat_interval_s=0.01)
    asked.start()
    wait_until(lambda: most_in_a_row(asked, QUIET_STAT_INTERVAL_S / 2, STAT) >= 4)
    asked.stop()


def test_the_pace_is_that_of_readings_after_a_change(cgroup: Cgroup, folder: Path) -> None:
    """Where it may have meant to wait longer, a gap says nothing of how well it did."""
    if not cgroup.hot_files().peak_resets:
        pytest.skip("the mark can't be reset here")
    sampler = SamplerProcess(cgroup.hot_files(), folder)
    sampler.start()

    def changes() -> np.ndarray:
        usage = np.array(sampler._rows(FAST)[1 :: len(FAST_COLUMNS)], dtype=np.int64)
        return abs(np.diff(usage)) > SAME_BYTES

    while changes().sum() <= 3:
        with holding(cgroup):
            wait_for_readings_from_now_on(sampler)
    report = sampler.stop()
    gaps_s, moved = np.diff(times_ns(sampler)) / 1e9, changes()
    assert report.achieved_s == pytest.approx(np.median(gaps_s[1:][moved[:-1]]))


def test_samples_share_the_clock_of_events(cgroup: Cgroup, folder: Path) -> None:
    """The rows' times are CLOCK_MONOTONIC: they lie between ours before and after."""
    sampler = SamplerProcess(cgroup.hot_files(), folder)
    before = time.monotonic_ns()
    sampler.start()
    wait_for_rows(sampler, 10)
    sampler.stop()
    after = time.monotonic_ns()
    sampler.pack(folder / "samples.npz")
    times = np.load(folder / "samples.npz")["fast"]["t_ns"]
    assert before < times[0] < times[-1] < after


@pytest.mark.v2_core
@pytest.mark.quick
def test_cpu_time_rises_with_work(cgroup: Cgroup, folder: Path) -> None:
    """The CPU column never falls, and grows by what a busy process burns."""
    hot = cgroup.hot_files()
    if hot.cpu is None:
        pytest.skip("no CPU accounting here")
    sampler = SamplerProcess(hot, folder)
    sampler.start()
    busy = "import time\nbegan = time.process_time()\nwhile time.process_time() < began + 0.2: pass"
    subprocess.run(in_cgroup(cgroup, busy), check=True)
    sampler.stop()
    sampler.pack(folder / "samples.npz")
    cpu_ns = np.load(folder / "samples.npz")["fast"]["cpu_ns"]
    assert (np.diff(cpu_ns) >= 0).all()
    # The last reading is before the last of its work.
    assert cpu_ns[-1] - cpu_ns[0] > 0.1e9


def test_a_cgroup_removed_meanwhile_ends_it_quietly(cgroup: Cgroup, folder: Path) -> None:
    """When the cgroup goes, the sampler ends by itself; its rows and its cost are kept."""
    sampler = SamplerProcess(cgroup.hot_files(), folder)
    sampler.start()
    wait_for_rows(sampler, 11)
    cgroup.remove()
    process = sampler._process
    assert process is not None
    assert process.wait(200) == 0
    report = sampler.stop()
    assert report.samples > 10
    assert report.cpu_s is not None
    sampler.pack(folder / "samples.npz")
    assert len(np.load(folder / "samples.npz")["fast"]) == report.samples


def test_it_ends_when_its_harness_is_killed(cgroup: Cgroup, folder: Path) -> None:
    """A harness ended by SIGKILL leaves no sampler behind."""
    usage = cgroup.hot_files().usage
    words = [sys.executable, "-c", DIE, str(usage), str(folder)]
    done = subprocess.run(words, stdout=subprocess.PIPE, check=False, cwd=Path(__file__).parents[3])
    assert done.returncode == -9
    pid = int(done.stdout)
    deadline = time.monotonic() + 200
    while _is_sampler(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not _is_sampler(pid)


def test_it_is_small(cgroup: Cgroup, folder: Path) -> None:
    """Less than 12 MB resident at its most, as it tells of itself."""
    # Fast, so that the kernel counts CPU time of it: it does so in steps of 10 ms.
    sampler = SamplerProcess(cgroup.hot_files(), folder, interval_s=0.0005)
    sampler.start()
    wait_for_rows(sampler, 1000)
    report = sampler.stop()
    assert report.rss_bytes is not None
    assert 1e6 < report.rss_bytes < 12e6
    assert report.cpu_s is not None
    assert report.cpu_s > 0


def test_it_is_not_in_the_cgroup_it_watches(cgroup: Cgroup, folder: Path) -> None:
    """The sampler itself is charged to the harness, never to the trial."""
    sampler = SamplerProcess(cgroup.hot_files(), folder)
    sampler.start()
    assert cgroup.pids() == ()
    sampler.stop()


def test_the_raw_files_are_gone_once_packed(cgroup: Cgroup, folder: Path) -> None:
    """Packing leaves one archive, with columns in the order that is promised."""
    sampler = SamplerProcess(cgroup.hot_files(), folder)
    sampler.start()
    sampler.stop()
    sampler.pack(folder / "samples.npz")
    assert [path.name for path in folder.iterdir()] == ["samples.npz"]
    archive = np.load(folder / "samples.npz", allow_pickle=False)
    assert archive["fast"].dtype.names == FAST_COLUMNS
    assert archive["stat"].dtype.names == sampler.stat_columns
    assert archive["stat"].dtype.names[0] == "t_ns"


def _is_sampler(pid: int) -> bool:
    try:
        return b"sampler.py" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
