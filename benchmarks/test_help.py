"""``edgebench --help``: how long a person waits, and what it drags in."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

COMMAND = [sys.executable, "-m", "edgebench", "--help"]
HEAVY = ("torch", "torchvision", "pandas", "seaborn", "scipy", "numpy", "matplotlib", "lmfit")


def test_help_takes_a_blink(benchmark: BenchmarkFixture) -> None:
    """The whole process, from start to end; the aim is under 0.2 s."""
    benchmark.pedantic(
        lambda: subprocess.run(COMMAND, check=True, capture_output=True), rounds=20, warmup_rounds=2
    )


@pytest.mark.parametrize("name", HEAVY)
def test_help_loads_nothing_heavy(name: str) -> None:
    """No heavy library is imported for help."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *COMMAND[1:]],
        check=True,
        capture_output=True,
        text=True,
    )
    loaded = {line.rpartition("|")[2].strip().split(".")[0] for line in done.stderr.splitlines()}
    assert name not in loaded
