"""Do walks tell the truth? Networks, schedules and loaders: walked, and by fresh trials.

Both in one sweep, in a random order, so that the machine's drift is in both; with a declared
storage speed. Told of each workload: the median difference of steady rounds, and the largest one
where a limit slows 1.5 times or more. Limits at which the way up differs from the way down by more
than a tenth are told apart: there both answers are true.

    python benchmarks/walk_truth.py [--quick] [--networks A,B] [--schedules A,B] [--loaders A,B]
                                    [--limits N] [--repeats N] [--results FOLDER]

All of it takes hours, so it can be made in parts: what is told is of all such sweeps in the
results folder, and ``--repeats 0`` runs none. One network with one schedule, one loader, four
limits and one repeat takes minutes. ``--quick`` (a small network, two limits) shows that it works,
and writes nothing that is kept.
"""

from __future__ import annotations

import argparse
import mmap
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import report

from edgebench.cli.progress import shown_progress
from edgebench.errors import ResultsError
from edgebench.results.results import Results, load
from edgebench.results.times import STEADY, round_stages, steadiness
from edgebench.run.sweep.sweep import SweepOptions, run_sweep
from edgebench.scenario.scenario import scenario_of
from edgebench.spans import finished_spans
from edgebench.text import MIB

if TYPE_CHECKING:
    import pandas as pd

    from edgebench.records import TrialRecord
    from edgebench.results.sweep_reader import Sweep

_LARGER, _SMALL = ("alexnet", "resnet50", "resnet18"), ("efficientnet_b0", "mobilenet_v2")
NETWORKS = (*_LARGER, *_SMALL, "squeezenet1_1")
SCHEDULES = ("bulk", "linear")
LOADERS = ("copy", "mmap")
_READ, _REFAULTS = "io_read_bytes", ("refault_anon", "refault_file")
ROOT = Path(__file__).parents[1]
NAME = "walk-truth"
STORAGE = "read=400MB/s,disk=ram"
#: The same, bytes/s.
SPEED = 400e6
#: Up and down differ by more: inside the hysteresis.
HYSTERESIS = 1.1
#: From this slowdown on the largest difference is told, where rounds read so much more, too: a
#: machine that is slow for a while is no limit's doing.
SLOWED, SLOWED_BYTES = 1.5, 8 * MIB
#: Nearly no limit.
WIDEST = "110%"
#: A fresh trial's rounds: its start, and enough to repeat.
ROUNDS = 6

Key = tuple[Any, ...]
_WORKLOAD = ("network", "schedule", "loader")


@dataclass(frozen=True)
class Asked:
    """What is compared."""

    networks: Sequence[str] = NETWORKS
    schedules: Sequence[str] = SCHEDULES
    loaders: Sequence[str] = LOADERS
    limits: int = 10
    repeats: int = 2
    rounds: int = ROUNDS

    def tables(self) -> dict[str, Any]:
        """The scenario: a walk of each workload, and a fresh trial at each of its limits."""
        return {
            "schema": 1,
            "name": NAME,
            "repeats": 1,
            "timeout": "10m",
            "workload": {
                "kind": "inference",
                "network": list(self.networks),
                "schedule": list(self.schedules),
                "loader": list(self.loaders),
                "rounds": self.rounds,
                # A limit slows executions: with several of them, it shows beside the loading.
                "warm": 3,
                # A core is left for what else the machine does: else each pass waits for it.
                "threads": 1,
            },
            "limits": {
                "memory": {"from": WIDEST, "to": "30%", "steps": self.limits},
                "swap": "2G",
                "storage": STORAGE,
                "plan": "walk",
            },
        }


@dataclass(frozen=True)
class Steady:
    """A process's steady rounds at a limit: medians of seconds, and of bytes that were read.

    Without a limit ``mib`` is infinite. ``read_bytes`` is None where it was not counted.
    """

    seconds: float
    mib: float
    read_bytes: float | None

    @classmethod
    def of(cls, every: Sequence[Steady]) -> Steady:
        """The medians over processes."""
        read = [one.read_bytes for one in every if one.read_bytes is not None]
        return cls(
            statistics.median(one.seconds for one in every),
            statistics.median(one.mib for one in every),
            statistics.median(read) if read else None,
        )


#: Workload and limit → each process's steady rounds there.
Rounds = dict[Key, list[Steady]]


def steady_rounds(results: Results, sweep: Sweep, records: Iterable[TrialRecord]) -> Rounds:
    """Those of these records of a sweep that have any."""
    found: Rounds = {}
    for record in records:
        own = [phase.wall_s for phase in record.phases if phase.phase == "round"]
        if record.outcome != "ok" or len(own) < 2:
            continue
        seconds = statistics.median(own[place] for place in steadiness(own).rounds)
        read = rounds_read(results, sweep, record)
        settings, limit = record.settings, record.limit_bytes
        key = ("+".join(settings["networks"]), settings["schedule"], settings["loader"])
        steady = Steady(
            seconds,
            float("inf") if limit is None else limit / MIB,
            statistics.median(read) if read else None,
        )
        found.setdefault((*key, record.limits.label), []).append(steady)
    return found


def joined(parts: Iterable[Rounds]) -> Rounds:
    """Those of several sweeps."""
    every: Rounds = {}
    for part in parts:
        for key, own in part.items():
            every.setdefault(key, []).extend(own)
    return every


@dataclass(frozen=True)
class Ways:
    """Steady rounds by workload and limit: of fresh trials, and of walks down and up."""

    fresh: Rounds
    down: Rounds
    up: Rounds

    @classmethod
    def of(cls, results: Results) -> Ways:
        """From sweeps that have both."""
        ways = [
            [
                steady_rounds(results, sweep, own)
                for own in (
                    [record for record in sweep.records if not record.walk],
                    [record for record in sweep.records if record.walk],
                    sweep.upward_records,
                )
            ]
            for sweep in results.sweeps
        ]
        return cls(*(joined(parts) for parts in zip(*ways, strict=True)))

    @property
    def workloads(self) -> list[Key]:
        """All that were measured, in order."""
        return sorted({key[:3] for key in self.down})

    def rows(self) -> list[dict[str, Any]]:
        """One a workload and limit that both ran."""
        return [self._row(key) for key in sorted(set(self.fresh) & set(self.down))]

    def _row(self, key: Key) -> dict[str, Any]:
        fresh, walked = Steady.of(self.fresh[key]), Steady.of(self.down[key])
        way = Steady.of(self.up.get(key, self.down[key])).seconds / walked.seconds
        wide = [one for label in ("max", WIDEST) for one in self.fresh.get((*key[:3], label), [])]
        return {
            **dict(zip((*_WORKLOAD, "limit"), key, strict=True)),
            "fresh_s": fresh.seconds,
            "walked_s": walked.seconds,
            "each_fresh_s": [one.seconds for one in self.fresh[key]],
            "each_walked_s": [one.seconds for one in self.down[key]],
            "each_fresh_bytes": [one.read_bytes for one in self.fresh[key]],
            "each_walked_bytes": [one.read_bytes for one in self.down[key]],
            "difference": walked.seconds / fresh.seconds - 1,
            "read_difference": _worth(fresh, walked),
            "limit_difference": walked.mib / fresh.mib - 1 if key[3] != "max" else 0.0,
            "slowdown": fresh.seconds / Steady.of(wide).seconds if wide else None,
            "slowed": bool(wide) and _is_slowed(fresh, walked, Steady.of(wide)),
            "hysteresis": max(way, 1 / way) > HYSTERESIS,
        }


def _is_slowed(fresh: Steady, walked: Steady, free: Steady) -> bool:
    """Whether a limit slows by either way."""
    return any(
        one.seconds >= SLOWED * free.seconds
        and (one.read_bytes or 0) >= (free.read_bytes or 0) + SLOWED_BYTES
        for one in (fresh, walked)
    )


def _worth(fresh: Steady, walked: Steady) -> float | None:
    """What a walk read more is worth at the declared speed, as a share of a fresh round."""
    if fresh.read_bytes is None or walked.read_bytes is None:
        return None
    return (walked.read_bytes - fresh.read_bytes) / SPEED / fresh.seconds


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """How many points, and how far both differ outside the hysteresis.

    ``bias`` is the difference with its sign. ``fresh_scatter`` and ``walked_scatter``: how far two
    processes of one way differ at a limit, the baseline of how far both ways do.
    """
    outside = [row for row in rows if not row["hysteresis"]]
    slowed = [row for row in outside if row["slowed"]]
    return {
        "points": len(rows),
        "outside_hysteresis": len(outside),
        "median_difference": _median_of(outside, "difference"),
        "bias": statistics.median(row["difference"] for row in outside or rows),
        "median_read_difference": _median_of(outside, "read_difference"),
        "slowed": len(slowed),
        "largest_of_slowed": _largest_of(slowed, "difference"),
        "largest_read_of_slowed": _largest_of(slowed, "read_difference"),
        "fresh_scatter": scatter(outside, "each_fresh_s"),
        "walked_scatter": scatter(outside, "each_walked_s"),
    }


def _sizes(rows: Sequence[dict[str, Any]], name: str) -> list[float]:
    return [abs(row[name]) for row in rows if row[name] is not None]


def _median_of(rows: Sequence[dict[str, Any]], name: str) -> float | None:
    sizes = _sizes(rows, name)
    return statistics.median(sizes) if sizes else None


def _largest_of(rows: Sequence[dict[str, Any]], name: str) -> float | None:
    return max(_sizes(rows, name), default=None)


def scatter(rows: Sequence[dict[str, Any]], name: str) -> float | None:
    """By how much the second of two processes differs from the first at a limit: the median."""
    # Without a limit a walk has many visits, all of one process.
    pairs = [row[name][:2] for row in rows if len(row[name]) > 1 and row["limit"] != "max"]
    return statistics.median(abs(b / a - 1) for a, b in pairs) if pairs else None


def asked() -> tuple[Asked, bool, Path]:
    """What the command line says: what to compare, whether quickly, and where sweeps are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one network, two limits")
    for name in ("networks", "schedules", "loaders"):
        parser.add_argument(f"--{name}", type=lambda text: tuple(text.split(",")))
    for name in ("limits", "repeats"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--results", type=Path, default=ROOT / "build" / NAME)
    options = vars(parser.parse_args())
    quick, results = (options.pop(name) for name in ("quick", "results"))
    small = {"networks": NETWORKS[-1:], "schedules": SCHEDULES[:1], "loaders": LOADERS[:1]}
    usual = {**small, "limits": 2, "repeats": 1, "rounds": 5} if quick else {}
    given = {name: value for name, value in options.items() if value is not None}
    return Asked(**{**usual, **given}), quick, results / "quick" if quick else results


def run(wanted: Asked, results: Path) -> None:
    """Run the sweeps, a network at a time: what one is interrupted in is little."""
    for _ in range(wanted.repeats):
        for network in wanted.networks:
            tables = replace(wanted, networks=(network,)).tables()
            with shown_progress(verbose=False) as progress:
                made = run_sweep(scenario_of(tables), SweepOptions(results), progress)
            print(f"{network}: {made.wall_s:.0f} s, {made.folder}", flush=True)


def rounds_read(results: Results, sweep: Sweep, record: TrialRecord) -> list[float]:
    """Bytes of each steady round; none if the trial's samples don't tell."""
    steady = {number for number, stage in round_stages(record).items() if stage == STEADY}
    # A walk is sampled as one trial, whose visits have events of their own.
    sampled = record.walk.walk if record.walk else record.trial
    try:
        samples = results.stat(sampled, sweep.name)
        spans = finished_spans(sweep.events(record.trial))
    except ResultsError:
        return []
    total = counter(samples)
    if total is None:
        return []
    rounds = [span for span in spans if span.phase == "round" and span.round in steady]
    times, ends = samples["t_ns"].to_numpy(), [(span.start_ns, span.end_ns) for span in rounds]
    return [float(np.diff(np.interp(both, times, total))[0]) for both in ends]


def counter(samples: pd.DataFrame) -> np.ndarray | None:
    """What was read until each sample, in bytes."""
    if _READ in samples and samples[_READ].notna().all():
        return samples[_READ].to_numpy()
    if {*_REFAULTS} <= {*samples.columns} and samples[[*_REFAULTS]].notna().all(axis=None):
        return samples[[*_REFAULTS]].sum(axis=1).to_numpy() * mmap.PAGESIZE
    return None


def main() -> None:
    """Run what is asked for, tell and write how both ways differ."""
    wanted, quick, results = asked()
    run(wanted, results)
    ways = Ways.of(load(results))
    rows = ways.rows()
    for row in rows:
        words = "inside hysteresis" if row["hysteresis"] else ""
        print(
            f"{row['network']:>16} {row['schedule']:>7} {row['loader']:>5} {row['limit']:>6} "
            f"{row['fresh_s']:8.3f} s {row['walked_s']:8.3f} s {row['difference']:+7.1%} {words}"
        )
    told = {" ".join(of): summary([r for r in rows if _key(r) == of]) for of in ways.workloads}
    for network in sorted({of[0] for of in ways.workloads}):
        told[network] = summary([row for row in rows if row["network"] == network])
    told["all"] = summary(rows)
    header = ("workload", *(name.replace("_", " ") for name in told["all"]))
    lines = [[name, *map(_shown, one.values())] for name, one in told.items()]
    for line in (header, *lines):
        print("  ".join(map(str, line)))
    if not quick:
        most = max(len(row["each_walked_s"]) for row in rows if row["limit"] == WIDEST)
        says = f"Walks against fresh trials, up to {most} of each, storage {STORAGE}."
        report.write("walk_truth", says, header, lines, {"told": told, "rows": rows})


def _key(row: dict[str, Any]) -> Key:
    return tuple(row[name] for name in _WORKLOAD)


def _shown(value: float | None) -> str:
    if value is None:
        return "none"
    return str(value) if isinstance(value, int) else f"{value:.1%}"


if __name__ == "__main__":
    main()
