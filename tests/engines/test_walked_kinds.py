"""Walks of files in other engines, of training and of overlapping loads, in real cgroups."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from engine_models import made_keras, made_onnx, made_tflite

from edgebench.results.results import load
from edgebench.results.times import LEAST
from tests.own_path import python_path

pytestmark = [pytest.mark.torch, pytest.mark.own_cgroup, pytest.mark.root, pytest.mark.swap]

SCENARIO = """
schema = 1
name = "kind"
repeats = 1
timeout = "2m"
[workload]
{workload}
[limits]
memory = ["130%", "95%"]
swap = "256M"
plan = "walk"
target = 0.5
starts = ["130%"]
"""


def _nothing(folder: Path) -> Path:
    return folder


#: What to make first, and the workload's table.
KINDS: dict[str, tuple[Callable[[Path], Path], str]] = {
    "onnx": (made_onnx, 'kind = "inference"\nnetwork = "small.onnx"'),
    "onnx by nodes": (
        made_onnx,
        'kind = "inference"\nnetwork = "small.onnx"\nnode_times = true',
    ),
    "tflite": (made_tflite, 'kind = "inference"\nnetwork = "small.tflite"'),
    "keras": (made_keras, 'kind = "inference"\nnetwork = "small.keras"'),
    "training": (
        _nothing,
        'kind = "training"\nnetwork = "lenet"\ndata = "digits"\nimage = 28\nbatch = 16',
    ),
    "overlapping loads": (
        _nothing,
        'kind = "inference"\nnetwork = "lenet"\nschedule = "partial"\nworkers = 2\nrounds = 4',
    ),
}


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=() if kind == "onnx by nodes" else pytest.mark.long)
        for kind in KINDS
    ],
)
def test_a_kind_is_walked(tmp_path: Path, kind: str) -> None:
    make, workload = KINDS[kind]
    make(tmp_path)
    (tmp_path / "kind.toml").write_text(SCENARIO.format(workload=workload))
    environment = {"PYTHONPATH": python_path(), "EDGEBENCH_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-m", "edgebench", "run", "kind.toml"],
        cwd=tmp_path,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    results = load(tmp_path / "results")
    (sweep,) = results.sweeps
    both = [*sweep.records, *sweep.upward_records]
    steps = [(record, record.walk) for record in both if record.walk]
    assert {record.direction for record, _ in steps} == {None, "down", "up"}
    assert {record.outcome for record in both} == {"ok"}
    # A visit ends when two rounds after its first read the same.
    assert all(len(walk.round_s) >= LEAST or not record.limit_bytes for record, walk in steps)
    fresh = [record.limits.label for record in both if not record.walk]
    assert sorted(fresh) == ["130%", "max"]
    assert set(results.phases["stage"]) >= {"start", "settling", "steady"}
