"""Where the kernel keeps pages in other lists than those that are simulated, predictions say so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from made_sweep import Shape, make

from edgebench.cli.predict import predict
from edgebench.results.results import load
from edgebench.slowdown.context import device_data

TOLD = "two page lists are simulated"


def sweep_on(root: Path, generations: dict[str, Any] | None) -> Path:
    """A sweep whose environment says this of the multi-generation LRU."""
    path = make(root, Shape(with_files=False))
    file = path / "environment.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "lru_gen": generations}))
    return path


def test_a_kernel_with_generations_is_named_by_predict(tmp_path: Path):
    """On stderr, with the device's name and the kernel's switch; once, whatever the swap was."""
    path = sweep_on(tmp_path, {"enabled": True, "min_ttl_ms": 0})
    said = CliRunner().invoke(
        predict, ["--results", str(path), "--memory", "90M"], catch_exceptions=False
    )
    told = " ".join(said.stderr.split())
    assert told.count(TOLD) == 1
    assert "jetson-nano uses the multi-generation LRU (/sys/kernel/mm/lru_gen/enabled)" in told


@pytest.mark.parametrize("generations", [None, {"enabled": False, "min_ttl_ms": 0}])
def test_a_kernel_with_two_lists_is_not(tmp_path: Path, generations: dict[str, Any] | None):
    """Neither one that has generations and doesn't use them, nor one without."""
    _, warnings = device_data(load(sweep_on(tmp_path, generations)))
    assert not [words for words in warnings if TOLD in words]
