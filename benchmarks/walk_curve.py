"""How long a curve of 20 limits takes by a walk, and by fresh trials that know it as well.

``python benchmarks/walk_curve.py [NETWORK…]``, as root. Each network is walked through 20 limits on
the disk as it is, until the place of its largest change is known to 2 % of the limit; then a fresh
trial runs at each of the 20 limits. A limit's standard error is that of its steady rounds, so how
far processes differ is in neither. Times are of the whole sweep, from the call to its end; those of
fresh trials are multiplied by their variance ÷ the walk's, in the median of limits that both ran.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import report

from edgebench.cli.progress import shown_progress
from edgebench.results.results import load
from edgebench.results.rounds import steadiness
from edgebench.run.sweep import SweepOptions, run_sweep
from edgebench.scenario.scenario import scenario_of

NETWORKS = ("mobilenet_v2", "resnet18", "alexnet")
LIMITS = 20
#: Of a fresh trial: its start, and as many as a walk runs at a limit that repeats at once.
ROUNDS = 4


def tables(network: str, plan: str) -> dict[str, Any]:
    """The scenario; both plans have the same limits."""
    memory = {"from": "110%", "to": "40%", "steps": LIMITS}
    limits = {"memory": memory, "swap": "2G", "storage": "as-is", "plan": plan}
    return {
        "schema": 1,
        "name": f"curve-{plan}",
        "repeats": 1,
        "workload": {"kind": "inference", "network": network, "rounds": ROUNDS},
        # Starts below limits need fresh processes in any case: one, at the widest.
        "limits": limits | ({"starts": ["110%"]} if plan == "walk" else {}),
    }


def standard_errors(trials: pd.DataFrame, phases: pd.DataFrame) -> dict[str, float]:
    """Limit → the standard error of its steady rounds' mean, as a share of their median."""
    found = {}
    rounds = phases[phases["phase"] == "round"]
    for trial in trials[trials["outcome"] == "ok"].to_dict("records"):
        own = rounds[rounds["trial"] == trial["trial"]].sort_values("round")["wall_s"].tolist()
        steady = [own[place] for place in steadiness(own).rounds] if len(own) > 2 else []
        if len(steady) > 1:
            error = statistics.stdev(steady) / len(steady) ** 0.5
            found[str(trial["limit_label"])] = error / statistics.median(steady)
    return found


def measured(network: str, plan: str, folder: Path) -> dict[str, Any]:
    """Run the plan: its seconds, how many limits it visited, and their standard errors."""
    with shown_progress(verbose=False) as progress:
        made = run_sweep(scenario_of(tables(network, plan)), SweepOptions(folder), progress)
    results = load(made.folder)
    trials = results.trials
    if plan == "walk":
        trials = trials[trials["walk_step"].notna()]
    return {
        "wall_s": made.wall_s,
        "limits": int(trials["limit_bytes"].nunique()),
        "outcomes": made.outcomes,
        "errors": standard_errors(trials, results.phases),
    }


def compared(network: str, folder: Path) -> dict[str, Any]:
    """Both plans, and how many times longer fresh trials take for the same standard error."""
    walk, fresh = (measured(network, plan, folder) for plan in ("walk", "grid"))
    both = sorted(set(walk["errors"]) & set(fresh["errors"]))
    variances = [(fresh["errors"][label] / walk["errors"][label]) ** 2 for label in both]
    longer = fresh["wall_s"] / walk["wall_s"]
    equal = longer * statistics.median(variances) if variances else None
    return {"walk": walk, "fresh": fresh, "longer": longer, "longer_for_equal_error": equal}


def main(networks: Sequence[str]) -> None:
    """Compare each network; write a row for each."""
    with tempfile.TemporaryDirectory() as folder:
        found = {network: compared(network, Path(folder)) for network in networks}
    header = ["network", "walk", "limits", "fresh trials", "÷", "÷ for the same standard error"]
    rows = [
        [
            name,
            f"{one['walk']['wall_s']:.0f} s",
            one["walk"]["limits"],
            f"{one['fresh']['wall_s']:.0f} s",
            f"{one['longer']:.1f}",
            f"{one['longer_for_equal_error']:.1f}" if one["longer_for_equal_error"] else "",
        ]
        for name, one in found.items()
    ]
    says = (
        f"A curve of {LIMITS} limits on the disk as it is: one walk against a fresh trial at each."
    )
    report.write("walk_curve", says, header, rows, found)


if __name__ == "__main__":
    main(sys.argv[1:] or NETWORKS)
