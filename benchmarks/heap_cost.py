"""What each heap profiler costs: the same trial with it ÷ without it, in pairs.

``python benchmarks/heap_cost.py [PAIRS [NETWORK STRATEGY…]]``: each pair is one trial of each
strategy and one without any, in an order drawn at random. massif is for small networks: name it
with one (``1 lenet massif``).
"""

from __future__ import annotations

import random
import statistics
import sys
from typing import Any

import report

from edgebench.cache import cache_folder
from edgebench.measures.strategies import strategy_of
from edgebench.records import LimitSetting, TrialRecord
from edgebench.run.session import open_session
from edgebench.run.trial import TrialFiles, run_trial
from edgebench.run.trial_record import TrialRequest
from edgebench.workloads.preparation import prepare_networks

PHASES = ("import", "load", "first", "execute")


def request_of(network: str, strategy: str | None) -> TrialRequest:
    """One unlimited trial: load all layers, execute them twice."""
    made = prepare_networks(
        [network],
        cache=cache_folder(None),
        seed=1,
        checkpoints={},
        batch=1,
        image=None,
        identity=None,
    )
    settings: dict[str, Any] = {
        "kind": "inference",
        "networks": [network],
        "schedule": "bulk",
        "loader": "copy",
        "batch": 1,
        "image": None,
        "rounds": 1,
        "warm": 1,
        "threads": None,
        "workers": 2,
        "seed": 1,
        "page_cache": "cold",
    }
    weights = {network: made["networks"][network]["folder"]}
    return TrialRequest(
        "0000", "heap", 0, 0, settings, LimitSetting(), weights=weights, strategy=strategy
    )


def trial_of(request: TrialRequest) -> TrialRecord:
    """Make that trial."""
    with open_session() as session:
        names = ("samples.npz", "events.jsonl.gz", "log")
        samples, events, log = (session.folder / name for name in names)
        reading = session.folder / "reading.json.gz"
        files = TrialFiles(samples, events, log, session.folder, reading)
        record = run_trial(session.setup, request, files)
    assert record.outcome == "ok", record.reason
    return record


def seconds(record: TrialRecord) -> dict[str, float]:
    """Of the whole trial, and of each phase."""
    phases = {phase.phase: phase.wall_s for phase in record.phases}
    return {"trial": record.wall_s or 0.0, **{name: phases[name] for name in PHASES}}


def main(pairs: int, network: str, strategies: list[str]) -> None:
    """Measure, and write ``results/heap_cost_<network>``."""
    rng = random.Random(1)
    choices: list[str | None] = [None, *strategies]
    taken: list[dict[str, dict[str, float]]] = []
    for _ in range(pairs):
        rng.shuffle(choices)
        times = {name or "none": seconds(trial_of(request_of(network, name))) for name in choices}
        taken.append(times)
        print(times, file=sys.stderr)
    rows = []
    for name in strategies:
        strategy = strategy_of(name)
        assert strategy
        ratios = {
            part: statistics.median(times[name][part] / times["none"][part] for times in taken)
            for part in ("trial", *PHASES)
        }
        rows.append([strategy.title, *(f"{ratio:.1f}" for ratio in ratios.values())])
    says = f"{network}, unlimited: seconds under a heap profiler ÷ without it, median of {pairs}."
    report.write(f"heap_cost_{network}", says, ["profiler", "whole trial", *PHASES], rows, taken)


if __name__ == "__main__":
    main(
        int(sys.argv[1]) if len(sys.argv) > 1 else 3,
        sys.argv[2] if len(sys.argv) > 2 else "alexnet",
        sys.argv[3:] or ["memray", "tcmalloc"],
    )
