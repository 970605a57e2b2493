"""Many tiny trials in one sweep: does anything grow? ``python benchmarks/soak.py [TRIALS]``.

Watched between trials: the harness's open descriptors and resident memory, cgroups of ours, the
kernel's count of memory cgroups (which holds those that were removed but linger), and the time a
trial takes. The first tenth is warm-up; growth is the last tenth against the second.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import report

from edgebench.cgroups.hierarchy import hierarchies
from edgebench.recording import TrialRequest
from edgebench.records import TrialRecord
from edgebench.scenario import scenario_of
from edgebench.sweep import SweepOptions, run_sweep

WATCHED = ("descriptors", "rss_bytes", "own_cgroups", "memory_cgroups", "trial_s")
#: How many trials lie between two looks at the process and the kernel.
_EVERY = 10


class Watcher:
    """Progress that looks at the harness whenever a trial has ended."""

    def __init__(self) -> None:
        self.rows: list[dict[str, float]] = []
        self._process = psutil.Process()
        self._memory = next(h.folder for h in hierarchies() if "memory" in h.controllers)
        self._began = 0.0
        self._times: list[float] = []

    def stage(self, text: str) -> None:
        """Nothing to tell."""

    def begin(self, folder: Path, total: int, done: int) -> None:
        """Nothing to tell."""

    def planned(self, total: int) -> None:
        """Nothing to tell."""

    def trial(self, request: TrialRequest) -> None:
        """A trial starts."""
        self._began = time.monotonic()

    def finished(self, record: TrialRecord) -> None:
        """A trial is recorded: look, now and then."""
        self._times.append(time.monotonic() - self._began)
        if len(self._times) == _EVERY:
            self.rows.append({**self._look(), "trial_s": statistics.median(self._times)})
            self._times = []

    def _look(self) -> dict[str, float]:
        assert self._memory
        return {
            "descriptors": self._process.num_fds(),
            "rss_bytes": self._process.memory_info().rss,
            "own_cgroups": len(list(self._memory.glob(f"edgebench-{os.getpid()}-*"))),
            "memory_cgroups": _memory_cgroups(),
        }


def _memory_cgroups() -> int:
    """The kernel's own count, of those removed but not yet freed too."""
    lines = Path("/proc/cgroups").read_text().splitlines()
    return next(int(line.split()[2]) for line in lines if line.startswith("memory"))


def scenario(trials: int) -> Mapping[str, Any]:
    """So many trials of a command that does nothing."""
    return {
        "schema": 1,
        "name": "soak",
        "repeats": trials,
        "timeout": "30s",
        "workload": {"kind": "command", "command": ["/bin/true"]},
        "limits": {"memory": "max", "swap": "none"},
    }


def main(trials: int) -> None:
    """Make the trials and tell what grew."""
    watcher = Watcher()
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        summary = run_sweep(
            scenario_of(scenario(trials)), SweepOptions(Path(folder), "soak"), watcher
        )
    rows, data = [], {"trials": summary.trials, "outcomes": summary.outcomes}
    tenth = len(watcher.rows) // 10
    for name in WATCHED:
        values = [row[name] for row in watcher.rows]
        first = statistics.median(values[tenth : 2 * tenth])
        last = statistics.median(values[-tenth:])
        growth = f"{last / first - 1:+.1%}" if first else f"{last - first:+g}"
        rows.append([name, f"{first:.6g}", f"{last:.6g}", f"{max(values):.6g}", growth])
        data[name] = {"second_tenth": first, "last_tenth": last, "most": max(values)}
    says = f"{trials} tiny trials in one sweep: {summary.outcomes}."
    header = ["watched", "second tenth", "last tenth", "most", "growth"]
    report.write("soak", says, header, rows, data)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
