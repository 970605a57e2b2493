"""Sweeps whose every layer time is given, written by the real writer."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from edgebench.analysis.layer_costs import layer_cost_tables
from edgebench.analysis.layer_table import LayerCostTable
from edgebench.records import LimitSetting, Outcome, PhaseSum, TrialRecord, WalkReport
from edgebench.results.folder import ResultsFolder
from edgebench.results.results import load
from edgebench.spans import events_to_phases

MIB = 1 << 20
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
    base: int = 60 * MIB
    settings: Mapping[str, Any] = field(default_factory=dict)
    reason: str | None = None
    collections_s: float | None = None
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
    (folder.events_path(trial)).write_bytes(
        gzip.compress("".join(json.dumps(e) + "\n" for e in events).encode(), 1)
    )
    folder.samples_path(trial).write_bytes(samples(events))
    settings = {"kind": "inference", "networks": list(networks), "schedule": "bulk"}
    phases = events_to_phases(events)
    folder.append(
        TrialRecord(
            trial=trial,
            point=f"p-{made.label}",
            block=0,
            repeat=0,
            settings=dict(made.settings)
            if "kind" in made.settings
            else {**settings, "loader": "copy", "batch": 1, **made.settings},
            limits=LimitSetting(made.label, limit, "none"),
            outcome=made.outcome,
            reason=made.reason,
            collections_s=made.collections_s,
            started_utc="2026-01-02T03:04:05.678+00:00",
            wall_s=(events[-1]["t_ns"] - events[0]["t_ns"]) / 1e9,
            limit_bytes=limit,
            base_bytes=made.base,
            demand_bytes=200 * MIB if limit is None and made.outcome == "ok" else None,
            oom_kills=1 if made.outcome == "oom-killed" else 0,
            phases=phases,
            walk=_visit(trial, made, phases),
        )
    )


def _visit(trial: str, made: Made, phases: Sequence[PhaseSum]) -> WalkReport | None:
    if made.step is None:
        return None
    rounds = [phase.wall_s for phase in phases if phase.phase == "round"]
    return WalkReport(trial, made.step, rounds, made.around_s)


class _Clock:
    """Events on a clock that moves only when told."""

    def __init__(self, made: Made) -> None:
        self.made = made
        self.events: list[dict[str, Any]] = []
        self.t_ns = 10**12

    def start(self, phase: str, thread: int = 0, **about: Any) -> int:
        keys = {"round": None, "network": None, "layer": None, "name": None}
        self.events.append(
            {"event": "start", "id": len(self.events), "phase": phase, **keys, "thread": thread}
            | {"t_ns": self.t_ns, "usage_bytes": 50 * MIB, "swap_bytes": 0, **about}
        )
        return len(self.events) - 1

    def end(self, span: int) -> None:
        peak = 57 * MIB if self.made.peak else None
        self.events.append(
            {"event": "end", "id": span, "t_ns": self.t_ns, "usage_bytes": 55 * MIB}
            | {"swap_bytes": 0, "peak_bytes": peak, "cpu_ns": 1000}
            | {"major_faults": self.made.faults, "minor_faults": 5}
        )

    def pass_s(self, seconds: float) -> None:
        self.t_ns += round(seconds * 1e9)


def trial_events(made: Made, networks: Sequence[str] = ("duo",)) -> list[dict[str, Any]]:
    """What a worker under ``bulk`` would write; a killed one stops in its second layer's load."""
    clock = _Clock(made)
    first = clock.start("import")
    clock.pass_s(1.0)
    clock.end(first)
    for number, times in enumerate(made.rounds):
        whole = clock.start("round", round=number)
        for network in networks:
            about = {"round": number, "network": network}
            for phase, place in [("load", 0), ("first", 1), *[("execute", 2)] * made.warm]:
                for order, (name, _, _) in enumerate(LAYERS):
                    clock.pass_s(times[name][3])
                    span = clock.start(phase, layer=order, name=name, **about)
                    clock.pass_s(times[name][place])
                    if made.outcome != "ok" and order == 1:
                        return clock.events
                    clock.end(span)
        clock.end(whole)
    return clock.events


def overlapping(made: Made) -> list[dict[str, Any]]:
    """A round of 3 s on the clock: a load of 2 s and an execution of 2 s that overlap by 1.5 s."""
    clock = _Clock(made)
    whole = clock.start("round", round=0)
    about = {"round": 0, "network": "duo"}
    load = clock.start("load", thread=1, layer=1, name="fc", **about)
    clock.pass_s(0.5)
    first = clock.start("first", thread=2, layer=0, name="conv", **about)
    clock.pass_s(1.5)
    clock.end(load)
    clock.pass_s(0.5)
    clock.end(first)
    clock.pass_s(0.5)
    clock.end(whole)
    return clock.events


def write_events(path: Path, trial: str, events: Sequence[Mapping[str, Any]]) -> None:
    lines = "".join(json.dumps(event) + "\n" for event in events)
    (path / "events" / f"{trial}.jsonl.gz").write_bytes(gzip.compress(lines.encode(), 1))
    records = [json.loads(line) for line in (path / "trials.jsonl").read_text().splitlines()]
    for number, record in enumerate(records):
        if record["trial"] == trial:
            phases = events_to_phases([dict(event) for event in events])
            records[number] = replace(TrialRecord.from_json(record), phases=phases).to_json()
    (path / "trials.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))


def samples(events: Sequence[Mapping[str, Any]]) -> bytes:
    begin, end = events[0]["t_ns"] - 1000, events[-1]["t_ns"] + 50_000
    times = np.linspace(begin, end, 11).astype(np.int64)
    fast = np.zeros(11, [(n, "<i8") for n in ("t_ns", "usage_bytes", "swap_bytes", "cpu_ns")])
    fast["t_ns"], fast["swap_bytes"] = times, -1
    fast["usage_bytes"] = np.where(np.arange(11) < 5, 50 * MIB, 57 * MIB)
    fast["cpu_ns"] = np.minimum(np.arange(11), 8) * 1000
    stat = np.zeros(2, [(n, "<i8") for n in ("t_ns", "anon_bytes", "file_bytes", "shmem_bytes")])
    stat["t_ns"] = (begin, end)
    stat["anon_bytes"], stat["file_bytes"], stat["shmem_bytes"] = 40 * MIB, 10 * MIB, 2 * MIB
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for member, table in (("fast", fast), ("stat", stat)):
            data = io.BytesIO()
            np.save(data, table)
            archive.writestr(f"{member}.npy", data.getvalue())
    return target.getvalue()
