"""Inference trials in real cgroups: what a schedule holds in memory is what the kernel counts."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgebench.layers.weights import prepare_weights
from edgebench.records.records import LimitSetting, TrialRecord
from edgebench.trial.recording import TrialRequest
from edgebench.trial.trial import TrialFiles, run_trial
from edgebench.workshop.workshop import Workshop, open_workshop

pytestmark = pytest.mark.cgroup
NETWORK = "resnet18"


@pytest.fixture(scope="module")
def workshop() -> Iterator[Workshop]:
    """The real apparatus."""
    with open_workshop() as workshop:
        yield workshop


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int, int]:
    """ResNet-18's weights; bytes of all of them, and of the largest layer's."""
    folder, files = prepare_weights(NETWORK, tmp_path_factory.mktemp("cache"), 0)
    sizes = [size for _, size in files.values()]
    return folder, sum(sizes), max(sizes)


def trial(
    workshop: Workshop, folder: Path, work: Path, schedule: str, loader: str
) -> tuple[TrialRecord, list[dict[str, Any]]]:
    """One unlimited trial on small images, and its events."""
    settings = {
        "kind": "inference",
        "networks": [NETWORK],
        "schedule": schedule,
        "loader": loader,
        "batch": 1,
        "image": 32,
        "rounds": 2,
        "warm": 1,
        "threads": 1,
        "workers": 2,
        "seed": 0,
        "page_cache": "cold",
    }
    work.mkdir()
    files = TrialFiles(work / "s.npz", work / "e.gz", work / "log", work)
    where = {NETWORK: str(folder)}
    request = TrialRequest("0001", "p1", 0, 0, settings, LimitSetting(), 120, where)
    record = run_trial(workshop.apparatus, request, files)
    assert record.outcome == "ok", record.reason
    with gzip.open(files.events, "rt") as lines:
        return record, [json.loads(line) for line in lines]


def usage(events: list[dict[str, Any]], phase: str) -> list[int]:
    """The cgroup's usage at each end of this phase's spans, in order."""
    ids = {e["id"] for e in events if e["event"] == "start" and e["phase"] == phase}
    return [e["usage_bytes"] for e in events if e["event"] == "end" and e["id"] in ids]


def test_linear_needs_less_than_bulk_by_the_weights_it_does_not_hold(
    workshop: Workshop, weights: tuple[Path, int, int], tmp_path: Path
) -> None:
    """Copied weights are unloaded for real: the demand falls by nearly all but one layer's."""
    folder, total, largest = weights
    bulk, _ = trial(workshop, folder, tmp_path / "bulk", "bulk", "copy")
    linear, _ = trial(workshop, folder, tmp_path / "linear", "linear", "copy")
    assert bulk.demand_bytes is not None
    assert linear.demand_bytes is not None
    saved = bulk.demand_bytes - linear.demand_bytes
    assert 0.7 * (total - largest) < saved < 1.1 * total


def test_a_loads_own_peak_holds_the_layer(
    workshop: Workshop, weights: tuple[Path, int, int], tmp_path: Path
) -> None:
    """Where the kernel resets its mark, the largest layer's load shows its size above its start."""
    folder, _, largest = weights
    _, events = trial(workshop, folder, tmp_path / "t", "linear", "copy")
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


def test_rounds_start_cold(
    workshop: Workshop, weights: tuple[Path, int, int], tmp_path: Path
) -> None:
    """Mapped weights were let go of and evicted: usage at rounds' ends does not add up."""
    folder, total, _ = weights
    _, events = trial(workshop, folder, tmp_path / "t", "bulk", "mmap")
    first, second = usage(events, "round")
    assert second - first < 0.5 * total
