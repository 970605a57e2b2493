"""The sampler on a real cgroup: what it sees, how it ends, what it costs."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from edgebench.cgroups.interface import Cgroup
from edgebench.cgroups.join import join_command
from edgebench.cgroups.sampler import SAME_BYTES
from edgebench.cgroups.sampler_process import FAST_COLUMNS, QUIET_INTERVAL_S, SamplerProcess

pytestmark = pytest.mark.cgroup
MIB = 1 << 20
#: Holds 40 MiB of anonymous memory for a moment.
HOLD = "import time; b = b'x' * (40 << 20); time.sleep(0.25)"
ALLOCATED = 40 * MIB
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


def run_in(cgroup: Cgroup, code: str) -> None:
    """Run lines of Python in the cgroup to their end."""
    words = join_command(cgroup, [sys.executable, "-I", "-S", "-c", code], None, None)
    subprocess.run(words, check=True)


def test_it_sees_what_is_allocated(cgroup: Cgroup, folder: Path) -> None:
    """40 MiB held for a quarter of a second show in usage, anonymous memory and demand."""
    sampler = SamplerProcess(cgroup.hot_files(), folder)
    sampler.start()
    run_in(cgroup, HOLD)
    report, summary = sampler.stop(), sampler.summary()
    assert report.samples > 20
    for size in (summary.sampled_peak_bytes, summary.demand_bytes):
        assert size is not None
        assert ALLOCATED < size < ALLOCATED + 30 * MIB
    assert summary.demand_source is not None
    assert summary.demand_source.startswith("sampled anon+shmem")


def wait_for_rows(sampler: SamplerProcess, rows: int) -> None:
    """Until it has written so many."""
    deadline = time.monotonic() + 30
    while len(sampler._rows(0)) < rows * len(FAST_COLUMNS):
        assert time.monotonic() < deadline
        time.sleep(0.01)


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
    """In an empty cgroup some hundred times a second, unless it was asked for an interval."""
    if not cgroup.hot_files().peak_resets:
        pytest.skip("the mark can't be reset here")
    counts = {}
    for asked in (None, 0.001):
        sampler = SamplerProcess(cgroup.hot_files(), folder, interval_s=asked)
        sampler.start()
        time.sleep(0.5)
        counts[asked] = sampler.stop().samples
        assert sampler.watching.quiet_interval_s == (None if asked else QUIET_INTERVAL_S)
    assert 50 < counts[None] < 200 < counts[0.001]


def test_slow_files_are_read_less_often_while_nothing_changes(cgroup: Cgroup, folder: Path) -> None:
    """In an empty cgroup some twenty times a second, unless they have an interval."""
    if not cgroup.hot_files().peak_resets:
        pytest.skip("the mark can't be reset here")
    counts = {}
    for asked in (None, 0.01):
        sampler = SamplerProcess(cgroup.hot_files(), folder, stat_interval_s=asked)
        sampler.start()
        time.sleep(0.6)
        sampler.stop()
        counts[asked] = len(sampler._rows(1)) // len(sampler.stat_columns)
    assert 3 < counts[None] < 20 < counts[0.01]


def test_it_reads_fast_again_at_the_first_change(cgroup: Cgroup, folder: Path) -> None:
    """After a reading that differs, the next comes a millisecond later, not five."""
    if not cgroup.hot_files().peak_resets:
        pytest.skip("the mark can't be reset here")
    sampler = SamplerProcess(cgroup.hot_files(), folder)
    sampler.start()
    time.sleep(0.1)
    run_in(cgroup, HOLD)
    report = sampler.stop()
    sampler.pack(folder / "samples.npz")
    fast = np.load(folder / "samples.npz")["fast"]
    gaps_s, moved = np.diff(fast["t_ns"]) / 1e9, abs(np.diff(fast["usage_bytes"])) > SAME_BYTES
    assert moved.sum() > 3
    assert report.achieved_s == pytest.approx(np.median(gaps_s[1:][moved[:-1]]))
    assert report.achieved_s < QUIET_INTERVAL_S / 2


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


def test_cpu_time_rises_with_work(cgroup: Cgroup, folder: Path) -> None:
    """The CPU column never falls, and grows by what a busy process burns."""
    hot = cgroup.hot_files()
    if hot.cpu is None:
        pytest.skip("no CPU accounting here")
    sampler = SamplerProcess(hot, folder)
    sampler.start()
    run_in(cgroup, "import time\nwhile time.process_time() < 0.2: pass")
    sampler.stop()
    sampler.pack(folder / "samples.npz")
    cpu_ns = np.load(folder / "samples.npz")["fast"]["cpu_ns"]
    assert (np.diff(cpu_ns) >= 0).all()
    # Less than 0.2 s: what the process burned before it joined is not charged.
    assert cpu_ns[-1] - cpu_ns[0] > 0.1e9


def test_a_cgroup_removed_meanwhile_ends_it_quietly(cgroup: Cgroup, folder: Path) -> None:
    """When the cgroup goes, the sampler ends by itself; its rows and its cost are kept."""
    sampler = SamplerProcess(cgroup.hot_files(), folder)
    sampler.start()
    wait_for_rows(sampler, 11)
    cgroup.remove()
    process = sampler._process
    assert process is not None
    assert process.wait(30) == 0
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
    deadline = time.monotonic() + 10
    while _is_sampler(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not _is_sampler(pid)


def test_it_is_small(cgroup: Cgroup, folder: Path) -> None:
    """Less than 12 MB resident at its most, as it tells of itself."""
    sampler = SamplerProcess(cgroup.hot_files(), folder)
    sampler.start()
    time.sleep(0.6)
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
