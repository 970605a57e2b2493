"""Small real-looking sweeps, written with the real writer."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from edgebench.records import LimitSetting, Outcome, SamplerReport, TrialRecord
from edgebench.results.folder import ResultsFolder
from edgebench.spans import events_to_phases
from tests.made_records import MIB, NETWORK, EventLog, packed_samples, record


def network_tables() -> dict[str, Any]:
    rows = [
        {"order": order, "name": name, "type": kind, "parameter_bytes": size, "buffer_bytes": 0}
        | {"output_bytes": 10 * size, "flops": 1000 * size, "file": f"{order}.safetensors"}
        | {"file_bytes": size + 32, "part": name}
        for order, (name, kind, size) in enumerate((("conv", "Conv2d", 100), ("fc", "Linear", 200)))
    ]
    lenet = {"folder": "/nowhere/lenet", "parameter_bytes": 300, "file_bytes": 364, "table": rows}
    return {"networks": {"lenet": lenet}}


NETWORKS = network_tables()


def inference_events(scale: float = 1.0, rounds: int = 2, warm: int = 0) -> list[dict[str, Any]]:
    """Two layers loaded and executed in each round; every loading takes ``scale`` × 0.1 s."""
    log = EventLog()
    log.whole("import", 1.0)
    log.whole("init", 0.5)
    for number in range(rounds):
        about = {"round": number, "network": "lenet"}
        whole_round = log.start("round", round=number)
        for layer, name in enumerate(("conv", "fc")):
            log.whole("load", 0.1 * scale, layer=layer, name=name, **about)
            log.whole("first", 0.2, layer=layer, name=name, **about)
        for _ in range(warm):
            glue = log.start("execute", **about)
            for layer, name in enumerate(("conv", "fc")):
                log.whole("execute", 0.05, layer=layer, name=name, **about)
            log.end(glue, 0.01)
        log.end(whole_round, 0.0)
    return log.events


def killed_events() -> list[dict[str, Any]]:
    log = EventLog()
    log.whole("import", 1.0)
    log.start("round", round=0)
    about = {"round": 0, "network": "lenet"}
    log.whole("load", 0.1, layer=0, name="conv", **about)
    log.start("load", layer=1, name="fc", **about)
    return log.events


def loading(
    trial: str = "0001",
    *,
    label: str = "max",
    memory_bytes: int | None = None,
    outcome: Outcome = "ok",
    scale: float = 1.0,
    **changes: Any,
) -> TrialRecord:
    """The record of a trial that loads and runs lenet; ``scale`` makes its loading slower."""
    values: dict[str, Any] = {
        "trial": trial,
        "point": f"p-{label}",
        "settings": {**NETWORK, "schedule": "linear", "weights": {"lenet": "/nowhere/lenet"}},
        "limits": LimitSetting(label, memory_bytes, "file", 64 * MIB),
        "outcome": outcome,
        "wall_s": 2.0 + 0.4 * scale,
        "peak_bytes": memory_bytes or 200 * MIB,
        "peak_source": "kernel",
        "saturated": memory_bytes is not None,
        "demand_bytes": 200 * MIB if memory_bytes is None and outcome == "ok" else None,
        "sampler": SamplerReport(0.001, 0.00101, 0.004, 900, 0.02, 9 * MIB),
        "phases": events_to_phases(inference_events(scale) if outcome == "ok" else killed_events()),
    }
    return record(memory_bytes and memory_bytes / MIB, **(values | changes))


def packed_events(events: Iterable[Mapping[str, Any]]) -> bytes:
    lines = "".join(json.dumps(event) + "\n" for event in events)
    return gzip.compress(lines.encode(), 1)


def write_files(folder: ResultsFolder, made: TrialRecord) -> None:
    events = inference_events() if made.outcome == "ok" else killed_events()
    folder.events_path(made.trial).write_bytes(packed_events(events))
    folder.log_path(made.trial).write_text("hello\n")
    folder.samples_path(made.trial).write_bytes(samples_npz())


def samples_npz() -> bytes:
    fast = np.array(
        [(10, 100, 0, 5), (20, 200, -1, 6), (30, 300, 2, 7)],
        dtype=[(n, "<i8") for n in ("t_ns", "usage_bytes", "swap_bytes", "cpu_ns")],
    )
    stat = np.array(
        [(10, 90, -1), (30, 91, -1)],
        dtype=[(n, "<i8") for n in ("t_ns", "anon_bytes", "kernel_bytes")],
    )
    return packed_samples(fast, stat)


def make_sweep(
    root: Path,
    *,
    device: str = "board",
    labels: tuple[str, ...] = ("max", "150M", "100M"),
    repeats: int = 3,
    stop_after: int | None = None,
    finish: bool = True,
    make: Callable[[str, str, int], TrialRecord] | None = None,
) -> Path:
    """A sweep of lenet; at 150M loading takes four times as long, at 100M it is killed."""
    trials = enumerate(product(range(repeats), labels), start=1)
    planned = [(f"{number:04d}", label, block) for number, (block, label) in trials]
    resolved = {
        "fingerprint": "f00d",
        "points": [{"id": f"p-{label}", "settings": {}, "share": None} for label in labels],
        "plan": [
            {"trial": trial, "point_id": f"p-{label}", "block": block, "repeat": block}
            for trial, label, block in planned
        ],
    }
    with ResultsFolder.create(
        root, device, "quick", 'name = "quick"\n', resolved, {"kernel": "6.1"}, NETWORKS
    ) as folder:
        for trial, label, block in planned[:stop_after]:
            made = (make or usual_record)(trial, label, block)
            write_files(folder, made)
            folder.append(made)
        if finish and stop_after is None:
            folder.finish({"trials": len(planned)})
        return folder.path


def usual_record(trial: str, label: str, block: int) -> TrialRecord:
    sizes = {"150M": 150 * MIB, "100M": 100 * MIB}
    return loading(
        trial,
        label=label,
        memory_bytes=sizes.get(label),
        outcome="oom-killed" if label == "100M" else "ok",
        scale=(4.0 if label == "150M" else 1.0) * (1 + 0.01 * block),
        block=block,
        repeat=block,
    )
