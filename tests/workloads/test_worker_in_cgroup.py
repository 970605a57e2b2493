"""Inference trials in real cgroups: what a schedule holds in memory is what the kernel counts."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from training_making import inference

from edgebench.layers.examination import examine
from edgebench.layers.pipeline import prepare_weights
from edgebench.records import LimitSetting, TrialRecord
from edgebench.run.trial.record import TrialRequest
from edgebench.run.trial.session import Session
from edgebench.run.trial.trial import TrialFiles, run_trial

pytestmark = [pytest.mark.own_cgroup, pytest.mark.torch]
NETWORK = "resnet18"


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int, int]:
    """ResNet-18's weights; bytes of all of them, and of the largest layer's."""
    folder, files = prepare_weights(examine(NETWORK, {}), tmp_path_factory.mktemp("cache"), 0)
    sizes = [size for _, size in files.values()]
    return folder, sum(sizes), max(sizes)


@pytest.fixture(scope="module")
def linear(
    session: Session, weights: tuple[Path, int, int], tmp_path_factory: pytest.TempPathFactory
) -> tuple[TrialRecord, list[dict[str, Any]]]:
    return trial(session, weights[0], tmp_path_factory.mktemp("t") / "linear", "linear", "copy")


def trial(
    session: Session, folder: Path, work: Path, schedule: str, loader: str
) -> tuple[TrialRecord, list[dict[str, Any]]]:
    about = {"kind": "inference", "networks": [NETWORK], "image": 32}
    settings = inference(folder, **about, schedule=schedule, loader=loader)
    del settings["weights"]
    work.mkdir()
    files = TrialFiles(work / "s.npz", work / "e.gz", work / "log", work)
    where = {NETWORK: str(folder)}
    request = TrialRequest("0001", "p1", 0, 0, settings, LimitSetting(), 120, where)
    record = run_trial(session.setup, request, files)
    assert record.outcome == "ok", record.reason
    with gzip.open(files.events, "rt") as lines:
        return record, [json.loads(line) for line in lines]


def usage(events: list[dict[str, Any]], phase: str) -> list[int]:
    ids = {e["id"] for e in events if e["event"] == "start" and e["phase"] == phase}
    return [e["usage_bytes"] for e in events if e["event"] == "end" and e["id"] in ids]


def test_linear_needs_less_than_bulk_by_the_weights_it_does_not_hold(
    session: Session,
    weights: tuple[Path, int, int],
    linear: tuple[TrialRecord, list[dict[str, Any]]],
    tmp_path: Path,
) -> None:
    folder, total, largest = weights
    bulk, _ = trial(session, folder, tmp_path / "bulk", "bulk", "copy")
    assert bulk.demand_bytes is not None
    assert linear[0].demand_bytes is not None
    saved = bulk.demand_bytes - linear[0].demand_bytes
    assert 0.7 * (total - largest) < saved < 1.1 * total


def test_a_loads_own_peak_holds_the_layer(
    weights: tuple[Path, int, int], linear: tuple[TrialRecord, list[dict[str, Any]]]
) -> None:
    (_, _, largest), (_, events) = weights, linear
    starts = {e["id"]: e for e in events if e["event"] == "start" and e["phase"] == "load"}
    rises = [
        e["peak_bytes"] - starts[e["id"]]["usage_bytes"]
        for e in events
        if e["event"] == "end" and e["id"] in starts and e["peak_bytes"] is not None
    ]
    if not rises:
        pytest.skip("this kernel can't reset its high-water mark")
    # Its anonymous copy, and the file's pages, which read-ahead may have brought in before.
    assert 0.9 * largest < max(rises) < 2.5 * largest


@pytest.mark.long
def test_rounds_start_cold(
    session: Session, weights: tuple[Path, int, int], tmp_path: Path
) -> None:
    folder, total, _ = weights
    _, events = trial(session, folder, tmp_path / "t", "bulk", "mmap")
    first, second = usage(events, "round")
    assert second - first < 0.5 * total
