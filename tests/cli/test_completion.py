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
from tests.own_path import call

pytestmark = pytest.mark.process
#: What `edgebench --help` tells to type, by shell.
HELP = re.compile(r"^ +(bash|zsh|fish)  (.+)$", re.MULTILINE)


@pytest.fixture(scope="module")
def commands() -> dict[str, str]:
    """By shell, what the help tells to type."""
    return dict(HELP.findall(call("--help").stdout))


def test_the_help_tells_how_for_each_shell(commands: dict[str, str]):
    assert set(commands) == {"bash", "zsh", "fish"}
    for shell, command in commands.items():
        assert f"_EDGEBENCH_COMPLETE={shell}_source edgebench" in command


def test_verbs_flags_networks_and_files_are_completed(
    commands: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    monkeypatch.setenv("PATH", path)

    def offered(*words: str) -> list[str]:
        line = " ".join(shlex.quote(word) for word in ("edgebench", *words))
        script = (
            f"{commands['bash']}\nCOMP_WORDS=({line})\nCOMP_CWORD={len(words)}\n"
            'compopt() { echo "compopt $2"; }\n_edgebench_completion edgebench\n'
            'printf "%s\\n" "${COMPREPLY[@]}"\n'
        )
        bash = ["bash", "--norc", "-c", script]
        done = subprocess.run(bash, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert done.stderr == ""
        return done.stdout.split("\n")[:-1]

    assert offered("mea") == ["measure"]
    assert set(offered("")) == set(VERBS)
    assert "--memory" in offered("layers", "--me")
    assert offered("layers", "resnet1") == ["resnet101", "resnet152", "resnet18"]
    assert offered("minimum", "lene") == ["lenet"]
    assert offered("minimum", "./my")[0] == "compopt default"
