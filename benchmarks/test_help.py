"""What a person waits for before anything is measured: help, first lines, a Tab; what they load."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

COMMAND = [sys.executable, "-m", "edgebench"]
HEAVY = ("torch", "torchvision", "pandas", "seaborn", "scipy", "numpy", "matplotlib")
HEAVY += ("pydantic", "rich", "msgspec")
#: What is typed → its variables: a Tab after `edgebench m`.
TAB = {"_EDGEBENCH_COMPLETE": "bash_complete", "COMP_WORDS": "edgebench m", "COMP_CWORD": "1"}
CALLS = {"first lines": ([], {}), "--help": (["--help"], {}), "Tab": ([], TAB)}


@pytest.mark.parametrize("name", CALLS)
def test_the_first_answer_takes_a_blink(benchmark: BenchmarkFixture, name: str) -> None:
    """The whole process, from start to end; the aim is under 0.1 s."""
    words, variables = CALLS[name]
    command, env = [*COMMAND, *words], {**os.environ, **variables}
    benchmark.pedantic(
        lambda: subprocess.run(command, env=env, check=True, capture_output=True),
        rounds=20,
        warmup_rounds=2,
    )


@pytest.mark.parametrize("name", HEAVY)
def test_help_loads_nothing_heavy(name: str) -> None:
    """No heavy library is imported for help."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *COMMAND[1:], "--help"],
        check=True,
        capture_output=True,
        text=True,
    )
    loaded = {line.rpartition("|")[2].strip().split(".")[0] for line in done.stderr.splitlines()}
    assert name not in loaded
