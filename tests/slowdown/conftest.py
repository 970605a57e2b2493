"""Results of made-up sweeps, kept for all tests of the verbs."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from made_sweep import make
from verb_making import DEVICE, SHAPE, calibration

from edgebench.slowdown.calibration import save_calibration


@pytest.fixture(autouse=True)
def one_core(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pure test fits in its own process, whatever an earlier one left in caches."""
    if request.node.get_closest_marker("process") is None:
        monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0})


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    make(folder, SHAPE)
    save_calibration(calibration(device=DEVICE), folder)
    return folder


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bare")
    make(folder, replace(SHAPE, networks={"alexnet": 4}, schedules=("linear",)))
    return folder
