"""What a newcomer meets: `edgebench` alone, and `scripts/demo` from its start to the answer."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from terminal import Terminal

from edgebench.cli import cli

ROOT = Path(__file__).parents[2]
#: The quick start with a network that takes a moment.
TINY = {'"alexnet"': '"lenet"'}
TINY |= {'"60%", "35%"': '"70%"', '["60%"]': '["70%"]', "target = 0.1": "target = 0.5"}


def test_edgebench_alone_asks_three_questions():
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


@pytest.mark.own_cgroup
@pytest.mark.timeout(1200)
@pytest.mark.exclusive
@pytest.mark.torch
@pytest.mark.root
@pytest.mark.swap
def test_what_the_demo_leaves_is_short(clone: Path):
    words = ["bash", str(clone / "scripts" / "demo")]
    terminal = Terminal(words, 80, 24, program=[])
    assert terminal.close(1100) == 0, terminal.text
    left = re.sub(r"\x1b\[[0-9;]*m", "", terminal.text.rpartition("\x1b[?25h")[2])
    lines = left.replace("\r", "").splitlines()
    assert len(lines) <= 40
    # On a busy machine each limit may look slower, so that none can be given.
    assert any(re.match(r"lenet +needs [\d.]+ MiB +give [\d.?]+", line) for line in lines), left
    assert any(re.match(r" +layer +weights", line) for line in lines), left
    for name in ("figure: ", "report: "):
        (path,) = (line.removeprefix(name) for line in lines if line.startswith(name))
        assert (clone / path).is_file()
    assert any(line.startswith("next: ") for line in lines)
