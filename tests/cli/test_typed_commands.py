"""Commands that edgebench prints can be copied from the terminal and typed as they are."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest
from made_sweep import Shape, make
from terminal import Terminal

from tests.own_path import call


@pytest.mark.process
def test_a_folder_with_a_space_is_quoted(tmp_path: Path):
    path = make(tmp_path / "my results", Shape(repeats=1))
    done = call("show", "my results", folder=tmp_path)
    (line,) = (one for one in done.stderr.splitlines() if one.startswith("next: "))
    assert shlex.split(line)[-1] in (str(path), str(path.relative_to(tmp_path)))


@pytest.mark.process
def test_a_command_in_a_warning_is_one_line():
    command = f"edgebench calibrate --swap 2G --results /{'long-' * 20}folder"
    warning = f"{'no calibration of this device ' * 5}\n  remedy: measure it: {command}"
    code = f"from edgebench.cli.output import print_warnings; print_warnings([{warning!r}])"
    terminal = Terminal(["-c", code], 80, program=[sys.executable])
    assert terminal.close() == 0
    # What moves the cursor takes no place.
    *sentence, last = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.text).splitlines()
    assert last == f"  remedy: measure it: {command}"
    assert len(sentence) > 1
    assert max(map(len, sentence)) <= 80
