"""What a limit adds to a round with one thread and with two.

``python benchmarks/swap_threads.py [NETWORK…]``, as root, on two cores (minutes). Each network is
walked to a limit at which it swaps, with each number of threads, on a disk in memory. Told is what
a steady round takes more there than without a limit. Where two threads swap one layer back, one
that finds the other's page half read sleeps for a tick of the kernel's clock
(``__read_swap_cache_async`` in Linux 6.18), and both evict what the other needs next.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import report

from edgebench.cli.progress import LineProgress
from edgebench.results.results import load
from edgebench.results.rounds import STEADY
from edgebench.run.sweep import SweepOptions, run_sweep
from edgebench.scenario.scenario import scenario_of

#: Limits at which rounds are slowed and finish.
LIMITS = {
    "convnext_tiny": "95M",
    "regnet_y_1_6gf": "52M",
    "efficientnet_b0": "45M",
}
THREADS = (1, 2)


def tables(network: str) -> dict[str, Any]:
    """The scenario of a network."""
    return {
        "schema": 1,
        "name": "swap-threads",
        "timeout": "5m",
        "workload": {
            "kind": "inference",
            "network": network,
            "schedule": "bulk",
            "warm": 1,
            "threads": list(THREADS),
        },
        "limits": {
            "memory": ["max", LIMITS[network]],
            "swap": "1G",
            "storage": "read=200MB/s,disk=ram",
            "plan": "walk",
        },
    }


def rounds_s(folder: Path) -> dict[tuple[int, bool], float]:
    """Threads, and whether there is a limit → median seconds of steady rounds."""
    results = load(folder)
    walks = results.trials[results.trials["walk_step"].notna()]["trial"]
    phases = results.phases
    steady = phases[(phases["phase"] == "round") & (phases["stage"] == STEADY)]
    steady = steady[(steady["outcome"] == "ok") & steady["trial"].isin(walks)]
    limited = steady["limit_label"] != "max"
    groups = steady.groupby([steady["threads"].astype(int), limited])["wall_s"]
    return {key: float(value) for key, value in groups.median().items()}


def measured(networks: Sequence[str]) -> Iterator[dict[str, Any]]:
    """A row a network."""
    for network in networks:
        with tempfile.TemporaryDirectory() as folder:
            made = run_sweep(
                scenario_of(tables(network)), SweepOptions(Path(folder)), LineProgress()
            )
            seconds = rounds_s(made.folder)
        added = [
            seconds[n, True] - seconds[n, False] if (n, True) in seconds else None for n in THREADS
        ]
        yield {"network": network, "limit": LIMITS[network], "added_s": added}


def main(networks: Sequence[str]) -> None:
    """Measure, and write."""
    tell(list(measured(networks)))


def tell(found: Sequence[dict[str, Any]]) -> None:
    """Write a row for each network."""
    rows = [
        [
            one["network"],
            one["limit"],
            *("killed" if seconds is None else f"{seconds:.2f} s" for seconds in one["added_s"]),
            _ratio(*one["added_s"]),
        ]
        for one in found
    ]
    says = (
        "What a limit adds to a steady round, schedule bulk, reads held to 200 MB/s on a disk in "
        "memory; killed where no walk ended its rounds there."
    )
    header = ["network", "limit", "one thread", "two threads", "÷"]
    report.write("swap_threads", says, header, rows, found)


def _ratio(one: float | None, two: float | None) -> str:
    return "" if one is None or two is None else f"{two / one:.1f}"


if __name__ == "__main__":
    main(sys.argv[1:] or [*LIMITS])
