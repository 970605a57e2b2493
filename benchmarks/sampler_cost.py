"""What sampling costs: our sampler beside psrecord and memory_profiler's mprof.

Each watches the same sleeping process; its CPU time and its process's high-water mark are read
from /proc while it still runs.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import report

from edgebench.cgroups.leftovers import Ownership
from edgebench.cgroups.parent import find_parent
from edgebench.cgroups.sampler_process import SamplerProcess

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
SLEEPER = ["sleep", "3600"]
BIN = Path(sys.executable).parent


def used(pid: int) -> tuple[float, int]:
    """CPU seconds so far and VmHWM in bytes of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    status = Path(f"/proc/{pid}/status").read_text()
    peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return (int(fields[11]) + int(fields[12])) * TICK_S, int(peak.split()[1]) * 1024


def watch(pid: int, seconds: float) -> tuple[float, float]:
    """Share of one core over that time, once it is under way, and VmHWM in MiB."""
    time.sleep(1)
    began, (before, _) = time.monotonic(), used(pid)
    time.sleep(seconds)
    after, peak = used(pid)
    return (after - before) / (time.monotonic() - began), peak / 2**20


def ours(seconds: float, folder: Path) -> tuple[float, float, str]:
    """Our sampler at 1 kHz on a cgroup."""
    with Ownership() as ownership:
        cgroup = find_parent(ownership).create(f"{os.getpid()}-cost")
        try:
            sampler = SamplerProcess(cgroup.hot_files(), folder, interval_s=0.001)
            sampler.start()
            assert sampler.pid is not None
            share, peak = watch(sampler.pid, seconds)
            done = sampler.stop()
        finally:
            cgroup.remove()
    assert done.achieved_s
    return share, peak, f"{done.samples / (seconds + 1):.0f}"


#: Wakes a thousand times a second and does nothing: what the machine asks for a wake-up.
EMPTY = """
import time
due = time.monotonic_ns()
while True:
    due += 1_000_000
    wait = due - time.monotonic_ns()
    if wait > 0:
        time.sleep(wait / 1e9)
    else:
        due = time.monotonic_ns()
"""


def other(command: list[str], seconds: float, log: Path) -> tuple[float, float, str]:
    """Another program that watches a process."""
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, stdout=quiet, stderr=quiet, start_new_session=True)
    try:
        share, peak = watch(process.pid, seconds)
    finally:
        # mprof starts the process that it watches: both go.
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()
    rate = f"{len(log.read_text().splitlines()) / (seconds + 1):.0f}" if log.exists() else "none"
    return share, peak, rate


def main(seconds: float) -> None:
    """Measure each in turn."""
    sleeper = subprocess.Popen(SLEEPER)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        record, mprof = folder / "psrecord.log", folder / "mprof.dat"
        pid = str(sleeper.pid)
        psrecord = [str(BIN / "psrecord"), pid, "--interval", "0.001", "--log", str(record)]
        profiler = [str(BIN / "mprof"), "run", "--interval", "0.001", "--output", str(mprof)]
        empty = [sys.executable, "-I", "-S", "-c", EMPTY]
        try:
            rows = [
                ["an empty loop at 1 kHz", *other(empty, seconds, folder / "none")],
                ["edgebench's sampler", *ours(seconds, folder)],
                ["psrecord", *other(psrecord, seconds, record)],
                ["mprof", *other([*profiler, *SLEEPER], seconds, mprof)],
            ]
        finally:
            sleeper.kill()
            sleeper.wait()
    shown = [[row[0], f"{row[1]:.1%}", f"{row[2]:.1f} MiB", row[3]] for row in rows]  # type: ignore[str-format]
    says = f"Cost of sampling at 1 kHz (each asked for 1 ms) over {seconds:.0f} s."
    header = ["program", "share of one core", "process's peak", "samples a second, achieved"]
    report.write("sampler_cost", says, header, shown, rows)


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 10)
