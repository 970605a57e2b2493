"""A file given with < is a program's input in each trial; a pipe can't be read twice."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from edgebench.text import MIB

pytestmark = pytest.mark.own_cgroup

#: Keeps every line of its input.
KEEP = "import sys; kept = sys.stdin.readlines(); print(len(kept), 'lines')"
PROGRAM = [sys.executable, "-c", KEEP]


def run(verb: str, folder: Path, *flags: str, **about: object) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "edgebench", verb, *flags, "--", *PROGRAM]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False, **about)


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "prompts.txt"
    path.write_text("a line of it\n" * 1_000_003)
    return path


def test_each_trial_reads_the_file_from_its_beginning(lines: Path):
    needs = []
    for verb, flags in (("measure", ("--json",)), ("minimum", ("--json", "--confirm", "1"))):
        with lines.open() as file:
            done = run(verb, lines.parent, *flags, stdin=file)
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)
        needs.append(answer["demand_bytes"] if verb == "measure" else max(answer["needs_bytes"]))
    assert all(need > 55 * MIB for need in needs)
    assert needs[0] == pytest.approx(needs[1], rel=0.05)


@pytest.mark.parametrize("verb", ["measure", "minimum", "advise"])
def test_a_pipe_with_data_is_refused_with_what_to_type(verb: str, tmp_path: Path):
    """A second trial would read nothing; the message has a line that works."""
    flags = ("--memory", "90M") if verb == "advise" else ()
    done = run(verb, tmp_path, *flags, input="a line\n")
    assert done.returncode == 2, done.stderr
    assert "its standard input is a pipe" in done.stderr
    typed = " ".join(["edgebench", verb, *flags, "--", "sh -c 'PRODUCER | "])
    assert typed in done.stderr


def test_an_empty_pipe_is_no_input(tmp_path: Path):
    done = run("measure", tmp_path, "--json", input="")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["outcome"] == "ok"
