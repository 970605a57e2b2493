"""Walks of a file's nodes and of overlapping loads, in real cgroups."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from engine_models import made_onnx

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
kind = "inference"
{workload}
[limits]
memory = ["130%", "95%"]
swap = "256M"
plan = "walk"
target = 0.5
starts = ["130%"]
"""


@pytest.mark.parametrize(
    "workload",
    [
        'network = "small.onnx"\nnode_times = true',
        pytest.param(
            'network = "lenet"\nschedule = "partial"\nworkers = 2\nrounds = 4',
            marks=pytest.mark.long,
        ),
    ],
    ids=["nodes of a file", "overlapping loads"],
)
def test_a_kind_is_walked(tmp_path: Path, workload: str) -> None:
    made_onnx(tmp_path)
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
