"""How much repeats differ: storage as it is, held to a declared speed, and in memory, in turn.

``python benchmarks/storage_repeats.py [REPEATS [NETWORK…]]``, as root. One sweep has all storages
as an axis, so its blocks interleave them. Of each point that is slowed 1.5 times or more: the
distance of its slowest and its fastest trial, as a share of the median: of starts, of whole steady
rounds, and of these rounds' phases. A sweep that was cut short is gone on with.

``python benchmarks/storage_repeats.py --of SWEEP…`` tells the same of finished sweeps, each of one
network or pipeline, and of a byte's time: what is left is how much the kernel reads anew.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import report

from edgebench.boards.board import AS_IS
from edgebench.cli.progress import LineProgress
from edgebench.results.results import Results, load
from edgebench.results.rounds import START
from edgebench.run.sweep.sweep import SweepOptions, run_sweep
from edgebench.scenario.scenario import scenario_of
from edgebench.slowdown.curves import Curve, curves

#: From this slowdown on a limit's cost is mostly the storage's.
SLOWED = 1.5
NETWORKS = ("alexnet", "resnet18")
LIMITS = ["60%", "45%", "33%"]
DECLARED = "read=100MB/s"
STORAGES = (AS_IS, DECLARED, f"{DECLARED},disk=ram")
_WHOLES = {START: START, "total": "steady rounds"}
_PER_BYTE = "all rounds, by bytes read"
#: Storage and what was measured → slowdown and spread of each of its points.
Groups = dict[tuple[str, str], list[tuple[float, float]]]
_ROOT = Path("results-of-storage-repeats")


def tables(networks: Sequence[str], repeats: int) -> dict[str, Any]:
    """The scenario: some networks at some limits, with all storages."""
    return {
        "schema": 1,
        "name": "storage-repeats",
        "repeats": repeats,
        "timeout": "2m",
        "workload": {
            "kind": "inference",
            "network": list(networks),
            "schedule": "bulk",
            "rounds": 4,
            "warm": 1,
        },
        "limits": {"memory": ["max", *LIMITS], "swap": "2G", "storage": list(STORAGES)},
    }


def spreads(curve: Curve) -> Iterator[tuple[float, float]]:
    """Slowdown and spread of each of its limits that is slowed enough and has repeats."""
    for limit, slowdown in zip(curve.limits, curve.medians, strict=True):
        seconds = curve.seconds[curve.limit_bytes == limit]
        if slowdown >= SLOWED and len(seconds) > 1:
            yield float(slowdown), float(np.ptp(seconds) / np.median(seconds))


def spreads_per_byte(found: Results) -> list[tuple[float, float]]:
    """The same of all rounds of a trial, each second divided by the bytes that the trial read."""
    phases = found.phases
    whole = phases[(phases["phase"] == "round") & (phases["outcome"] == "ok")]
    seconds = whole.groupby("trial")["wall_s"].sum()
    trials = found.trials.set_index("trial").assign(seconds=seconds).dropna(subset="seconds")
    points = trials.groupby(["schedule", "limit_label"])
    medians = points["seconds"].median()
    found_spreads = []
    for (schedule, limit), own in points:
        slowdown = float(medians[schedule, limit] / medians[schedule, "max"])
        if slowdown >= SLOWED and len(own) > 1:
            each = own["seconds"] / own["io_read_bytes"]
            found_spreads.append((slowdown, float(np.ptp(each) / each.median())))
    return found_spreads


def measured(repeats: int, networks: Sequence[str]) -> list[Curve]:
    """Run the sweep: its curves."""
    options = SweepOptions(_ROOT, "this")
    made = run_sweep(scenario_of(tables(networks, repeats)), options, LineProgress())
    return curves(load(made.folder))


def write(stem: str, says: str, found: Sequence[Curve], groups: Groups | None = None) -> None:
    """A row for each storage, of starts, of steady rounds and of their phases; and these groups."""
    rows, data = [], {}
    groups = dict(groups or {})
    for curve in found:
        what = _WHOLES.get(curve.phase, "phases of steady rounds")
        key = str(curve.settings.get("storage", AS_IS)), what
        groups.setdefault(key, []).extend(spreads(curve))
    for (storage, what), points in sorted(groups.items()):
        shares = sorted(share for _, share in points)
        data[f"{storage} {what}"] = {"points": points}
        cells = ["-", "-"]
        if shares:
            cells = [f"{np.median(shares):.1%}", f"{shares[round(0.95 * (len(shares) - 1))]:.1%}"]
        rows.append([storage, what, len(shares), *cells])
    header = ["storage", "of", "points", "spread, median", "95th percentile"]
    report.write(stem, says, header, rows, data)


def main(words: Sequence[str]) -> None:
    """Of the sweeps that are named, else of one that is made now."""
    says = f"Repeats of points slowed {SLOWED:g} times or more: slowest - fastest, ÷ the median."
    if words[:1] == ["--of"]:
        kept = [load(Path(path)) for path in words[1:]]
        bytes_of = {
            (str(one.trials["storage"].iloc[0]), _PER_BYTE): spreads_per_byte(one) for one in kept
        }
        write("storage_repeats_kept", says, [c for one in kept for c in curves(one)], bytes_of)
        return
    repeats = int(words[0]) if words else 3
    write("storage_repeats", says, measured(repeats, words[1:] or NETWORKS))


if __name__ == "__main__":
    main(sys.argv[1:])
