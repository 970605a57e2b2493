"""Trials in real cgroups: what the kernel counts, what is left, who is charged."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from edgebench.process import python_path
from edgebench.records.records import LimitSetting, TrialRecord
from edgebench.trial.recording import TrialRequest
from edgebench.trial.trial import TrialFiles, run_trial
from edgebench.workshop.workshop import Workshop, open_workshop

pytestmark = pytest.mark.cgroup
MIB = 1 << 20
#: Touches so many MiB of anonymous memory and holds them for a moment.
TOUCH = (
    "import time; b = bytearray({mib} << 20); b[::4096] = b'x' * len(b[::4096]); time.sleep({s})"
)


@pytest.fixture(scope="module")
def workshop() -> Iterator[Workshop]:
    """The real apparatus."""
    with open_workshop() as workshop:
        yield workshop


@pytest.fixture
def files(tmp_path: Path) -> TrialFiles:
    """Where this test's trial leaves its files."""
    return TrialFiles(tmp_path / "s.npz", tmp_path / "e.jsonl.gz", tmp_path / "log", tmp_path)


def trial(
    workshop: Workshop,
    files: TrialFiles,
    code: str,
    memory_mib: int | None = None,
    timeout_s: float = 60,
) -> TrialRecord:
    """A trial of Python code under a limit, without swap."""
    settings = {
        "kind": "command",
        "command": [sys.executable, "-I", "-S", "-c", code],
        "env": {"PYTHONPATH": python_path()},
    }
    limits = LimitSetting(
        label=f"{memory_mib}M", memory_bytes=memory_mib * MIB if memory_mib else None
    )
    request = TrialRequest("0001", "p1", 0, 0, settings, limits, timeout_s)
    return run_trial(workshop.apparatus, request, files)


def test_a_known_allocation_shows_in_every_measure(workshop: Workshop, files: TrialFiles) -> None:
    """Kernel, sampler and GNU time all see 100 MiB that were touched; the rest is Python's own."""
    record = trial(workshop, files, TOUCH.format(mib=100, s=0.1))
    assert record.outcome == "ok"
    for peak in (record.peak_bytes, record.sampled_peak_bytes, record.gnu_time_maxrss_bytes):
        assert peak is not None
        assert 100 * MIB < peak < 125 * MIB
    assert record.demand_bytes is not None
    assert record.demand_bytes >= 100 * MIB
    assert record.saturated is False


def test_a_limit_below_demand_without_swap_is_a_recorded_kill(
    workshop: Workshop, files: TrialFiles
) -> None:
    """An OOM kill is a result: outcome, count, saturation, no demand."""
    record = trial(workshop, files, TOUCH.format(mib=200, s=0), memory_mib=64)
    assert record.outcome == "oom-killed"
    assert record.oom_kills
    assert record.limit_bytes == 64 * MIB
    assert record.saturated is True
    assert record.demand_bytes is None
    assert "demand_bytes" in record.missing


def test_memory_of_a_grandchild_is_counted(workshop: Workshop, files: TrialFiles) -> None:
    """A child of a child is charged too, which GNU time alone can't add up."""
    inner = TOUCH.format(mib=60, s=0.2)
    code = (
        "import subprocess, sys\n"
        f"kids = [subprocess.Popen([sys.executable, '-I', '-S', '-c', {inner!r}]) for _ in 'ab']\n"
        "[kid.wait() for kid in kids]"
    )
    record = trial(workshop, files, code)
    assert record.peak_bytes is not None
    assert record.gnu_time_maxrss_bytes is not None
    assert record.peak_bytes > 120 * MIB
    assert record.gnu_time_maxrss_bytes < 90 * MIB


def test_a_hanging_workload_times_out_and_leaves_nothing(
    workshop: Workshop, files: TrialFiles
) -> None:
    """A timeout is recorded; its background children are gone and so is its cgroup."""
    code = (
        "import subprocess, sys, time\n"
        "subprocess.Popen(['sleep', '4242'], start_new_session=True); time.sleep(60)"
    )
    record = trial(workshop, files, code, timeout_s=0.8)
    assert record.outcome == "timeout"
    assert not _processes("4242")
    assert not _cgroups()


def test_a_failing_workload_is_told_in_its_own_words(workshop: Workshop, files: TrialFiles) -> None:
    """The reason of a failure is the last thing the workload said."""
    record = trial(workshop, files, "raise ValueError('no such thing')")
    assert record.outcome == "failed"
    assert record.exit_code == 1
    assert record.reason == "ValueError: no such thing"
    assert "Traceback" in files.log.read_text()


def test_the_samples_are_a_plain_numpy_archive(workshop: Workshop, files: TrialFiles) -> None:
    """Anyone can read the samples; their clock rises and their achieved rate is told."""
    record = trial(workshop, files, TOUCH.format(mib=20, s=0.3))
    fast = np.load(files.samples)["fast"]
    assert (np.diff(fast["t_ns"]) > 0).all()
    assert record.sampler is not None
    assert record.sampler.samples == len(fast) > 50
    assert fast["usage_bytes"].max() == record.sampled_peak_bytes


def test_a_large_harness_changes_no_figure(workshop: Workshop, files: TrialFiles) -> None:
    """400 MB held by the harness show in neither the kernel's peak nor GNU time's."""
    ballast = bytearray(os.urandom(MIB)) * 400
    record = trial(workshop, files, TOUCH.format(mib=10, s=0))
    del ballast
    assert record.peak_bytes is not None
    assert record.gnu_time_maxrss_bytes is not None
    assert record.peak_bytes < 40 * MIB
    assert record.gnu_time_maxrss_bytes < 40 * MIB


def _processes(word: str) -> list[str]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if command.split(b"\0")[:2] == [b"sleep", word.encode()]:
            found.append(folder.name)
    return found


def _cgroups() -> list[Path]:
    mine = f"edgebench-{os.getpid()}-"
    return [p for p in Path("/sys/fs/cgroup").glob("*/**/edgebench-*") if p.name.startswith(mine)]
