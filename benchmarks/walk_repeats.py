"""Whether two walks of a network find the same knee and the same plateau.

``python benchmarks/walk_repeats.py [STORAGE [NETWORK/LOADER…]]``, as root: some 20 minutes on two
cores. What is compared is bytes, which hardly depend on the storage or on what else the machine
does. Networks that were measured before stay in the result.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import report

from edgebench.cli.progress import shown_progress
from edgebench.results.results import load
from edgebench.run.sweep import SweepOptions, run_sweep
from edgebench.scenario.scenario import scenario_of
from edgebench.units import MIB

STORAGE = "read=500MB/s,disk=ram"
#: With limits from well above the knee to well below it.
NETWORKS = {
    "alexnet/mmap": ("85%", "40%"),
    "resnet18/mmap": ("50%", "15%"),
    "resnet50/copy": ("60%", "20%"),
}
WALKS, STEPS = 2, 5


def tables(network: str, storage: str) -> dict[str, Any]:
    """The scenario of one walk."""
    name, loader = network.split("/")
    high, low = NETWORKS[network]
    limits = {"memory": {"from": high, "to": low, "steps": STEPS}, "swap": "2G", "plan": "walk"}
    return {
        "schema": 1,
        "name": f"walk-repeats-{name}",
        "repeats": 1,
        "workload": {
            "kind": "inference",
            "network": name,
            "loader": loader,
            "schedule": "bulk",
            "threads": 1,
            "rounds": 4,
        },
        "limits": limits | {"storage": storage, "starts": [high]},
    }


def walked(network: str, storage: str) -> dict[str, Any]:
    """One walk: its knee, its plateau, and what it visited."""
    with tempfile.TemporaryDirectory() as folder, shown_progress(verbose=False) as progress:
        made = run_sweep(
            scenario_of(tables(network, storage)), SweepOptions(Path(folder)), progress
        )
        results = load(made.folder)
        (curve,) = results.miss_curves
        (sweep,) = results.sweeps
        visits = [one for one in [*sweep.records, *sweep.upward_records] if one.walk]
    return {
        "network": network,
        "storage": storage,
        "missing": curve.missing,
        "knee_bytes": curve.knee_bytes,
        "between": curve.knee_between,
        "plateau_bytes": curve.plateau_bytes,
        "unlimited_bytes": curve.unlimited_bytes,
        "visits": len(visits),
        "rounds": sum(len(one.walk.round_s) for one in visits if one.walk),
        "points": [(p.limit_bytes, p.direction, p.visit_bytes, p.agree) for p in curve.points],
    }


def table(found: Sequence[dict[str, Any]]) -> Iterator[list[str]]:
    """A row for each network, of all its walks."""
    for network in NETWORKS:
        own = [one for one in found if one["network"] == network]
        if not own:
            continue
        yield [
            network,
            " and ".join(_between(one) for one in own),
            *(_both([one[name] for one in own]) for name in ("knee_bytes", "plateau_bytes")),
            " and ".join(f"{one['visits']}, {one['rounds']}" for one in own),
        ]


def _between(one: dict[str, Any]) -> str:
    if one["between"] is None:
        return f"{one['missing']}, finished at {min(p[0] for p in one['points']) / MIB:.1f}"
    return " to ".join(f"{size / MIB:.1f}" for size in one["between"])


def _both(sizes: Sequence[int | None]) -> str:
    known = [size / MIB for size in sizes if size is not None]
    if len(known) < len(sizes):
        return "not known"
    return f"{' and '.join(f'{size:.1f}' for size in known)} ({max(known) / min(known) - 1:.1%})"


def main(storage: str = STORAGE, *networks: str) -> None:
    """Walk each network, and write a row for each."""
    kept = report.RESULTS / "walk_repeats.json"
    found = json.loads(kept.read_text())["data"] if kept.exists() else []
    header = ["network", "knee between, MiB", "knee, MiB", "read again below it, MiB"]
    says = f"Two walks of each network, reads held on a disk in memory ({storage})."
    for network in networks or NETWORKS:
        found = [one for one in found if one["network"] != network]
        found += [walked(network, storage) for _ in range(WALKS)]
        report.write("walk_repeats", says, [*header, "visits, rounds"], list(table(found)), found)


if __name__ == "__main__":
    main(*sys.argv[1:])
