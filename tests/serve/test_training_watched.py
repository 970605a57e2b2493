"""Work B's whole use through the page's own addresses: train, watch the loss, compare."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from serving import Served, wait_for

pytestmark = pytest.mark.own_cgroup

FORM: dict[str, Any] = {
    "scenario": {"name": "trainings", "repeats": 1},
    "workload": {
        "kind": "training",
        "network": ["mlp"],
        "data": ["digits"],
        "learning_rate": [0.1, 0.01],
        "batch": [32],
        # Two seconds or more: a trial that ends before its lines are read shows no loss.
        "steps": 3000,
        "threads": 1,
    },
}


def test_hyper_parameters_in_loss_out(fresh: Served):
    """Two learning rates from the form: loss seen while they train, kept for comparing after."""
    answer = fresh.post("/api/jobs", FORM).data
    assert "faults" not in answer, answer
    told: list[dict[str, Any]] = []
    with fresh.stream() as events:
        for kind, data in events:
            if kind in ("trial", "update") and data:
                told += data["metrics"]
            if kind == "progress" and (data["sweep"] or {}).get("complete"):
                break
    assert any("loss" in key for metric in told for key in metric["values"])
    rows = wait_for(lambda: fresh.get("/api/sweeps").data["sweeps"])
    name = quote(rows[0]["sweep"])
    trials = fresh.get(f"/api/trials?sweep={name}").data["trials"]
    assert sorted(trial["learning_rate"] for trial in trials) == [0.01, 0.1]
    for trial in trials:
        detail = fresh.get(f"/api/trial?sweep={name}&trial={trial['trial']}").data
        losses = [metric["values"]["loss"] for metric in detail["metrics"]]
        assert losses[-1] < losses[0]
