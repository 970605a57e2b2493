"""Some seconds of fuzzing that follows coverage, where atheris runs (CPython to 3.11, x86-64)."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.own_path import python_path

_SECONDS, _PATIENCE_S, _SEED = "1", 120, "1"


@pytest.mark.long
@pytest.mark.process
@pytest.mark.promise(
    "Scenarios, results, heap dumps, calibrations and cgroup files with any content are read, "
    "or refused with a message."
)
@pytest.mark.skipif(not importlib.util.find_spec("atheris"), reason="atheris is not installed")
@pytest.mark.parametrize(
    "target",
    [
        *("scenario", "trials", "cgroup-file"),
        *("events", "gnu-time", "heap-dump", "massif", "mounts"),
    ],
)
def test_no_reader_fails_in_other_ways_than_words(tmp_path: Path, target: str) -> None:
    """Each input is read, or refused by an error of edgebench's own."""
    root = str(Path(__file__).parents[2])
    ended = subprocess.run(
        [sys.executable, "-m", "tests.trust.guided_fuzz", target, _SECONDS, _SEED],
        cwd=tmp_path,
        env={"PYTHONPATH": f"{root}:{python_path()}", "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=_PATIENCE_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    made = re.search(r"Done (\d+) runs", ended.stderr)
    assert made
    assert int(made[1]) > 100
