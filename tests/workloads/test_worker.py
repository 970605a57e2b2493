"""The worker, as the harness starts it: real torch in a process of its own."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from training_making import inference, worker

from edgebench.layers.examination import examine
from edgebench.layers.known_networks import ZOO
from edgebench.layers.names import LOADERS as LOADER_NAMES
from edgebench.layers.names import SCHEDULES as SCHEDULE_NAMES
from edgebench.layers.pipeline import SCHEDULES, prepare_weights, weight_files
from edgebench.layers.sources import random_images
from edgebench.layers.tensor_files import LOADERS
from edgebench.spans import events_to_phases, unfinished_span
from edgebench.workloads.recorder import NO_DESCRIPTORS
from edgebench.workloads.worker import main

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare_weights(examine("lenet", {}), tmp_path_factory.mktemp("cache"), 0)[0]


def worker_here(
    settings: dict[str, Any], kind: str = "inference"
) -> tuple[int, list[dict[str, Any]]]:
    """The same in this process, where torch is imported already: its exit code and events."""
    with tempfile.TemporaryFile() as events:
        descriptors = {**NO_DESCRIPTORS, "events": events.fileno()}
        spec = {"kind": kind, "settings": settings, "descriptors": descriptors}
        code = main([json.dumps(spec)])
        events.seek(0)
        return code, [json.loads(line) for line in events]


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    """A worker here sets how many threads torch has; they are put back."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def notes(events: list[dict[str, Any]]) -> dict[str, Any]:
    return {k: v for e in events if e["event"] == "note" for k, v in e["data"].items()}


def plain_digest(weights: Path) -> str:
    model = ZOO["lenet"]().eval()
    files = weight_files(weights).items()
    loaded = {f"{part}.{k}": v for part, f in files for k, v in LOADERS["copy"](f).items()}
    model.load_state_dict(loaded)
    with torch.inference_mode():
        output = model(random_images((1, 1, 28, 28), 5))
    return hashlib.sha256(output.numpy().tobytes()).hexdigest()


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_worker_runs_its_rounds_and_tells_all(schedule: str, loader: str, weights: Path) -> None:
    code, events = worker_here(inference(weights, schedule=schedule, loader=loader))
    assert code == 0
    check_rounds(events, schedule, weights)


def test_so_it_does_in_a_process_of_its_own(weights: Path) -> None:
    asked = inference(weights, schedule="stream", loader="mmap")
    done, events = worker("inference", asked, env={"MALLOC_ARENA_MAX": "1"})
    assert done.returncode == 0, done.stderr
    check_rounds(events, "stream", weights)
    told = notes(events)
    assert told["torch"] == torch.__version__
    assert told["threads"] == 1
    assert told["environment"] == {"MALLOC_ARENA_MAX": "1"}


def check_rounds(events: list[dict[str, Any]], schedule: str, weights: Path) -> None:
    assert unfinished_span(events) is None
    phases = {(p.round, p.network, p.phase) for p in events_to_phases(events)}
    in_rounds = (
        ("load", "first", "execute") if schedule in ("bulk", "stream") else ("load", "first")
    )
    rounds = {(number, "lenet", phase) for number in range(2) for phase in in_rounds}
    whole = {(-1, None, "import"), (-1, None, "init"), (0, None, "round"), (1, None, "round")}
    assert phases == rounds | whole
    assert notes(events)["output_sha256"] == {"lenet": plain_digest(weights)}


def test_schedules_and_loaders_are_those_a_scenario_may_name() -> None:
    assert tuple(SCHEDULES) == SCHEDULE_NAMES
    assert tuple(LOADERS) == LOADER_NAMES


def test_a_pipeline_may_hold_a_network_twice(weights: Path) -> None:
    asked = inference(weights, networks=["lenet", "lenet"], schedule="partial")
    code, events = worker_here(asked)
    assert code == 0
    loads = [e for e in events if e["event"] == "start" and e["phase"] == "load"]
    assert len(loads) == 2 * 2 * 11


def test_import_is_a_workload_of_its_own() -> None:
    code, events = worker_here({}, kind="import")
    assert code == 0
    assert [p.phase for p in events_to_phases(events)] == ["import"]


def test_what_cannot_be_run_is_told(weights: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, events = worker_here(inference(weights, weights={"lenet": "/nowhere"}))
    assert code == 1
    assert "no weights" in notes(events)["error"]["what"]
    assert set(notes(events)["error"]) == {"what", "where", "remedy"}
    assert "no weights" in capsys.readouterr().err


@pytest.fixture
def gone(weights: Path, tmp_path: Path) -> Path:
    for file in weights.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    gone = weight_files(tmp_path)["classifier.2"]
    gone.unlink()
    return gone


def test_a_worker_that_fails_says_so_in_a_process_of_its_own(gone: Path) -> None:
    done, events = worker("inference", inference(gone.parent, schedule="partial"))
    assert done.returncode == 1
    assert notes(events)["error"]["where"] == str(gone)
    assert str(gone) in done.stderr
    assert "Traceback" not in done.stderr
    assert unfinished_span(events) is not None
