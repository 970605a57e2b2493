"""``edgebench advise`` with real programs, networks and kills."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from edgebench.cli import cli
from edgebench.errors import UsageError
from tests.own_path import call

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
_SCENARIO = """
schema = 1
name = "lenet"
workload = {{ kind = "inference", network = "lenet", batch = {batch} }}
limits = {{ memory = {memory}, swap = "2G" }}
"""


@pytest.fixture(autouse=True)
def plain_allocator(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*os.environ]:
        if "MALLOC_" in name or name == "LD_PRELOAD":
            monkeypatch.delenv(name)


def test_where_the_limit_costs_nothing_nothing_is_tried(tmp_path: Path):
    # Long beside what starting a process takes, which other programs make longer.
    done = call("advise", "--memory", "500M", "--", "sleep", "2", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "the limit costs nothing: no remedy was tried   4 trials" in done.stdout
    assert "<-" not in done.stdout
    (trials,) = tmp_path.glob("results/*/*-advise-sleep-*/trials.jsonl")
    assert len(trials.read_text().splitlines()) == 4


def test_the_budget_is_kept(tmp_path: Path):
    """No trial begins that would not end in it; one without a limit is not let run beyond it."""
    began = time.monotonic()
    words = ["advise", "--memory", "500M", "--budget"]
    done = call(*words, "5s", "--", "sleep", "2", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "2 trials" in done.stdout
    done = call(*words, "3s", "--", "sleep", "60", folder=tmp_path)
    assert done.returncode == 1
    assert "--budget 10m" in done.stderr
    assert time.monotonic() - began < 20


@pytest.mark.long
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc's allocator")
def test_what_makes_it_fit_is_found_and_can_be_typed(tmp_path: Path):
    script = tmp_path / "holes.py"
    script.write_text(_HOLES)
    words = ["advise", "--json", "--memory", "110M", "--", sys.executable, str(script)]
    found = json.loads(call(*words, folder=tmp_path).stdout)
    assert found["plain_end"] == "oom-killed"
    assert found["best"]["confirmed"]
    assert found["best"]["finished"] == found["best"]["trials"] == 5
    (line,) = found["best"]["typed"]
    assert line.split("=")[0] in {"MALLOC_MMAP_THRESHOLD_", "LD_PRELOAD"}
    ends = {one["name"]: one["end"] for one in found["tried"]}
    # Another allocator may make it fit, too; which of them is the fastest is a matter of chance.
    assert [ends[name] for name in ("mmap-threshold", found["best"]["name"])] == ["ok"] * 2
    assert ends["arena-max"] == "oom-killed"
    under = ["measure", "--memory", "110M", "--json", "--"]
    for command, outcome in ((["env", *line.split()], "ok"), (line.split()[1:], "oom-killed")):
        assert json.loads(call(*under, *command, folder=tmp_path).stdout)["outcome"] == outcome


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
        (["limits.toml"], "2 limits"),
        (["batches.toml", "--memory", "200M"], "2 workloads"),
    ],
)
def test_wrong_words_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
):
    monkeypatch.chdir(tmp_path)
    one = '["max", "250M"]'
    Path("limits.toml").write_text(_SCENARIO.format(batch=1, memory='["max", "250M", "200M"]'))
    Path("batches.toml").write_text(_SCENARIO.format(batch=[8, 16], memory=one))
    error = CliRunner().invoke(cli, ["advise", *words]).exception
    assert isinstance(error, UsageError)
    assert said in f"{error.what} {error.remedy}"
    assert not (tmp_path / "results").exists()


def test_a_program_that_fails_without_a_limit(tmp_path: Path):
    words = ["advise", "--memory", "500M", "--", "sh", "-c", "echo no model.bin >&2; exit 7"]
    done = call(*words, folder=tmp_path)
    assert done.returncode == 1
    assert "no model.bin" in done.stderr
