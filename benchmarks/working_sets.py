"""What a steady round needs, as the kernel's marks show it, against where rounds read again.

``python benchmarks/working_sets.py`` (ten minutes), as root, walks the workloads of the kept
validation sweeps with hardly a limit, so that each walk's last round shows its working set. Beside
it stands the limit from which on down rounds of the kept sweep read memory again, as far as its
visits tell: between the tightest limit at which they did not and the widest at which they did.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import report
import tomllib
from claims.kept import ROOT, folder
from counts import counted_rounds

from edgebench.cli.progress import shown_progress
from edgebench.results.results import load
from edgebench.run.sweep import SweepOptions, run_sweep
from edgebench.scenario.scenario import scenario_of
from edgebench.slowdown.context import device_data
from edgebench.units import MIB

if TYPE_CHECKING:
    from counts import Rounds

    from edgebench.records import WorkingSet

SWEEPS = ("validation-one-thread", "validation-two-threads")
#: Less than this is read again for other reasons: pages that rounds use now and then.
_AGAIN_BYTES = 8 << 20
Seen = dict[tuple[str, str], "WorkingSet"]


def main() -> None:
    """Walk, compare, write a row for each workload."""
    rows: list[dict[str, Any]] = []
    for scenario in SWEEPS:
        with tempfile.TemporaryDirectory() as results:
            seen = watched(scenario, Path(results))
        rows += compared(scenario, seen)
    header = ("threads", "network", "loader", "working set", "read again below", "÷")
    says = (
        "MiB that a steady round needs; the limits between which rounds begin to read memory "
        "again; and the working set ÷ their middle."
    )
    report.write("working_sets", says, header, [line(row) for row in rows], rows)


def watched(scenario: str, results: Path) -> Seen:
    """The working set of each of the scenario's workloads, by network and loader."""
    tables = tomllib.loads((ROOT / "scenarios" / f"{scenario}.toml").read_text())
    tables["limits"] |= {"memory": ["max", "100%"], "starts": ["100%"], "target": 0.2}
    with shown_progress(verbose=False) as progress:
        made = run_sweep(scenario_of(tables), SweepOptions(results), progress)
    return {
        ("+".join(record.settings["networks"]), record.settings["loader"]): record.working_set
        for record in load(made.folder).sweeps[0].records
        if record.working_set
    }


def compared(scenario: str, seen: Seen) -> Iterator[dict[str, Any]]:
    """Each workload whose bytes were counted, beside its working set."""
    for data in device_data(load(folder(scenario)))[0]:
        for curve, rounds in counted_rounds(data.curves):
            found = seen.get((curve.network, str(curve.settings["loader"])))
            if found is None:
                continue
            low, high = reads_again(rounds)
            yield {
                "scenario": scenario,
                "threads": curve.settings.get("threads"),
                "network": curve.network,
                "loader": curve.settings["loader"],
                "working_set_bytes": found.total_bytes,
                "reads_again_bytes": low,
                "reads_nothing_bytes": high,
            }


def reads_again(rounds: Rounds) -> tuple[float | None, float | None]:
    """The widest limit at which rounds read again, and the next wider one; None: there is none."""
    free = float(np.median(rounds.get(math.inf, [0.0])))
    limits = sorted(limit for limit in rounds if limit < math.inf)
    again = [limit for limit in limits if np.median(rounds[limit]) > free + _AGAIN_BYTES]
    if not again:
        return None, min(limits)
    return max(again), next((limit for limit in limits if limit > max(again)), None)


def line(row: dict[str, Any]) -> list[Any]:
    """As the table has it."""
    low, high = row["reads_again_bytes"], row["reads_nothing_bytes"]
    between = " to ".join(f"{size / MIB:.1f}" if size else "-" for size in (low, high))
    middle = (low + high) / 2 if low and high else None
    needs = row["working_set_bytes"]
    share = f"{needs / middle:.2f}" if middle else "-"
    threads = int(row["threads"]) if row["threads"] else "all"
    return [threads, row["network"], row["loader"], f"{needs / MIB:.1f}", between, share]


if __name__ == "__main__":
    main()
