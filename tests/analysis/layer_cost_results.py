"""Sweeps whose every layer time is given, written by the real writer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from edgebench.analysis.layer_costs import LayerCostTable, layer_cost_tables
from edgebench.records import LimitSetting, Outcome, TrialRecord, WalkReport
from edgebench.results.folder import ResultsFolder
from edgebench.results.results import load
from edgebench.spans import events_to_phases
from tests.made_records import MIB, NETWORK, EventLog, record
from tests.results.results_making import packed_events

#: name, type, parameter bytes.
LAYERS = (("conv", "Conv2d", 4 * MIB), ("fc", "Linear", 100 * MIB), ("act", "ReLU", 0))
#: Seconds of loading, of the first and of each later execution, of the glue before the layer.
Times = tuple[float, float, float, float]
UNLIMITED: dict[str, Times] = {
    "conv": (0.10, 0.20, 0.05, 0.01),
    "fc": (0.30, 0.10, 0.10, 0.01),
    "act": (0.00, 0.01, 0.01, 0.01),
}


@dataclass(frozen=True)
class Made:
    """One trial to write: its limit, and for each round every layer's times."""

    label: str = "max"
    rounds: Sequence[Mapping[str, Times]] = (UNLIMITED,)
    outcome: Outcome = "ok"
    warm: int = 2
    faults: int = 3
    peak: bool = True
    settings: Mapping[str, Any] = field(default_factory=dict)
    reason: str | None = None
    #: Which visit of a walk it is, and what a round takes without a limit at that time.
    step: int | None = None
    around_s: float | None = None


def slower(layer: str, times: Times, base: Mapping[str, Times] = UNLIMITED) -> dict[str, Times]:
    return {**base, layer: times}


#: At 100M the second layer takes 0.2 s more to load and 0.4 s more in each of three executions, the
#: first 0.1 s more to load; before each span of the first lie 10 ms more, four spans a pass.
LIMITED = slower("fc", (0.50, 0.50, 0.50, 0.01), slower("conv", (0.20, 0.20, 0.05, 0.02)))


def make(root: Path, trials: Sequence[Made], networks: Sequence[str] = ("duo",)) -> Path:
    tables = {"networks": {name: _table() for name in networks}}
    resolved: dict[str, Any] = {"fingerprint": "f00d", "points": [], "plan": []}
    with ResultsFolder.create(
        root, "board", "layers-duo", 'name = "made"\n', resolved, {"kernel": "6.1"}, tables
    ) as folder:
        for number, made in enumerate(trials, start=1):
            _write(folder, f"{number:04d}", made, networks)
        folder.finish({"trials": len(trials)})
        return folder.path


def table_of(path: Path) -> LayerCostTable:
    (table, left_out) = layer_cost_tables(load(path))
    assert left_out == []
    (only,) = table
    return only


def _table() -> dict[str, Any]:
    rows = [
        {"order": order, "name": name, "type": kind, "parameter_bytes": size, "buffer_bytes": 0}
        | {"output_bytes": 5000, "flops": 1000, "file_bytes": size + 64, "part": name}
        for order, (name, kind, size) in enumerate(LAYERS)
    ]
    return {"parameter_bytes": 104 * MIB, "file_bytes": 105 * MIB, "table": rows}


def _write(folder: ResultsFolder, trial: str, made: Made, networks: Sequence[str]) -> None:
    events = trial_events(made, networks)
    limit = None if made.label == "max" else int(made.label.removesuffix("M")) * MIB
    folder.events_path(trial).write_bytes(packed_events(events))
    settings = {**NETWORK, "networks": list(networks), **made.settings}
    phases = events_to_phases(events)
    walk = None
    if made.step is not None:
        rounds = [phase.wall_s for phase in phases if phase.phase == "round"]
        walk = WalkReport(trial, made.step, rounds, made.around_s)
    folder.append(
        record(
            limit and limit / MIB,
            trial=trial,
            point=f"p-{made.label}",
            settings=dict(made.settings) if "kind" in made.settings else settings,
            limits=LimitSetting(made.label, limit, "none"),
            outcome=made.outcome,
            reason=made.reason,
            wall_s=(events[-1]["t_ns"] - events[0]["t_ns"]) / 1e9,
            base_bytes=60 * MIB,
            demand_bytes=200 * MIB if limit is None and made.outcome == "ok" else None,
            phases=phases,
            walk=walk,
        )
    )


def trial_events(made: Made, networks: Sequence[str] = ("duo",)) -> list[dict[str, Any]]:
    """What a worker under ``bulk`` would write; a killed one stops in its second layer's load."""
    log = EventLog()
    counted = {"major_faults": made.faults, "peak_bytes": 57 * MIB if made.peak else None}
    log.whole("import", 1.0)
    for number, times in enumerate(made.rounds):
        whole = log.start("round", round=number)
        for network in networks:
            for phase, place in [("load", 0), ("first", 1), *[("execute", 2)] * made.warm]:
                for order, (name, _, _) in enumerate(LAYERS):
                    log.t_ns += round(times[name][3] * 1e9)
                    about = {"round": number, "network": network, "layer": order, "name": name}
                    span = log.start(phase, **about)
                    if made.outcome != "ok" and order == 1:
                        return log.events
                    log.end(span, times[name][place], **counted)
        log.end(whole, 0.0)
    return log.events


def write_events(path: Path, trial: str, events: Sequence[Mapping[str, Any]]) -> None:
    (path / "events" / f"{trial}.jsonl.gz").write_bytes(packed_events(events))
    phases = events_to_phases([dict(event) for event in events])
    lines = (path / "trials.jsonl").read_text().splitlines()
    for number, made in enumerate(TrialRecord.from_json(json.loads(line)) for line in lines):
        if made.trial == trial:
            lines[number] = json.dumps(replace(made, phases=phases).to_json())
    (path / "trials.jsonl").write_text("\n".join(lines) + "\n")
