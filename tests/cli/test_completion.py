"""Tab completion: through bash itself, and in the words that zsh and fish get."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from edgebench.cli.verbs import VERBS

pytestmark = pytest.mark.process
#: What `edgebench --help` tells to type, by shell.
HELP = re.compile(r"^ +(bash|zsh|fish)  (.+)$", re.MULTILINE)


def environment(**more: str) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, **more}


def told() -> dict[str, str]:
    command = [sys.executable, "-m", "edgebench", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(HELP.findall(done.stdout))


def offered(folder: Path, *words: str) -> list[str]:
    line = " ".join(shlex.quote(word) for word in ("edgebench", *words))
    script = (
        f"{told()['bash']}\nCOMP_WORDS=({line})\nCOMP_CWORD={len(words)}\n"
        'compopt() { echo "compopt $2"; }\n_edgebench_completion edgebench\n'
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    bash = ["bash", "--norc", "-c", script]
    done = subprocess.run(
        bash, cwd=folder, env=environment(), capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return done.stdout.split("\n")[:-1]


def test_the_help_tells_how_for_each_shell():
    commands = told()
    assert set(commands) == {"bash", "zsh", "fish"}
    for shell, command in commands.items():
        assert f"_EDGEBENCH_COMPLETE={shell}_source edgebench" in command


def test_verbs_and_flags_are_completed(tmp_path: Path):
    assert offered(tmp_path, "mea") == ["measure"]
    assert set(offered(tmp_path, "")) == set(VERBS)
    assert "--memory" in offered(tmp_path, "layers", "--me")


def test_networks_are_completed_and_files_where_none_begins_so(tmp_path: Path):
    assert offered(tmp_path, "layers", "resnet1") == ["resnet101", "resnet152", "resnet18"]
    assert offered(tmp_path, "minimum", "lene") == ["lenet"]
    assert offered(tmp_path, "minimum", "./my")[0] == "compopt default"
