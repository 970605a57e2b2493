"""How much repeats differ: storage as it is, held to a declared speed, and in memory, in turn.

``python benchmarks/storage_repeats.py [REPEATS [NETWORK…]]``, as root. One sweep has all storages
as an axis, so its blocks interleave them. Of each point that is slowed 1.5 times or more: the
distance of its slowest and its fastest trial, as a share of the median: of starts and of steady
rounds. A sweep that was cut short is gone on with.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import report

from edgebench.cli.progress import LineProgress
from edgebench.results.results import load
from edgebench.results.times import START
from edgebench.run.sweep.sweep import SweepOptions, run_sweep
from edgebench.scenario.scenario import scenario_of
from edgebench.slowdown.curves import Curve, curves
from edgebench.text import AS_IS

#: From this slowdown on a limit's cost is mostly the storage's.
SLOWED = 1.5
NETWORKS = ("alexnet", "resnet18")
LIMITS = ["60%", "45%", "33%"]
DECLARED = "read=100MB/s"
STORAGES = (AS_IS, DECLARED, f"{DECLARED},disk=ram")
_WHOLES = {START: START, "total": "steady"}
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


def measured(repeats: int, networks: Sequence[str]) -> list[Curve]:
    """Run the sweep: its curves."""
    options = SweepOptions(_ROOT, "this")
    made = run_sweep(scenario_of(tables(networks, repeats)), options, LineProgress())
    return curves(load(made.folder))


def main(words: Sequence[str]) -> None:
    """Run it, and write a row for each storage, of starts and of steady rounds."""
    groups: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for curve in measured(int(words[0]) if words else 3, words[1:] or NETWORKS):
        if curve.phase in _WHOLES:
            key = str(curve.settings.get("storage", AS_IS)), _WHOLES[curve.phase]
            groups.setdefault(key, []).extend(spreads(curve))
    rows, data = [], {}
    for (storage, what), points in sorted(groups.items()):
        shares = sorted(share for _, share in points)
        data[f"{storage} {what}"] = {"points": points}
        cells = ["-", "-"]
        if shares:
            cells = [f"{np.median(shares):.1%}", f"{shares[round(0.95 * (len(shares) - 1))]:.1%}"]
        rows.append([storage, what, len(shares), *cells])
    says = f"Repeats of points slowed {SLOWED:g} times or more: slowest - fastest, ÷ the median."
    header = ["storage", "of", "points", "spread, median", "95th percentile"]
    report.write("storage_repeats", says, header, rows, data)


if __name__ == "__main__":
    main(sys.argv[1:])
