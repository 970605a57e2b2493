"""``edgebench minimum -- COMMAND`` with real programs, real kills and real swap."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from edgebench.cli import cli
from edgebench.cli.minimum import _SearchProgress
from edgebench.records import LimitSetting, TrialRecord
from edgebench.run.search.minimum import search_of
from tests.own_path import call

pytestmark = pytest.mark.own_cgroup

#: Needs the MiB of its argument, all touched.
_HOLD = (
    "import sys, time; b = bytearray(int(sys.argv[1]) << 20); "
    "b[::4096] = b'1' * len(b[::4096]); time.sleep(0.2)"
)


def minimum(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return call("minimum", *words, folder=folder)


def answer(folder: Path, *words: str) -> dict[str, Any]:
    done = minimum(folder, "--json", *words)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_program_that_holds_100_mib(tmp_path: Path):
    found = answer(tmp_path, "--confirm", "1", "--", sys.executable, "-c", _HOLD, "100")
    need, give, tightest = found["needs_bytes"][1], found["give_bytes"], found["rows"][-1]
    assert 100 < need / (1 << 20) < 125
    assert 95 << 20 < tightest["limit_bytes"] < give < 130 << 20
    assert found["rows"][0]["limit_bytes"] is None
    assert tightest["ended"] == "killed"


def test_a_program_that_never_ends(tmp_path: Path):
    script = tmp_path / "ticks.sh"
    script.write_text("#!/bin/sh\nwhile :; do echo tick; sleep 0.05; done\n")
    script.chmod(0o755)
    found = answer(tmp_path, "--for", "1s", "--confirm", "0", "--", "./ticks.sh")
    assert found["rows"][0]["throughput_per_s"] > 0
    assert found["give_bytes"] is not None


def test_in_ci(tmp_path: Path):
    fits = minimum(
        tmp_path, "--within", "200M", "--confirm", "1", "--", sys.executable, "-c", _HOLD, "60"
    )
    assert fits.returncode == 0
    assert re.search(r"^  200 MiB +2/2", fits.stdout, re.MULTILINE)
    over = minimum(tmp_path, "--within", "50M", "--", sys.executable, "-c", _HOLD, "60")
    assert over.returncode == 4
    assert re.search(r"^ +50 MiB +0/1 +killed", over.stdout, re.MULTILINE)
    assert "it needs more than 50M" in over.stderr


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (
            ["sh", "-c", "echo loading; echo no model.bin >&2; exit 7"],
            ["exit code 7", "no model.bin"],
        ),
        ([sys.executable, "-c", "input('name? ')"], ["EOFError", "PROGRAM < FILE"]),
        (["no-such-program"], ["no command 'no-such-program'", "full path"]),
        (["echo hello"], ["no command 'echo hello'", "no shell reads it"]),
    ],
)
def test_a_command_that_fails_without_a_limit(tmp_path: Path, command: list[str], words: list[str]):
    done = minimum(tmp_path, "--", *command)
    assert done.returncode == 1
    assert all(word in done.stderr for word in words), done.stderr
    assert 'Traceback (most recent call last):\n  File "/work' not in done.stderr
    trials = [*tmp_path.glob("results/*/*/trials.jsonl")]
    assert all(len(file.read_text().splitlines()) == 1 for file in trials)


def test_a_program_that_changes_files(tmp_path: Path):
    command = ["--confirm", "0", "--", "sh", "-c", "mkdir made"]
    done = minimum(tmp_path, *command)
    assert (done.returncode, "--reset COMMAND" in done.stderr) == (1, True)
    (tmp_path / "made").rmdir()
    done = minimum(tmp_path, "--reset", "rm -rf made", *command)
    assert done.returncode == 0, done.stderr
    bad = minimum(tmp_path, "--reset", "false", *command)
    assert (bad.returncode, "the command before each trial failed" in bad.stderr) == (1, True)


@pytest.mark.parametrize(
    ("subject", "given", "seconds", "words"),
    [
        (("a",), {}, 12.0, "12.0 s, so the search may take up to 2 min"),
        (("a",), {}, 2.0, None),
        (("a",), {"budget": "1m"}, 12.0, None),
        ("lenet", {}, 12.0, "12.0 s, so the search may take up to 4 min 48 s"),
        ("lenet", {}, 2.0, None),
        ("lenet", {"within": "80M"}, 12.0, None),
    ],
)
def test_a_long_search_says_so_after_its_first_trial(
    subject: str | tuple[str, ...], given: dict[str, str], seconds: float, words: str | None
):
    reports: list[str] = []
    names = ("stage", "trial", "moved", "planned", "finished")
    shown = SimpleNamespace(report=reports.append, **dict.fromkeys(names, lambda *_: None))
    progress = _SearchProgress(shown, search_of(subject, given).asked)
    record = TrialRecord("0", "p", 0, 0, {}, LimitSetting(), "ok", "", wall_s=seconds)
    for _ in range(2):
        progress.finished(record)
    assert len(reports) == (words is not None)
    assert words is None or words in reports[0]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["sh", "-x"], "edgebench minimum -- "),
        (["python3", "infer.py", "--epochs", "3"], "edgebench minimum -- "),
        (["--batch", "2", "--", "true"], ""),
        (["--for", "3s", "lenet"], ""),
        ([], ""),
    ],
)
def test_forgotten_dashes_and_flags_of_the_other_kind(words: list[str], said: str):
    done = CliRunner().invoke(cli, ["minimum", *words])
    error = done.exception
    assert 2 in (done.exit_code, getattr(error, "exit_code", None))
    assert said in f"{done.output}{error} {getattr(error, 'remedy', '')}"


def test_ctrl_c_says_what_is_known_and_the_same_command_continues(tmp_path: Path):
    code = "import time; b = bytearray(40 << 20); b[::4096] = b'1' * len(b[::4096]); time.sleep(1)"
    words = ["--confirm", "1", "--", sys.executable, "-c", code]
    process = subprocess.Popen(
        [sys.executable, "-m", "edgebench", "minimum", *words],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 200
    lines = 0
    while lines < 2 and time.monotonic() < deadline:
        files = [*tmp_path.glob("results/*/*/trials.jsonl")]
        lines = sum(len(file.read_text().splitlines()) for file in files)
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=200)
    assert process.returncode == 130
    assert "needs " in out
    assert "the same command continues this search" in err
    done = minimum(tmp_path, *words)
    assert done.returncode == 0
    assert "killed" in done.stdout
    assert len([*tmp_path.glob("results/*/*/trials.jsonl")]) == 1
