"""Many tiny trials in one sweep, and whether anything grows with them.

``python benchmarks/soak.py [TRIALS [SECONDS [FOLDER]]]``: after so many seconds it stops, and the
next start with the same folder goes on. Watched between trials: the harness's open descriptors and
resident memory, cgroups of ours, the kernel's count of memory cgroups (which holds those that were
removed but linger), and the time a trial takes. Of each start the first tenth is warm-up; growth is
its last tenth against its second, and of several starts the largest is told.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import report

from edgebench.cgroups.hierarchy import hierarchies
from edgebench.records import TrialRecord
from edgebench.run.sweep import SweepOptions, SweepSummary, run_sweep
from edgebench.run.trial_record import TrialRequest
from edgebench.scenario.scenario import scenario_of

WATCHED = ("descriptors", "rss_bytes", "own_cgroups", "memory_cgroups", "trial_s")
#: How many trials lie between two looks at the process and the kernel.
_EVERY = 10
#: A start with fewer looks than this tells nothing of growth.
_LEAST_LOOKS = 20


class Watcher:
    """Progress that looks at the harness whenever a trial has ended."""

    def __init__(self, log: Path, seconds: float) -> None:
        self._log = log
        self._until = time.monotonic() + seconds
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
            seen = {"start": os.getpid(), **self._look(), "trial_s": statistics.median(self._times)}
            with self._log.open("a") as file:
                file.write(json.dumps(seen) + "\n")
            self._times = []
            if time.monotonic() > self._until:
                raise KeyboardInterrupt

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


def grown(values: list[float]) -> tuple[float, float, float, float]:
    """Medians of the second and of the last tenth, the most, and the growth as a share."""
    tenth = max(1, len(values) // 10)
    first = statistics.median(values[tenth : 2 * tenth])
    last = statistics.median(values[-tenth:])
    return first, last, max(values), last / first - 1 if first else last - first


def tell(log: Path, summary: SweepSummary) -> None:
    """What grew, of the start in which it grew most."""
    starts: dict[int, list[dict[str, float]]] = {}
    for line in log.read_text().splitlines():
        seen = json.loads(line)
        starts.setdefault(seen["start"], []).append(seen)
    long = [seen for seen in starts.values() if len(seen) >= _LEAST_LOOKS]
    rows, data = [], {"trials": summary.trials, "outcomes": summary.outcomes, "starts": len(starts)}
    for name in WATCHED:
        found = [grown([one[name] for one in seen]) for seen in long]
        first, last, _, growth = max(found, key=lambda one: one[3])
        most = max(one[2] for one in found)
        rows.append([name, f"{first:.6g}", f"{last:.6g}", f"{most:.6g}", f"{growth:+.1%}"])
        data[name] = {"second_tenth": first, "last_tenth": last, "most": most}
    says = f"{summary.trials} tiny trials in one sweep, {len(starts)} starts: {summary.outcomes}."
    header = ["watched", "second tenth", "last tenth", "most", "growth"]
    report.write("soak", says, header, rows, data)


def main(trials: int, seconds: float, folder: Path) -> None:
    """Make the trials, as far as the time goes, and tell what grew once all are made."""
    folder.mkdir(exist_ok=True)
    watcher = Watcher(folder / "looks.jsonl", seconds)
    options = SweepOptions(folder, "soak")
    try:
        summary = run_sweep(scenario_of(scenario(trials)), options, watcher)
    except KeyboardInterrupt:
        print(f"stopped; the next start goes on in {folder}")
        return
    tell(folder / "looks.jsonl", summary)
    shutil.rmtree(folder)


if __name__ == "__main__":
    asked = sys.argv[1:]
    main(
        int(asked[0]) if asked else 10_000,
        float(asked[1]) if asked[1:] else float("inf"),
        Path(asked[2] if asked[2:] else "/var/tmp/edgebench-soak"),
    )
