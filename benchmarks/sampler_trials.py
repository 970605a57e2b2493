"""What the sampler costs in real trials, and what it misses by reading less often.

Each trial is watched twice at the same time: by the sampler as it is, which reads less often while
nothing changes, and by another one every millisecond. What the first costs it says itself; its line
of usage (a value holds until the next reading) is compared with the other's at each of its
readings. How much the other's line moves from one of its readings to the next is shown beside:
so much two samplers differ by that read at different moments of the same millisecond.

    python benchmarks/sampler_trials.py
"""

from __future__ import annotations

import itertools
import json
import tempfile
from bisect import bisect_right
from pathlib import Path
from typing import Any, BinaryIO

import report

import edgebench.run.trial
from edgebench.cgroups.interface import HotFiles
from edgebench.cgroups.sampler_process import FAST_COLUMNS, SamplerProcess
from edgebench.cli.progress import LineProgress
from edgebench.records import SamplerReport
from edgebench.run.sweep import SweepOptions, run_sweep
from edgebench.scenario.scenario import scenario_of

MIB = 1 << 20
NETWORKS = ("alexnet", "googlenet", "resnet18", "mobilenet_v1")
#: Name → its workload and limits, as the scenarios quickstart and edgecaffe have them.
WORKLOADS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "quick start, AlexNet": ({"network": ["alexnet"], "warm": 2}, ["max", "70%"]),
    "EdgeCaffe, partial": (
        {"pipeline": list(NETWORKS), "schedule": "partial", "warm": 1, "workers": 2},
        ["max", "384M"],
    ),
}
#: The aim: so much of the largest usage, or so many bytes.
SHARE, BYTES = 0.01, MIB


def scenario(workload: dict[str, Any], limits: list[str]) -> dict[str, Any]:
    """One trial at each limit."""
    same = {"kind": "inference", "loader": "copy", "rounds": 2, "page_cache": "cold"}
    return {
        "schema": 1,
        "name": "sampler-trials",
        "repeats": 1,
        "timeout": "3m",
        "workload": {**same, **workload},
        "limits": {"memory": limits, "swap": "4G", "storage": "read=100MB/s"},
    }


#: What each trial came to, in order.
FOUND: list[dict[str, Any]] = []


class TwoSamplers(SamplerProcess):
    """The sampler as a trial has it, and another one beside it that reads every millisecond."""

    def __init__(self, hot: HotFiles, folder: Path, *asked: Any) -> None:
        super().__init__(hot, folder, *asked)
        self._place = tempfile.TemporaryDirectory()
        self._steady = SamplerProcess(hot, Path(self._place.name), 0.001)

    def start(self) -> None:
        """Both."""
        super().start()
        self._steady.start()

    def stop(self) -> SamplerReport:
        """Both; the trial's own report."""
        mine, steady = super().stop(), self._steady.stop()
        self._reports = (mine, steady)
        return mine

    def pack(self, target: BinaryIO) -> None:
        """Compare the two before the rows are packed away."""
        lines = self._rows(0), self._steady._rows(0)
        FOUND.append(compared(*map(list, lines)) | costs(*lines, *self._reports))
        self._place.cleanup()
        super().pack(target)


def costs(mine: Any, steady: Any, *reports: SamplerReport) -> dict[str, Any]:
    """Share of one core and rows per second of both."""
    found: dict[str, Any] = {}
    for name, rows, told in zip(("own", "steady"), (mine, steady), reports, strict=True):
        seconds = (rows[-len(FAST_COLUMNS)] - rows[0]) / 1e9
        assert told.cpu_s is not None
        found |= {f"{name}_share": told.cpu_s / seconds, f"{name}_per_s": told.samples / seconds}
        found["seconds"] = seconds
    return found


def compared(mine: list[int], steady: list[int]) -> dict[str, Any]:
    """How far the first line of usage is from the second, at each of the second's readings."""
    step = len(FAST_COLUMNS)
    times, usage = mine[::step], mine[1::step]
    readings = list(zip(steady[::step], steady[1::step], strict=True))
    inside = [(t, value) for t, value in readings if times[0] <= t <= times[-1]]
    errors = [abs(usage[bisect_right(times, t) - 1] - value) for t, value in inside]
    moves = [abs(b[1] - a[1]) for a, b in itertools.pairwise(inside)]
    most = max(value for _, value in inside)
    aim = max(BYTES, SHARE * most)
    ordered = sorted(errors)
    return {
        "peak_mib": most / MIB,
        "peak_error_mib": (most - max(usage)) / MIB,
        "largest_mib": ordered[-1] / MIB,
        "p999_mib": ordered[int(0.999 * (len(ordered) - 1))] / MIB,
        "beyond": sum(error > aim for error in errors) / len(errors),
        "aim_mib": aim / MIB,
        "largest_move_mib": max(moves) / MIB,
        "moves_beyond": sum(move > aim for move in moves) / len(moves),
    }


def main() -> None:
    """Each workload's trials."""
    edgebench.run.trial.SamplerProcess = TwoSamplers  # type: ignore[misc]
    rows, data = [], {}
    for name, (workload, limits) in WORKLOADS.items():
        with tempfile.TemporaryDirectory() as folder:
            options = SweepOptions(Path(folder), "benchmark")
            made = run_sweep(scenario_of(scenario(workload, limits)), options, LineProgress())
            lines = (made.folder / "trials.jsonl").read_text().splitlines()
        labels = [json.loads(line)["limits"]["label"] for line in lines]
        for label, one in zip(labels, FOUND[-len(labels) :], strict=True):
            data[f"{name}, {label}"] = one
            rows.append(row(name, label, one))
    header = ["trial", "limit", "lasted", "of one core", "every millisecond", "readings a second"]
    header += ["largest difference", "99.9 % of the time", "time beyond the aim"]
    header += ["largest change within a millisecond", "milliseconds with more than the aim"]
    says = "The sampler in trials, beside another one that always reads every millisecond. "
    says += "Aims: 2 % of a core; a difference of 1 MiB or 1 % of the peak."
    report.write("sampler_trials", says, header, rows, data)


def row(name: str, limit: str, one: dict[str, Any]) -> list[str]:
    """A trial's line in the table."""
    return [
        *(name, limit, f"{one['seconds']:.1f} s", f"{one['own_share']:.2%}"),
        *(f"{one['steady_share']:.2%}", f"{one['own_per_s']:.0f}"),
        *(f"{one['largest_mib']:.2f} MiB", f"{one['p999_mib']:.2f} MiB", f"{one['beyond']:.2%}"),
        *(f"{one['largest_move_mib']:.2f} MiB", f"{one['moves_beyond']:.2%}"),
    ]


if __name__ == "__main__":
    main()
