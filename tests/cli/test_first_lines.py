"""What a newcomer meets: `edgebench` alone, and `scripts/demo` from its start to the answer."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from terminal import Terminal

from edgebench.cli import cli

ROOT = Path(__file__).parents[2]
#: More lines are not read.
MOST_LINES = 40
#: What scripts/setup says of a fresh clone, at most.
SETUP_LINES = 4
#: The quick start with networks that take a moment.
TINY = {'"resnet18"': '["lenet", "squeezenet1_1"]'}
TINY |= {'"60%", "35%", "20%"': '"70%"', '["60%"]': '["70%"]'}


def test_edgebench_alone_asks_three_questions():
    """On one screen; each question's command names verbs and flags that exist."""
    shown = CliRunner().invoke(cli, []).stdout
    lines = shown.splitlines()
    assert len(lines) < 20
    assert all(len(line) < 80 for line in lines)
    commands = re.findall(r"^ {6}(edgebench .+)$", shown, re.MULTILINE)
    assert len(commands) == 3
    assert commands[0] == "edgebench minimum -- python3 train.py"
    for one in " && ".join(commands).split(" && "):
        words = shlex.split(one)[1:]
        command = cli.get_command(click.Context(cli), words[0])
        assert command is not None
        command.make_context(words[0], words[1:], resilient_parsing=True)
        known = {name for param in command.params for name in param.opts}
        own = words[: words.index("--")] if "--" in words else words
        assert {word for word in own if word.startswith("--")} <= known


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A folder with the demo, a set-up that uses this environment, and a tiny quick start."""
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scenarios").mkdir()
    shutil.copy(ROOT / "scripts" / "demo", tmp_path / "scripts")
    programs = shlex.quote(str(Path(sys.executable).parent))
    (tmp_path / "scripts" / "setup").write_text(f"export PATH={programs}:$PATH\n")
    text = (ROOT / "scenarios" / "quickstart.toml").read_text()
    for long, short in TINY.items():
        assert long in text
        text = text.replace(long, short)
    (tmp_path / "scenarios" / "quickstart.toml").write_text(text)
    return tmp_path


@pytest.mark.timeout(900)
@pytest.mark.own_cgroup
@pytest.mark.root
@pytest.mark.swap
def test_the_demo_ends_with_the_answer_in_few_lines(clone: Path):
    """In a log: at most 40 lines, with a sentence on each network, a figure and the report."""
    command = ["bash", str(clone / "scripts" / "demo")]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stdout
    assert len(lines) <= MOST_LINES - SETUP_LINES, done.stdout
    for network in ("lenet", "squeezenet1_1"):
        assert any(line.startswith(f"{network} needs ") for line in lines)
    (figure,) = (line for line in lines if line.startswith("figure: "))
    (report,) = (line for line in lines if line.startswith("report: "))
    for line in (figure, report):
        assert (clone / line.partition(": ")[2]).is_file()
    assert lines[-1].startswith("next: ")


@pytest.mark.timeout(900)
@pytest.mark.own_cgroup
@pytest.mark.root
@pytest.mark.swap
def test_what_the_demo_leaves_fits_on_one_screen(clone: Path):
    """On a terminal of 80 x 24 the answer is still seen at the end."""
    words = ["bash", str(clone / "scripts" / "demo")]
    terminal = Terminal(words, 80, 24, program=[])
    assert terminal.close() == 0, terminal.text
    assert "now: " in terminal.text
    left = re.sub(r"\x1b\[[0-9;]*m", "", terminal.text.rpartition("\x1b[?25h")[2])
    assert len(left.splitlines()) <= 24
    assert "lenet needs" in left
    assert "report: " in left
