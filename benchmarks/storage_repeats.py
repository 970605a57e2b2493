"""How much repeats differ with the storage as it is and held to a declared speed, in turn.

``python benchmarks/storage_repeats.py [REPEATS [NETWORK…]]``, as root. One sweep has both storages
as an axis, so its blocks interleave them. Of each point that is slowed 1.5 times or more: the
distance of its slowest and its fastest trial, as a share of the median. A sweep that was cut
short is gone on with.
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
from edgebench.run.sweep import SweepOptions, run_sweep
from edgebench.scenario.scenario import scenario_of
from edgebench.slowdown.curves import Curve, curves
from edgebench.storage_speed import AS_IS

#: From this slowdown on a limit's cost is mostly the storage's.
SLOWED = 1.5
NETWORKS = ("alexnet", "resnet18")
LIMITS = ["60%", "45%", "33%"]
_ROOT = Path("results-of-storage-repeats")


def tables(networks: Sequence[str], repeats: int) -> dict[str, Any]:
    """The scenario: some networks at some limits, with both storages."""
    return {
        "schema": 1,
        "name": "storage-repeats",
        "repeats": repeats,
        "timeout": "2m",
        "workload": {
            "kind": "inference",
            "network": list(networks),
            "schedule": "bulk",
            "rounds": 2,
            "warm": 1,
        },
        "limits": {"memory": ["max", *LIMITS], "swap": "2G", "storage": [AS_IS, "read=100MB/s"]},
    }


def spreads(curve: Curve) -> Iterator[tuple[float, float]]:
    """Slowdown and spread of each of its limits that is slowed enough and has repeats."""
    for limit, slowdown in zip(curve.limits, curve.medians, strict=True):
        seconds = curve.seconds[curve.limit_bytes == limit]
        if slowdown >= SLOWED and len(seconds) > 1:
            yield float(slowdown), float(np.ptp(seconds) / np.median(seconds))


def main(repeats: int, networks: Sequence[str]) -> None:
    """Run the sweep, and write a row for each storage."""
    options = SweepOptions(_ROOT, "this")
    made = run_sweep(scenario_of(tables(networks, repeats)), options, LineProgress())
    found = curves(load(made.folder))
    rows, data = [], {}
    for storage in (AS_IS, "read=100MB/s"):
        own = [one for one in found if one.settings.get("storage", AS_IS) == storage]
        points = [pair for curve in own for pair in spreads(curve)]
        shares = [share for _, share in points]
        data[storage] = {"points": points}
        told = report.spread(shares) if shares else dict.fromkeys(("median", "p95"), float("nan"))
        rows.append([storage, len(shares), f"{told['median']:.1%}", f"{told['p95']:.1%}"])
    says = f"Repeats ({repeats} of each point) of points slowed {SLOWED:g} times or more."
    header = ["storage", "points", "spread, median", "95th percentile"]
    report.write("storage_repeats", says, header, rows, data)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5, sys.argv[2:] or NETWORKS)
