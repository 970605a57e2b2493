"""Verbs that only read, on the kept quick start: what a reader waits for each."""

from __future__ import annotations

import compileall
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from claims.kept import DEVICE, FRESH_QUICKSTART, ROOT
from pytest_benchmark.fixture import BenchmarkFixture

#: Verb → its words before the sweep.
VERBS: dict[str, list[str]] = {
    "show": [],
    "fit": [],
    "report": [],
    "plot": [],
    "predict": ["resnet18", "--memory", "50%", "--results"],
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_on_the_quick_start(benchmark: BenchmarkFixture, tmp_path: Path, verb: str) -> None:
    """The whole process, from start to end, without what is derived."""
    # As pip does: else byte code is made anew at each start.
    compileall.compile_dir(ROOT / "edgebench", quiet=1)
    device = tmp_path / DEVICE.name
    derived = shutil.ignore_patterns("figures", "report.*")
    sweep = shutil.copytree(DEVICE / FRESH_QUICKSTART, device / FRESH_QUICKSTART, ignore=derived)
    for file in DEVICE.glob("calibration-*.json"):
        shutil.copy(file, device)
    command = [sys.executable, "-m", "edgebench", verb, *VERBS[verb], str(sweep)]
    benchmark.pedantic(
        lambda: subprocess.run(command, cwd=device, check=True, capture_output=True),
        rounds=5,
        warmup_rounds=1,
    )
