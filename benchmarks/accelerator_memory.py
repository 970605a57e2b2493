"""What networks take of a GPU's memory, and the limits of it at which they still run.

``python benchmarks/accelerator_memory.py [REPEATS]``, where trials can be run and torch has CUDA.
Two networks, loaded whole and layer by layer, on the processor and on the GPU, and there below
limits of torch's allocator as well. The driver's figure (NVML) less the allocator's must be the
same for all trials of a network and a schedule: it is the context and the libraries' own memory.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import report
import torch

from edgebench.cli.progress import LineProgress
from edgebench.records import TrialRecord
from edgebench.results.results import load
from edgebench.run.sweep import SweepOptions, run_sweep
from edgebench.scenario.scenario import scenario_of
from edgebench.units import MIB, format_size, parse_size

NETWORKS, SCHEDULES = ("alexnet", "resnet18"), ("bulk", "linear")
LIMITS = ("320M", "192M", "96M", "64M")
_ROOT = Path("results-of-accelerator-memory")


def main(repeats: int) -> None:
    """Run the sweep if it is not there yet; write its table."""
    if not any(_ROOT.glob("*/*/complete.json")):
        run_sweep(scenario_of(tables(repeats)), SweepOptions(_ROOT, "gpu"), LineProgress())
    records = load(_ROOT).sweeps[0].records
    told = [_row(network, schedule, records) for network in NETWORKS for schedule in SCHEDULES]
    shown = [[*row.values()] for row in map(_shown, told)]
    about = next(record.accelerator for record in records if record.accelerator)
    trials = "one trial" if repeats == 1 else f"medians of {repeats} trials"
    says = f"{about.title}, torch {torch.__version__}, cgroup v2; {trials} each."
    report.write("accelerator_memory", says, list(_shown(told[0])), shown, told)


def tables(repeats: int) -> dict[str, Any]:
    """The scenario."""
    return {
        "schema": 1,
        "name": "accelerator-memory",
        "repeats": repeats,
        "timeout": "2m",
        "workload": {
            "kind": "inference",
            "network": list(NETWORKS),
            "schedule": list(SCHEDULES),
            "accelerator": ["none", "cuda"],
            "rounds": 4,
            "warm": 1,
            "threads": 2,
        },
        "limits": {"memory": ["max"], "accelerator_memory": ["max", *LIMITS]},
    }


def _row(network: str, schedule: str, records: Sequence[TrialRecord]) -> dict[str, Any]:
    asked = [network], schedule
    own = [r for r in records if (r.settings["networks"], r.settings["schedule"]) == asked]
    there = [(record.outcome, record.accelerator) for record in own if record.accelerator]
    free = [told for _, told in there if told.limit_bytes is None]
    ran = [told for outcome, told in there if outcome == "ok"]
    return {
        "network": network,
        "schedule": schedule,
        "allocated_mib": median(told.peak_allocated_bytes for told in free) / MIB,
        "reserved_mib": median(told.peak_reserved_bytes for told in free) / MIB,
        "process_mib": median(told.process_peak_bytes or 0 for told in free) / MIB,
        "beside_the_allocator_mib": sorted(
            {((told.process_peak_bytes or 0) - told.peak_reserved_bytes) / MIB for told in ran}
        ),
        "outcomes": {
            limit: sorted(
                {outcome for outcome, told in there if told.limit_bytes == parse_size(limit)}
            )
            for limit in LIMITS
        },
        "to_bytes_per_s": median(told.to_bytes / told.to_s for told in free),
    }


def _shown(row: dict[str, Any]) -> dict[str, str]:
    names = {"ok": "runs", "accelerator-oom": "runs out"}
    ends = {
        f"limit {format_size(parse_size(limit))}": ", ".join(names.get(o, o) for o in outcomes)
        for limit, outcomes in row["outcomes"].items()
    }
    return {
        "network": row["network"],
        "schedule": row["schedule"],
        **{
            f"{key}, MiB": f"{row[f'{key}_mib']:.0f}"
            for key in ("allocated", "reserved", "process")
        },
        "context and libraries, MiB": ", ".join(
            f"{size:.0f}" for size in row["beside_the_allocator_mib"]
        ),
        **ends,
        "copies to it, GB/s": f"{row['to_bytes_per_s'] / 1e9:.1f}",
    }


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
