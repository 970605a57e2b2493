"""Layer tables are worked out once: later calls start no process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from edgebench.workloads import preparation
from edgebench.workloads.preparation import describe_networks


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Mapping[str, Any]]:
    """The requests that would have started a process; the cache is empty."""
    monkeypatch.setenv("EDGEBENCH_CACHE", str(tmp_path))
    requests: list[Mapping[str, Any]] = []

    def answer(task: str, request: Mapping[str, Any], *about: object) -> dict[str, Any]:
        requests.append(request)
        return {"networks": {name: {"table": []} for name in request["networks"]}}

    monkeypatch.setattr(preparation, "_answer", answer)
    return requests


def test_known_networks_are_described_once(asked: list[Mapping[str, Any]]):
    first = describe_networks(["alexnet"], identity=None)
    assert describe_networks(["alexnet"], identity=None) == first
    assert len(asked) == 1
    describe_networks(["alexnet"], image=64, identity=None)
    assert len(asked) == 2


def test_a_network_of_ones_own_is_described_each_time(asked: list[Mapping[str, Any]]):
    for _ in range(2):
        describe_networks(["mine"], references={"mine": {"kind": "module"}}, identity=None)
    assert len(asked) == 2
