"""``--board``: what is emulated, and that it is said; Tab: what bash completes."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from edgebench.cli.measure import measure
from edgebench.cli.options import place_options, with_board
from edgebench.cli.verbs import VERBS
from edgebench.errors import CgroupError
from tests.own_path import call


@click.command()
@click.option("--memory", default="max")
@click.option("--plan")
@place_options
@click.pass_context
def shown(context: click.Context, **given: Any) -> None:
    click.echo(json.dumps(with_board(context, given)))


def test_a_board_is_said_with_what_is_given_instead():
    done = CliRunner().invoke(shown, ["--board", "raspberry-pi-4-4g", "--swap", "none"])
    found = json.loads(done.stdout)
    assert (found["memory"], found["swap"]) == ("3800M", "none")
    assert found["storage"].startswith("read=50MB/s")
    first, given, without = done.stderr.splitlines()
    assert first.startswith("emulates Raspberry Pi 4 Model B, 4 GB on this machine: memory 3.7")
    assert given == "as given, not the board's: swap none"
    assert without.startswith("not emulated: the speed of CPU and memory")
    assert "zram" not in done.stderr


@pytest.mark.parametrize("plan", ["walk", "grid"])
def test_a_walk_says_that_it_counts_no_zram(plan: str):
    done = CliRunner().invoke(shown, ["--board", "jetson-nano-4g", "--plan", plan])
    assert json.loads(done.stdout)["swap"] == "zram:1978MiB"
    said = "the RAM that zram takes, which a walk does not count" in done.stderr
    assert said == (plan == "walk")


@pytest.mark.root
@pytest.mark.own_cgroup
@pytest.mark.exclusive
def test_a_record_names_its_board(tmp_path: Path):
    text = 'schema = 1\ntitle = "Mine"\nram = "512MiB"\ncores = 1\nstorage = ["sd-a1"]\n'
    (tmp_path / "mine.toml").write_text(text)
    board = ["--board", str(tmp_path / "mine.toml")]
    done = CliRunner().invoke(measure, [*board, "--json", "--", "sleep", "0.1"])
    if isinstance(done.exception, CgroupError):
        pytest.skip(f"no disk can be held: {done.exception}")
    assert done.exit_code == 0, done.output
    record = json.loads(done.stdout)
    assert record["limits"]["board"] == board[1]
    assert record["limit_bytes"] == 256 << 20
    assert (record["limits"]["cores"], record["limits"]["swap_kind"]) == (1, "none")
    assert record["storage"]["read_iops"] == 1500


#: What `edgebench --help` tells to type, by shell.
HELP = re.compile(r"^ +(bash|zsh|fish)  (.+)$", re.MULTILINE)


@pytest.fixture(scope="module")
def commands() -> dict[str, str]:
    """By shell, what the help tells to type."""
    return dict(HELP.findall(call("--help").stdout))


@pytest.mark.process
def test_the_help_tells_how_for_each_shell(commands: dict[str, str]):
    assert set(commands) == {"bash", "zsh", "fish"}
    for shell, command in commands.items():
        assert f"_EDGEBENCH_COMPLETE={shell}_source edgebench" in command


@pytest.mark.process
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
