"""Commands that edgebench prints can be copied from the terminal and typed as they are."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from made_sweep import Shape, make

from edgebench.cli.doctor import _print_checks
from edgebench.run.checks import CheckResult

_TYPED = "echo 11 | sudo tee /sys/module/page_reporting/parameters/page_reporting_order"


def edgebench(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Call it in a folder, as a person does."""
    return subprocess.run(
        [sys.executable, "-m", "edgebench", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("verb", ["show", "watch"])
def test_a_folder_with_a_space_is_quoted(tmp_path: Path, verb: str):
    """What is printed as the next command names the folder in one word of the shell."""
    path = make(tmp_path / "my results", Shape(repeats=1))
    done = edgebench(tmp_path, verb, "my results")
    (line,) = (one for one in done.stderr.splitlines() if one.startswith("next: "))
    assert shlex.split(line)[-1] in (str(path), str(path.relative_to(tmp_path)))


def test_a_remedy_that_is_typed_is_one_line(capsys: pytest.CaptureFixture[str]):
    """However long; a sentence beside it is wrapped."""
    sentence = "(until the next boot); " + "or compare the later rounds " * 4
    _print_checks([CheckResult("free memory", "warn", "slow", f"{_TYPED}\n{sentence}")])
    lines = capsys.readouterr().out.splitlines()
    assert f"    {_TYPED}" in lines
    assert max(len(line) for line in lines if _TYPED not in line) <= 80


def test_a_report_is_compared_with_the_one_before_it(tmp_path: Path):
    """The first sweep has none before it; the next command names folders that are there."""
    paths = [make(tmp_path, Shape(repeats=1)) for _ in range(2)]
    lines = {}
    for path in sorted(paths):
        done = edgebench(tmp_path, "report", str(path.relative_to(tmp_path)))
        assert done.returncode == 0, done.stderr
        (line,) = (one for one in done.stderr.splitlines() if one.startswith("next: "))
        lines[path] = shlex.split(line)[2:]
    first, second = (str(path.relative_to(tmp_path)) for path in sorted(paths))
    assert list(lines.values()) == [["plot", first], ["compare", first, second]]
