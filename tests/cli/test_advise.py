"""``edgebench advise`` with real programs, networks and kills."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from edgebench.cli import cli
from edgebench.errors import UsageError

pytestmark = pytest.mark.own_cgroup

#: Leaves holes of 512 KiB in glibc's heap and fills 64 MiB besides: with a fixed threshold below
#: their size, and no larger one, the holes go back to the kernel.
_HOLES = """
import ctypes
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]

def filled(size):
    block = libc.malloc(size)
    ctypes.memset(block, 1, size)
    return block

libc.free(libc.malloc(31 << 20))
blocks = []
for _ in range(120):
    blocks.append(filled(1 << 19))
    filled(1000)
for block in blocks:
    libc.free(block)
for _ in range(8):
    filled(8 << 20)
"""
_TRAINING = """
schema = 1
name = "resnet"
repeats = 1
timeout = "3m"
[workload]
kind = "training"
network = "resnet18"
data = "synthetic"
shape = "3x96x96"
optimizer = "adam"
learning_rate = 0.0001
batch = 16
steps = 6
[limits]
memory = ["max", "250M"]
swap = "2G"
"""


def advise(folder: Path, *words: str, timeout: int = 900) -> subprocess.CompletedProcess[str]:
    env = {n: v for n, v in os.environ.items() if "MALLOC_" not in n and n != "LD_PRELOAD"}
    return subprocess.run(
        [sys.executable, "-m", "edgebench", "advise", *words],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def answer(folder: Path, *words: str) -> dict[str, Any]:
    done = advise(folder, "--json", *words)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def joined(text: str) -> str:
    return " ".join(text.split())


def test_where_the_limit_costs_nothing_nothing_is_tried(tmp_path: Path):
    # Long beside what starting a process takes, which other programs make longer.
    done = advise(tmp_path, "--memory", "500M", "--", "sleep", "2")
    assert done.returncode == 0, done.stderr
    assert "the limit costs nothing: no remedy was tried 4 trials" in joined(done.stdout)
    assert "<-" not in done.stdout
    (trials,) = tmp_path.glob("results/*/*-advise-sleep-*/trials.jsonl")
    assert len(trials.read_text().splitlines()) == 4


def test_the_budget_is_kept(tmp_path: Path):
    """No trial begins that would not end in it; one without a limit is not let run beyond it."""
    began = time.monotonic()
    done = advise(tmp_path, "--memory", "500M", "--budget", "5s", "--", "sleep", "2")
    assert done.returncode == 0, done.stderr
    assert "2 trials" in done.stdout
    done = advise(tmp_path, "--memory", "500M", "--budget", "3s", "--", "sleep", "60")
    assert done.returncode == 1
    assert "--budget 10m" in done.stderr
    assert time.monotonic() - began < 20


@pytest.mark.long
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc's allocator")
def test_what_makes_it_fit_is_found_and_can_be_typed(tmp_path: Path):
    script = tmp_path / "holes.py"
    script.write_text(_HOLES)
    words = ["--memory", "110M", "--", sys.executable, str(script)]
    found = answer(tmp_path, *words)
    assert found["plain_end"] == "oom-killed"
    assert found["best"]["confirmed"]
    assert found["best"]["finished"] == found["best"]["trials"] == 5
    (line,) = found["best"]["typed"]
    assert line.split("=")[0] in {"MALLOC_MMAP_THRESHOLD_", "LD_PRELOAD"}
    ends = {one["name"]: one["end"] for one in found["tried"]}
    # Another allocator may make it fit, too; which of them is the fastest is a matter of chance.
    assert [ends[name] for name in ("mmap-threshold", found["best"]["name"])] == ["ok"] * 2
    assert ends["arena-max"] == "oom-killed"
    under = [sys.executable, "-m", "edgebench", "measure", "--memory", "110M", "--json", "--"]
    for command, outcome in ((["env", *line.split()], "ok"), (line.split()[1:], "oom-killed")):
        done = subprocess.run(
            [*under, *command], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert json.loads(done.stdout)["outcome"] == outcome


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name one network or scenario"),
        (["lenet", "--", "true"], "name one network or scenario"),
        (["lenet"], "which limit?"),
        (["lenet", "--memory", "75%"], "is not a size"),
        (["--memory", "1G", "--batch", "2", "--", "true"], "--batch is for networks"),
        (["lenet", "--memory", "1G", "--reset", "true"], "--reset is for programs"),
        (["x.toml", "--swap", "1G"], "the scenario says it"),
    ],
)
def test_wrong_words_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
):
    monkeypatch.chdir(tmp_path)
    error = CliRunner().invoke(cli, ["advise", *words]).exception
    assert isinstance(error, UsageError)
    assert said in f"{error.what} {error.remedy}"
    assert not (tmp_path / "results").exists()


def test_a_scenario_must_have_one_workload_and_one_limit(tmp_path: Path):
    several = _TRAINING.replace('["max", "250M"]', '["max", "250M", "200M"]')
    (tmp_path / "several.toml").write_text(several)
    done = advise(tmp_path, "several.toml")
    assert (done.returncode, "2 limits" in done.stderr) == (2, True), done.stderr
    (tmp_path / "batches.toml").write_text(_TRAINING.replace("batch = 16", "batch = [8, 16]"))
    done = advise(tmp_path, "batches.toml", "--memory", "200M")
    assert (done.returncode, "2 workloads" in done.stderr) == (2, True), done.stderr


def test_a_program_that_fails_without_a_limit(tmp_path: Path):
    done = advise(tmp_path, "--memory", "500M", "--", "sh", "-c", "echo no model.bin >&2; exit 7")
    assert done.returncode == 1
    assert "no model.bin" in done.stderr
