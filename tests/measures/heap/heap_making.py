"""A heap profiler's own trial of a real network, or of any command."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgebench.measures.strategies import Reading
from edgebench.processes import cache_folder
from edgebench.records import LimitSetting, TrialRecord
from edgebench.run.trial.record import TrialRequest
from edgebench.run.trial.session import open_session
from edgebench.run.trial.trial import TrialFiles, run_trial
from edgebench.spans import Span, finished_spans
from edgebench.workloads.preparation import prepare_networks


@dataclass(frozen=True)
class Profiled:
    """What a profiler's trial left; ``reading`` is None if it told nothing."""

    record: TrialRecord
    reading: Reading | None
    spans: list[Span]
    manifest: dict[str, Any]


def profile_network(
    network: str, strategy: str, timeout_s: float = 1000.0, **settings: Any
) -> Profiled:
    manifest = prepare_networks(
        [network],
        cache=cache_folder(None),
        seed=1,
        checkpoints={},
        image=None,
        identity=None,
    )["networks"][network]
    usual = {
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
    request = TrialRequest(
        "0000",
        "heap",
        0,
        0,
        {**usual, **settings},
        LimitSetting(),
        timeout_s=timeout_s,
        weights={network: manifest["folder"]},
        strategy=strategy,
    )
    return _run(request, manifest)


def profile_command(command: list[str], strategy: str, timeout_s: float = 120.0) -> Profiled:
    settings = {"kind": "command", "command": command}
    request = TrialRequest(
        "0000", "heap", 0, 0, settings, LimitSetting(), timeout_s=timeout_s, strategy=strategy
    )
    return _run(request, {})


def _run(request: TrialRequest, manifest: dict[str, Any]) -> Profiled:
    with open_session() as session:
        folder: Path = session.folder
        files = TrialFiles(
            samples=folder / "samples.npz",
            events=folder / "events.jsonl.gz",
            log=folder / "log",
            work=folder,
            reading=folder / "reading.json.gz",
        )
        record = run_trial(session.setup, request, files)
        events = [json.loads(line) for line in _unpacked(files.events).splitlines()]
        reading = None
        if files.reading and files.reading.exists():
            reading = Reading.from_json(json.loads(_unpacked(files.reading)))
        return Profiled(record, reading, finished_spans(events), manifest)


def _unpacked(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes())
