"""Commands that edgebench prints can be copied from the terminal and typed as they are."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from made_sweep import Shape, make

from edgebench.cli.doctor import _print_checks
from edgebench.cli.output import as_typed
from edgebench.run.doctor import CheckResult

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


@pytest.mark.process
def test_a_folder_with_a_space_is_quoted(tmp_path: Path):
    """What is printed as the next command names the folder in one word of the shell."""
    path = make(tmp_path / "my results", Shape(repeats=1))
    done = edgebench(tmp_path, "show", "my results")
    (line,) = (one for one in done.stderr.splitlines() if one.startswith("next: "))
    assert shlex.split(line)[-1] in (str(path), str(path.relative_to(tmp_path)))


def test_a_remedy_that_is_typed_is_one_line(capsys: pytest.CaptureFixture[str]):
    """However long."""
    _print_checks([CheckResult("free memory", "warn", "slow", f"{_TYPED}\n(or wait)")], False)
    assert f"        {as_typed(_TYPED)}" in capsys.readouterr().out.splitlines()


def on_terminal(*words: str) -> list[str]:
    """What a process prints on a terminal of 80 columns, line by line."""
    lead, tail = pty.openpty()
    environment = {**os.environ, "COLUMNS": "80"}
    with subprocess.Popen(words, stdin=tail, stdout=tail, stderr=tail, env=environment) as process:
        os.close(tail)
        printed = b""
        # Linux ends a terminal that nobody holds with an error.
        with contextlib.suppress(OSError):
            while chunk := os.read(lead, 4096):
                printed += chunk
        process.wait()
    os.close(lead)
    # What moves the cursor takes no place.
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", printed.decode()).splitlines()


@pytest.mark.process
def test_a_command_in_a_warning_is_one_line():
    """However long; the line before it is wrapped."""
    command = f"edgebench calibrate --swap 2G --results /{'long-' * 20}folder"
    warning = f"{'no calibration of this device ' * 5}\n  remedy: measure it: {command}"
    code = f"from edgebench.cli.output import print_warnings; print_warnings([{warning!r}])"
    *sentence, last = on_terminal(sys.executable, "-c", code)
    assert last == f"  remedy: measure it: {command}"
    assert len(sentence) > 1
    assert max(map(len, sentence)) <= 80
