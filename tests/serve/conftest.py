"""What the dashboard's tests need."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from made_sweep import Shape, make
from serving import Served, serving


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A server over an empty results folder."""
    with serving(tmp_path / "results") as server:
        yield server


@pytest.fixture(scope="module")
def with_sweep(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server over one finished sweep of two networks."""
    root = tmp_path_factory.mktemp("results")
    make(root, Shape(repeats=2, networks={"alexnet": 8, "lenet": 4}))
    with serving(root) as server:
        yield server
