"""Which tests share a worker: those of one group, whatever pytest and xdist call them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_TESTS = """
import os
import pytest

pytestmark = pytest.mark.process

@pytest.fixture(scope="module")
def costly():
    with open("made", "a") as file:
        file.write("x")

@pytest.mark.parametrize("number", range(6))
def test_shared(costly, number):
    pass

@pytest.mark.exclusive
@pytest.mark.parametrize("number", range(6))
def test_alone(number):
    with open("workers", "a") as file:
        file.write(os.environ["PYTEST_XDIST_WORKER"] + "\\n")
"""


@pytest.mark.process
def test_a_group_goes_to_one_worker(tmp_path: Path) -> None:
    (tmp_path / "test_made.py").write_text(_TESTS)
    root = Path(__file__).parents[1]
    words = ["-q", "-n", "2", "-p", "no:cacheprovider", "-p", "conftest", "--rootdir", "."]
    words += ["-c", str(root / "pyproject.toml"), "test_made.py"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{root / 'tests'}:{root}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "made").read_text() == "x"
    assert len({*(tmp_path / "workers").read_text().split()}) == 1
