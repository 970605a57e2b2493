"""Does the harness disturb what it measures? Workload time in it ÷ under GNU time alone.

With ``--one-core`` all of it runs on one core: harness, sampler and workload.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import report
from pairing import in_pairs, interval

from edgebench.measures.gnu_time import find_gnu_time, gnu_time_command
from edgebench.records import LimitSetting
from edgebench.run.trial.command import measure_command

#: Hashes, and walks over fresh memory; prints its own seconds, so that no start-up counts.
WORKLOAD = """
import hashlib, time
start = time.perf_counter()
data = bytearray(64 << 20)
for _ in range(8):
    data[::4096] = b"x" * len(data[::4096])
    for _ in range(4):
        digest = hashlib.sha256(data).digest()
print(time.perf_counter() - start)
"""
COMMAND = [sys.executable, "-I", "-S", "-c", WORKLOAD]


def in_harness() -> float:
    """The workload's own seconds as a trial, watched as every trial is."""
    said = bytearray()
    record = measure_command(COMMAND, LimitSetting(), echo=said.extend)
    assert record.outcome == "ok", record.reason
    return float(said)


def alone() -> float:
    """The workload's own seconds under GNU time alone."""
    with tempfile.TemporaryDirectory() as folder:
        command = gnu_time_command(find_gnu_time(), Path(folder) / "report", COMMAND)
        return float(subprocess.run(command, check=True, capture_output=True).stdout)


def main(pairs: int, one_core: bool) -> None:
    """Measure that many alternating pairs, the order within each drawn at random."""
    if one_core:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    seconds = in_pairs(lambda watched: in_harness() if watched else alone(), pairs, seed=2)
    ratios = [harness / plain for harness, plain in seconds]
    low, high = interval(ratios)
    says = "Workload time in the harness ÷ under GNU time alone"
    says += ", all on one core." if one_core else "."
    row = [pairs, f"{statistics.median(ratios):.4f}", f"{low:.4f} to {high:.4f}"]
    header = ["pairs", "median ratio", "95 % interval of the median"]
    name = "overhead_one_core" if one_core else "overhead"
    report.write(name, says, header, [row], {"seconds": seconds, "ratios": ratios})


if __name__ == "__main__":
    asked = [word for word in sys.argv[1:] if word != "--one-core"]
    main(int(asked[0]) if asked else 30, "--one-core" in sys.argv)
