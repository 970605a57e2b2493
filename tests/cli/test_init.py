"""`edgebench init`: what it writes is valid, explained, and never in another file's place."""

from __future__ import annotations

import re
import resource
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from edgebench.cli.run import init, run
from edgebench.errors import UsageError
from edgebench.scenario.scenario import load_scenario

CASES = {
    "resnet18": (["resnet18"], "resnet18.toml"),
    "several limits": (["alexnet", "--memory", "300M", "--memory", "50%"], "alexnet.toml"),
    "training": (["lenet", "--kind", "training", "--swap", "none"], "lenet.toml"),
    "our own network": (["mlp", "--kind", "training", "-o", "a b.toml"], "a b.toml"),
    "a script": (["--", "python3", "train.py", "--epochs", "3"], "train.toml"),
    "a program": (["--swap", "system", "--", "./run me", 'say "hi"', "ü\\n"], "run-me.toml"),
}


def call(*words: str) -> Result:
    return CliRunner().invoke(init, [*words])


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", CASES)
def test_each_key_is_explained_and_valid_also_where_it_was_left_out(here: Path, name: str):
    words, file = CASES[name]
    done = call(*words)
    assert done.exit_code == 0, done.output
    assert f"Wrote {file}" in done.stdout
    assert "next: edgebench run " in done.stderr
    assert CliRunner().invoke(run, [file, "--dry-run"]).exit_code == 0
    lines = (here / file).read_text().splitlines()
    keys = [n for n, line in enumerate(lines) if re.match(r"(# )?\w+ = ", line)]
    assert len(keys) > 8
    for n in keys:
        assert re.search(r"  # \S|\]$|\}$", lines[n]), lines[n]
        assert "  # " in lines[n] or lines[n - 1].startswith("# ")
    assert all(len(line) <= 100 for line in lines)
    whole = "\n".join(re.sub(r"^# (?=\w+ = )", "", line) for line in lines)
    (here / "whole.toml").write_text(whole)
    assert load_scenario(here / "whole.toml").limits.cores


def test_flags_are_in_the_file(here: Path):
    call("alexnet", "--memory", "300M", "--memory", "50%", "--swap", "none")
    call("--swap", "1G", "--", "sh", "-c", "a 'b'")
    networks, command = load_scenario(here / "alexnet.toml"), load_scenario(here / "sh.toml")
    labels = [limits.label for limits in networks.limits.settings()]
    assert set(labels) == {"max", "300M", "50%"}
    assert command.workload.kind == "command"
    assert command.workload.command == ("sh", "-c", "a 'b'")


def test_an_existing_file_stays(here: Path):
    (here / "resnet18.toml").write_text("mine")
    done = call("resnet18")
    assert isinstance(done.exception, UsageError)
    assert "--out" in str(done.exception)
    assert (here / "resnet18.toml").read_text() == "mine"
    (here / "dead.toml").symlink_to(here / "elsewhere")
    assert call("resnet18", "-o", "dead.toml").exit_code != 0
    assert not (here / "elsewhere").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["resnet19"], "did you mean 'resnet18'"),
        (["resnet18", "--memory", "0%"], "--memory"),
        (["resnet18", "--swap", "much"], "--swap"),
        (["train.py"], "edgebench init -- train.py"),
        (["ls"], "edgebench init -- ls"),
        (["resnet18", "--", "ls"], "both a network"),
        (["--kind", "training", "--", "ls"], "leave out --kind"),
        (["resnet18", "--kind", "command"], "edgebench init -- resnet18"),
        ([], "edgebench init resnet18"),
        (["--"], "nothing to run"),
        (["--", ""], "COMMAND"),
    ],
)
def test_mistakes_are_named(here: Path, words: list[str], says: str):
    done = call(*words)
    assert isinstance(done.exception, UsageError)
    assert says in str(done.exception)
    assert not list(here.iterdir())


def test_a_full_disk_leaves_no_empty_file(here: Path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        assert isinstance(call("lenet").exception, OSError)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not (here / "lenet.toml").exists()
    assert call("lenet").exit_code == 0
