"""Layer tables are worked out once: later calls start no process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from edgebench.workloads import preparation
from edgebench.workloads.preparation import describe_networks, describe_trainings


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Mapping[str, Any]]:
    """The requests that would have started a process; the cache is empty."""
    monkeypatch.setenv("EDGEBENCH_CACHE", str(tmp_path))
    requests: list[Mapping[str, Any]] = []

    def answer(task: str, request: Mapping[str, Any], *about: object) -> dict[str, Any]:
        requests.append(request)
        if task == "describe":
            return {"networks": {name: {"table": []} for name in request["networks"]}}
        keys = [*request["workloads"]]
        tables = {key: [{"order": 0}] for key in keys if key != "bad"}
        operations = {f"{key} operations": [{"step": 1}] for key in tables}
        untold = {key: "why" for key in keys if key == "bad"}
        return {"tables": {**tables, **operations}, "untold": untold}

    monkeypatch.setattr(preparation, "_answer", answer)
    return requests


def test_known_networks_are_described_once(asked: list[Mapping[str, Any]]):
    """Another image is another question."""
    first = describe_networks(["alexnet"], identity=None)
    assert describe_networks(["alexnet"], identity=None) == first
    assert len(asked) == 1
    describe_networks(["alexnet"], image=64, identity=None)
    assert len(asked) == 2


def test_a_network_of_ones_own_is_described_each_time(asked: list[Mapping[str, Any]]):
    """Its code may have changed."""
    for _ in range(2):
        describe_networks(["mine"], references={"mine": {"kind": "module"}}, identity=None)
    assert len(asked) == 2


def test_only_trainings_that_were_never_described_are_asked_for(asked: list[Mapping[str, Any]]):
    """Each is kept by itself, and so is why one can't be described."""
    describe_trainings({"one": {"batch": 1}, "bad": {"batch": 2}}, identity=None)
    found = describe_trainings(
        {"one": {"batch": 1}, "bad": {"batch": 2}, "new": {"batch": 3}}, identity=None
    )
    assert [sorted(request["workloads"]) for request in asked] == [["bad", "one"], ["new"]]
    assert sorted(found["tables"]) == ["new", "new operations", "one", "one operations"]
    assert found["untold"] == {"bad": "why"}
    describe_trainings({"one": {"batch": 8}}, identity=None)
    assert len(asked) == 3
