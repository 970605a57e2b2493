"""Progress of trials: a table and a bar on a terminal, a line for each trial elsewhere."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import made_records
import pytest
from msgspec.structs import replace
from rich.console import Console

from edgebench.cli.progress import LineProgress, LiveProgress
from edgebench.records import Doubt, LimitSetting, Outcome, TrialRecord
from edgebench.run.trial.record import TrialRequest
from tests.own_path import call

MIB = 1 << 20
HOSTILE = "\x1b[2J[red]x[/]\u202e\nnext\r" + "long" * 60
LABELS = ("max", "85%", "70%", "55%", "40%")
SCENARIO = f"""
schema = 1
name = "tiny"
repeats = 2
[workload]
kind = "command"
command = ["{sys.executable}", "-I", "-S", "-c", "b = bytearray(50 << 20)"]
[limits]
memory = ["max", "30M"]
swap = "none"
"""


def request_of(network: str, label: str) -> TrialRequest:
    size = None if label == "max" else int(label.rstrip("%")) * MIB
    settings = {"kind": "inference", "networks": [network], "schedule": "bulk"}
    limits = LimitSetting(label, size, "file", 2 << 30)
    return TrialRequest("0001", "p001", 0, 0, settings, limits)


def record_of(
    request: TrialRequest, wall_s: float, outcome: Outcome = "ok", reason: str | None = None
) -> TrialRecord:
    return made_records.record(
        settings=dict(request.settings),
        limits=request.limits,
        limit_bytes=request.limits.memory_bytes,
        outcome=outcome,
        wall_s=wall_s,
        reason=reason,
        phases=[],
    )


def drawn(networks: tuple[str, ...], width: int = 80, height: int = 24) -> list[str]:
    progress = LiveProgress()
    target = io.StringIO()
    progress._console = Console(file=target, width=width, height=height, highlight=False)
    progress.begin(Path("results/board/sweep"), 100, 0)
    for network in networks:
        for n, label in enumerate(LABELS):
            request = request_of(network, label)
            progress.trial(request)
            killed = label == "40%"
            progress.finished(record_of(request, 1 + n * n, "oom-killed" if killed else "ok"))
    progress.trial(request_of(networks[0], "70%"))
    progress._console.print(progress.live.renderable)
    return target.getvalue().splitlines()


def test_the_table_has_what_is_known():
    lines = drawn(("alexnet", "resnet18"))
    rows = [line.split() for line in lines]
    assert rows[0] == ["workload", "limit", "ok", "time", "slower"]
    assert rows[3] == ["alexnet", "70%", "(70.0", "MiB)", "1/1", "5.0", "s", "5.00x"]
    assert rows[5] == ["alexnet", "40%", "(40.0", "MiB)", "0/1", "killed"]
    assert rows[6] == ["resnet18", "unlimited", "1/1", "1.0", "s", "1.00x"]
    assert "10/100" in lines[-2]
    assert "70% (70.0 MiB) alexnet" in lines[-2]
    assert "workload" not in drawn(("alexnet",))[0]


@pytest.mark.parametrize("width", [20, 40, 80, 200])
@pytest.mark.parametrize("height", [5, 12, 50])
def test_it_fits_a_terminal_of_any_size(width: int, height: int):
    lines = drawn((HOSTILE, "resnet18", *(f"network-{n}" for n in range(12))), width, height)
    assert len(lines) <= max(height, 4)
    assert all(len(line) <= width for line in lines)
    assert not re.search("[\x00-\x1f\x7f\u202e]", "".join(lines))


def test_lines_tell_each_trial(capsys: pytest.CaptureFixture[str]):
    progress = LineProgress()
    progress.begin(Path("\x1b[2Jresults"), 3, 1)
    request = request_of("alexnet", "85%")
    progress.trial(request)
    progress.finished(record_of(request, 1.0, "failed", "exit code\n3"))
    doubt = Doubt("limit_changed", {"from_bytes": 64 << 20}, ["memory"])
    progress.finished(replace(record_of(request, 1.0), doubts=[doubt]))
    first, second, third = capsys.readouterr().err.splitlines()
    assert first == "3 trials, 1 of them finished earlier → \\x1b[2Jresults"
    point = "alexnet at 85% (85.0 MiB)"
    assert second.startswith(f"trial 2 of 3: {point}: failed, 1.0 s: exit code 3; about ")
    broken = "limits did not hold (memory changed)"
    assert third.startswith(f"trial 3 of 3: {point}: ok, 1.0 s: {broken}")


@pytest.mark.own_cgroup
def test_a_log_has_a_line_for_each_trial(tmp_path: Path):
    (tmp_path / "tiny.toml").write_text(SCENARIO)
    done = call("run", "tiny.toml", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("4 trials → ")
    assert len(re.findall(r"^trial \d of 4: ", done.stderr, re.MULTILINE)) == 4
    assert "4 trials, " in done.stdout.splitlines()[0]
    assert re.search(r"^ +30 MiB +0/2 +killed$", done.stdout, re.MULTILINE)
