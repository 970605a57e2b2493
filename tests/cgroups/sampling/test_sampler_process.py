"""The sampler as a process, beside a real cgroup: what it sees, how it ends, what it costs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgebench.cgroups.interface import Cgroup, HotFiles
from edgebench.cgroups.join import join_command
from edgebench.cgroups.sampler_process import FAST_COLUMNS, SamplerProcess
from edgebench.errors import MachineError

#: Holds 40 MiB of anonymous memory until its input ends.
HOLD = "import sys; b = b'x' * (40 << 20); print('held', flush=True); sys.stdin.read()"
ALLOCATED = 40 << 20
#: Starts a sampler, tells its pid and dies at once by SIGKILL.
DIE = """
import os, sys
from pathlib import Path
from edgebench.cgroups.interface import HotFiles
from edgebench.cgroups.sampler_process import SamplerProcess
sampler = SamplerProcess(HotFiles(Path(sys.argv[1])), Path(sys.argv[2]))
sampler.start()
print(sampler.pid, flush=True)
os.kill(os.getpid(), 9)
"""


def in_cgroup(cgroup: Cgroup, code: str) -> list[str]:
    return join_command(cgroup, [sys.executable, "-I", "-S", "-c", code], None, None)


def wait_until(happened: Callable[[], bool]) -> None:
    """Until it has."""
    deadline = time.monotonic() + 200
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def rows_written(folder: Path) -> int:
    return (folder / "fast.i64").stat().st_size // (8 * len(FAST_COLUMNS))


def kept(sampler: SamplerProcess, folder: Path) -> np.ndarray:
    with (folder / "samples.npz").open("wb") as file:
        sampler.pack(file)
    assert [path.name for path in folder.iterdir()] == ["samples.npz"]
    archive = np.load(folder / "samples.npz", allow_pickle=False)
    assert archive["stat"].dtype.names == sampler.stat_columns
    table: np.ndarray = archive["fast"]
    assert table.dtype.names == FAST_COLUMNS
    return table


@pytest.fixture
def usage(tmp_path: Path) -> Path:
    (tmp_path / "cri:made-up").mkdir()
    file = tmp_path / "cri:made-up" / "memory.current"
    file.write_text("130\n")
    return file


@pytest.mark.own_cgroup
@pytest.mark.v2_core
@pytest.mark.quick
def test_it_sees_memory_and_work(cgroup: Cgroup, folder: Path) -> None:
    """40 MiB that are held, CPU time that is burnt; on the clock of events, outside the cgroup."""
    sampler, before = SamplerProcess(cgroup.hot_files(), folder), time.monotonic_ns()
    sampler.start()
    assert cgroup.pids() == ()
    busy = "import time\nbegan = time.process_time()\nwhile time.process_time() < began + 0.2: pass"
    subprocess.run(in_cgroup(cgroup, f"{busy}\nb = b'x' * {ALLOCATED}\n{busy}"), check=True)
    report, summary, after = sampler.stop(), sampler.summary(), time.monotonic_ns()
    for size in (summary.sampled_peak_bytes, summary.demand_bytes):
        assert size is not None
        assert ALLOCATED < size < ALLOCATED + (30 << 20)
    # As it tells of itself: it is small.
    assert report.rss_bytes is not None
    assert 1e6 < report.rss_bytes < 12e6
    table = kept(sampler, folder)
    assert report.samples == len(table) > 20
    assert before < table["t_ns"][0] < table["t_ns"][-1] < after
    if cgroup.hot_files().cpu is not None:
        assert (np.diff(table["cpu_ns"]) >= 0).all()
        # The last reading is before the last of its work.
        assert table["cpu_ns"][-1] - table["cpu_ns"][0] > 0.2e9


@pytest.mark.own_cgroup
def test_a_cgroup_removed_meanwhile_ends_it_quietly(cgroup: Cgroup, folder: Path) -> None:
    sampler = SamplerProcess(cgroup.hot_files(), folder)
    sampler.start()
    pid = sampler.pid
    wait_until(lambda: rows_written(folder) > 10)
    cgroup.remove()
    wait_until(lambda: Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z")
    report = sampler.stop()
    assert report.samples > 10
    assert report.cpu_s is not None
    assert len(kept(sampler, folder)) == report.samples


@pytest.mark.process
def test_it_ends_when_its_harness_is_killed(usage: Path, folder: Path) -> None:
    words = [sys.executable, "-c", DIE, str(usage), str(folder)]
    done = subprocess.run(words, stdout=subprocess.PIPE, check=False, cwd=Path(__file__).parents[3])
    assert done.returncode == -9
    command = Path(f"/proc/{int(done.stdout)}/cmdline")
    wait_until(lambda: not (command.exists() and b"sampler.py" in command.read_bytes()))


@pytest.mark.process
def test_a_file_that_is_not_there_is_said_at_once(folder: Path) -> None:
    """A sampler that can't start says why, and nothing keeps running."""
    sampler = SamplerProcess(HotFiles(folder / "gone"), folder)
    with pytest.raises(MachineError, match=r"the sampler did not start: .*gone"):
        sampler.start()
    assert sampler.stop().samples == 0


@pytest.mark.process
def test_what_was_written_before_a_kill_counts(usage: Path, folder: Path) -> None:
    """Whole rows do; what it cost is not known then, rather than 0."""
    sampler = SamplerProcess(HotFiles(usage), folder, interval_s=0.0001)
    sampler.start()
    wait_until(lambda: rows_written(folder) > 0)
    assert sampler.pid is not None
    os.kill(sampler.pid, 9)
    report = sampler.stop()
    assert report.samples > 0
    assert report.cpu_s is None
    with (folder / "fast.i64").open("ab") as file:
        file.write(b"\0" * 12)
    table = kept(sampler, folder)
    assert (len(table), set(table["usage_bytes"])) == (report.samples, {130})


@pytest.mark.process
def test_it_ends_at_once_however_long_its_interval(usage: Path, folder: Path) -> None:
    """It needn't be killed, so what it cost is known."""
    sampler = SamplerProcess(HotFiles(usage), folder, interval_s=60)
    sampler.start()
    assert sampler.stop().cpu_s is not None
