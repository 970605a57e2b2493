"""The schedule ``stream`` beside other ways to execute a network that does not fit in memory.

``python benchmarks/stream_bound.py [REPEATS [NETWORK…]] [--results FOLDER]``, as root. Limits are
shares of what a pass needs: the weights and the hot base, which is the part of the runtime that a
pass touches. Reads are held to a declared speed. Trials are interleaved, each way once a block at
each limit. A pass is a warm execution; where a schedule frees each layer, a round.

What a limit makes of it is compared with the least that any policy can do: what does not fit is
read once in each pass, so a pass takes 1 + (missed bytes ÷ storage speed) ÷ T times as long, where
T is the time without a limit of weights that are read into memory (``copy``).

Hugging Face's accelerate (``disk_offload``) is measured, too, where it is installed. With
``--results`` the trials are kept, and the same command goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import math
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import report
from pairing import interval

from edgebench.boards.storage import parse_storage
from edgebench.cli.progress import shown_progress
from edgebench.errors import WorkloadError
from edgebench.layers.known_networks import construct
from edgebench.layers.stream import MARGIN_BYTES
from edgebench.records import TrialRecord
from edgebench.results.results import load
from edgebench.results.rounds import trial_times
from edgebench.run.sweep import SweepOptions, run_sweep
from edgebench.scenario.planner import grid_planner
from edgebench.scenario.points import Point, points
from edgebench.scenario.scenario import Scenario, scenario_of
from edgebench.units import MIB

NETWORKS = ("alexnet", "resnet50")
SHARES = (0.9, 0.75, 0.5)
STORAGE = "read=200MB/s"
#: Trials with a limit of as much as the weights: what they leave of it is the hot base.
PROBES = 3
REPEATS, ROUNDS, WARM, SEED = 3, 2, 3, 1
#: What times are held against: weights read into memory, without a limit.
COPY = "bulk, copy"
STREAM = "stream, mmap"
ACCELERATE = "accelerate, disk_offload"
#: Way → schedule, loader, and the time that is a pass of it.
WAYS = {
    STREAM: ("stream", "mmap", "execute"),
    COPY: ("bulk", "copy", "execute"),
    "bulk, mmap": ("bulk", "mmap", "execute"),
    "linear, copy": ("linear", "copy", "total"),
}
ABSENT = {
    "airllm": "loads language models of the Hugging Face hub alone; its way, one layer at a time, "
    "is that of the schedule linear",
}
_OFFLOADED = Path(__file__).with_name("accelerate_offload.py")


@dataclass(frozen=True)
class Needs:
    """What a pass of a network needs: bytes of weights, and of the runtime that it touches."""

    weights: int
    hot_base: int

    @property
    def total(self) -> int:
        """Both."""
        return self.weights + self.hot_base

    def at(self, share: float) -> str:
        """The limit at a share, as a scenario has it: whole MiB."""
        return f"{round(share * self.total / MIB)}M"


def tables(network: str, way: str, memory: Sequence[str]) -> dict[str, Any]:
    """The scenario of one way."""
    schedule, loader, _ = WAYS[way]
    warm = WARM if schedule in ("bulk", "stream") else 0
    workload = {"network": network, "schedule": schedule, "loader": loader}
    own = {"kind": "inference", "rounds": ROUNDS, "warm": warm, **workload}
    return _with_limits(network, own, memory)


def _with_limits(network: str, workload: Mapping[str, Any], memory: Sequence[str]) -> Any:
    return {
        "schema": 1,
        "name": f"stream-bound-{network.replace('_', '-')}",
        "seed": SEED,
        "timeout": "3m",
        "workload": dict(workload),
        "limits": {"memory": ["max", *memory], "swap": "2G", "storage": STORAGE},
    }


def offloaded(network: str, memory: Sequence[str], folder: Path) -> dict[str, Any]:
    """The scenario of accelerate's program; its weights are written to the folder first."""
    command = [sys.executable, str(_OFFLOADED), network, str(folder)]
    subprocess.run([*command, "--prepare"], check=True)
    # The file among the words shows on which disk the weights are.
    workload = {
        "kind": "command",
        "command": [*command, str(folder / "index.json")],
        "files": [str(folder)],
        "throughput_pattern": r"([\d.]+) passes/s",
    }
    return _with_limits(network, workload, memory)


def needs_of(network: str, results: Path, progress: Any) -> Needs:
    """Measured at a limit of its weights: what is not kept of them there gave way to the hot base.

    Raises:
        WorkloadError: no trial finishes there.
    """
    weights = sum(one.nbytes for one in construct(network).state_dict().values())
    limit = f"{round(weights / MIB)}M"
    scenario = scenario_of(tables(network, STREAM, [limit]))
    held = [point for point in points(scenario) if not point.unlimited]
    planner = grid_planner(held, PROBES, SEED)
    made = run_sweep(scenario, SweepOptions(results), progress, planner, held)
    (sweep,) = load(made.folder).sweeps
    kept = [r.notes["kept_weights_bytes"] for r in sweep.records if r.outcome == "ok"]
    if not kept:
        raise WorkloadError(f"{network} finishes in no trial below {limit}")
    return Needs(weights, (held[0].limits.memory_bytes or 0) - MARGIN_BYTES - max(kept))


def all_points(scenarios: Mapping[str, Scenario]) -> dict[str, tuple[str, Point]]:
    """Each point of each way: its name in one sweep → the way and the point."""
    every = [(way, point) for way, scenario in scenarios.items() for point in points(scenario)]
    named = ((way, replace(one, id=f"p{n:03d}")) for n, (way, one) in enumerate(every, start=1))
    return {point.id: (way, point) for way, point in named}


def pass_seconds(way: str, record: TrialRecord) -> float | None:
    """Seconds of a pass; None if the trial didn't finish."""
    if way == ACCELERATE:
        rate = record.throughput_per_s if record.outcome == "ok" else None
        return 1 / rate if rate else None
    return trial_times(record).get(WAYS[way][2])


def rows_of(
    network: str,
    needs: Needs,
    made: Mapping[str, tuple[str, Point]],
    records: Sequence[TrialRecord],
) -> Iterator[dict[str, Any]]:
    """One for each way and limit that has trials."""
    own: dict[tuple[str, int | None], dict[int, TrialRecord]] = {}
    for record in records:
        way, point = made[record.point]
        own.setdefault((way, point.limits.memory_bytes), {})[record.block] = record
    free = {block: pass_seconds(COPY, one) for block, one in own[COPY, None].items()}
    known = [seconds for seconds in free.values() if seconds]
    speed = parse_storage(STORAGE).read_bps or 0
    for (way, limit), trials in sorted(own.items(), key=_largest_first):
        times = {block: pass_seconds(way, one) for block, one in trials.items()}
        ratios = [s / free[b] for b, s in sorted(times.items()) if s and free.get(b)]
        missed = max(0, needs.total - limit) if limit else 0
        bound = 1 + missed / speed / statistics.median(known)
        middle = statistics.median(ratios) if ratios else None
        yield {
            "network": network,
            "way": way,
            "limit_bytes": limit,
            "share": limit / needs.total if limit else None,
            "seconds": [times[block] for block in sorted(times)],
            "outcomes": [trials[block].outcome for block in sorted(trials)],
            "kept_bytes": [t.notes.get("kept_weights_bytes") for _, t in sorted(trials.items())],
            "read_bytes": [t.io_read_bytes for _, t in sorted(trials.items())],
            "ratios": ratios,
            "slowdown": middle,
            "interval": interval(ratios) if len(ratios) > 1 else None,
            "bound": bound,
            "over_bound": middle / bound if middle else None,
        }


def _largest_first(one: tuple[tuple[str, int | None], Any]) -> tuple[str, float]:
    (way, limit), _ = one
    return way, -(limit or math.inf)


def one_network(network: str, repeats: int, results: Path, progress: Any) -> dict[str, Any]:
    """All ways at all limits: what the network needs, and a row for each."""
    needs = needs_of(network, results, progress)
    memory = [needs.at(share) for share in SHARES]
    scenarios = {way: scenario_of(tables(network, way, memory)) for way in WAYS}
    if find_spec("accelerate"):
        folder = results / "offloaded" / network
        scenarios[ACCELERATE] = scenario_of(offloaded(network, memory, folder))
    made = all_points(scenarios)
    every = [point for _, point in made.values()]
    planner = grid_planner(every, repeats, SEED)
    folder = run_sweep(scenarios[STREAM], SweepOptions(results), progress, planner, every).folder
    (sweep,) = load(folder).sweeps
    return {
        "weights_bytes": needs.weights,
        "hot_base_bytes": needs.hot_base,
        "rows": list(rows_of(network, needs, made, sweep.records)),
    }


def write(found: Mapping[str, Any], repeats: int) -> None:
    """The kept files, of the networks that are through."""
    says = (
        f"A pass under a limit ÷ one without (weights in memory), {repeats} trials of each, "
        f"interleaved, storage {STORAGE}. Limits are shares of weights + hot base."
    )
    absent = dict(ABSENT)
    if not find_spec("accelerate"):
        absent["accelerate"] = "not installed"
    rows = [_row(row) for one in found.values() for row in one["rows"]]
    header = ("network", "way", "share", "slowdown", "interval", "bound", "÷ bound", "finished")
    data = {"storage": STORAGE, "repeats": repeats, "absent": absent, "networks": dict(found)}
    report.write("stream_bound", says, header, rows, data)
    for name, reason in absent.items():
        print(f"not measured: {name}: {reason}")


def _row(row: Mapping[str, Any]) -> list[str]:
    ends = row["outcomes"]
    between = "-" if row["interval"] is None else "{:.2f} to {:.2f}".format(*row["interval"])
    return [
        row["network"],
        row["way"],
        "max" if row["share"] is None else f"{row['share']:.2f}",
        *(("-", "-") if row["slowdown"] is None else (f"{row['slowdown']:.2f}", between)),
        f"{row['bound']:.2f}",
        "-" if row["over_bound"] is None else f"{row['over_bound']:.2f}",
        f"{ends.count('ok')} of {len(ends)}",
    ]


def main() -> None:
    """Measure each network; what is kept is written after each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("repeats", nargs="?", type=int, default=REPEATS)
    parser.add_argument("networks", nargs="*", default=list(NETWORKS))
    parser.add_argument("--results", type=Path)
    asked = parser.parse_args()
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as made, shown_progress() as progress:
        for network in asked.networks:
            results = (asked.results or Path(made)).resolve()
            try:
                found[network] = one_network(network, asked.repeats, results, progress)
            except WorkloadError as error:
                print(f"left out: {error}", file=sys.stderr)
                continue
            write(found, asked.repeats)


if __name__ == "__main__":
    main()
