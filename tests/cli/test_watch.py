"""The live view in the terminal: through a pseudo-terminal, on narrow screens, of bad files."""

from __future__ import annotations

import contextlib
import io
import json
import re
import signal
import subprocess
import sys
import time
from array import array
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from made_sweep import Shape, make
from rich.console import Console
from terminal import Terminal

from edgebench.cli.watch import view, watch
from edgebench.errors import UsageError
from edgebench.measures.machine.system_files import read_system
from edgebench.records import LimitSetting
from edgebench.results.live.sweep import SweepState
from edgebench.results.live.trial import TrialTail
from edgebench.results.live_file import LiveTrial, boot_id

MIB = 1 << 20
HOSTILE = "\x1b[2J[red]x[/]\u202e\nnext\r" + "long" * 60
SMALL = Shape(networks={"lenet": 3}, limits=(None, 100), repeats=2, rounds=1)
#: Its trials go on until the file is there.
SCENARIO = """\
schema = 1
name = "tiny"
repeats = 2
timeout = "3m"
[workload]
kind = "command"
command = ["sh", "-c", "while [ ! -e GO-ON ]; do sleep 0.02; done"]
[limits]
memory = ["max", "400M"]
swap = "none"
"""


def look(*words: object) -> Result:
    """Run the verb."""
    return CliRunner().invoke(watch, [str(word) for word in words])


def trial_in(folder: Path, name: str = "lenet") -> TrialTail:
    """A trial under way at 150 MiB, with samples, a span under way and losses."""
    post = LiveTrial(
        *("0001", "p001", 0, 0, {"networks": [name]}, LimitSetting("150M", 150 * MIB)),
        *(None, 60.0, "2026-01-02T03:04:05.678+00:00", 0, boot_id(), str(folder), 0.001),
        fast_columns=("t_ns", "usage_bytes", "swap_bytes", "cpu_ns"),
        stat_columns=("t_ns", "major_faults"),
    )
    rows = [v for n in range(400) for v in (n * 10**8, min(n, 149) * MIB, n * MIB, n * 10**8)]
    (folder / "fast.i64").write_bytes(array("q", rows).tobytes())
    (folder / "stat.i64").write_bytes(array("q", [10**9, 1234]).tobytes())
    about: dict[str, Any] = {"round": 0, "network": name, "layer": 0, "name": name}
    events: list[dict[str, Any]] = [
        {"event": "start", "id": 1, "phase": "load", "t_ns": 10**9, **about},
        {"event": "end", "id": 1, "t_ns": 2 * 10**9, "peak_bytes": 90 * MIB, "major_faults": 7},
        {"event": "start", "id": 2, "phase": "first", "t_ns": 2 * 10**9, **about},
        *({"event": "note", "t_ns": 3 * 10**9, "data": {"loss": 1 / (n + 1)}} for n in range(9)),
    ]
    (folder / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    trial = TrialTail(post)
    trial.poll()
    return trial


def shown(state: SweepState, width: int, encoding: str = "utf-8") -> str:
    """The view as a terminal of that width gets it, without colours."""
    target = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = Console(file=target, width=width, highlight=False, markup=False, color_system=None)
    console.print(view(state, read_system(), console))
    target.flush()
    target.seek(0)
    return target.read()


def state_of(path: Path, trial: TrialTail | None, warnings: list[str] | None = None) -> SweepState:
    """A sweep half done."""
    outcomes = {"ok": 4, "oom-killed": 1}
    return SweepState(path, True, False, 10, 5, outcomes, 61.0, [], trial, warnings or [])


def test_the_trial_under_way_is_shown(tmp_path: Path):
    """Progress, outcomes; usage, limit, peak, swap, CPU, faults; phases, layers and loss."""
    folder = tmp_path / "edgebench-0123456789ab"
    folder.mkdir()
    text = shown(state_of(tmp_path / "board" / "sweep", trial_in(folder)), 100)
    for words in (
        *("sweep on board", "5 of 10 trials, about 1 min 01 s left", "4 ok, 1 oom-killed"),
        *("trial 0001: lenet", "149.0 MiB of 150.0 MiB, peak 149.0 MiB", "399.0 MiB"),
        *("1.0 cores busy", "1,234 major faults", "first lenet lenet"),
        *("load lenet lenet: 1.0 s, peak 90.0 MiB, 7 major faults", "loss     0.1111"),
        "available of",
    ):
        assert words in text
    assert "▁" in text
    assert "█" in text


@pytest.mark.parametrize("width", [12, 20, 40, 80, 200])
def test_no_line_is_wider_than_the_terminal(tmp_path: Path, width: int):
    """Names of any length and kind are cut, and can't steer the terminal."""
    folder = tmp_path / "edgebench-0123456789ab"
    folder.mkdir()
    state = state_of(tmp_path / HOSTILE, trial_in(folder, HOSTILE), [HOSTILE])
    text = shown(state, width)
    assert all(len(line) <= width for line in text.splitlines())
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u202e]", text)


def test_a_finished_sweep_is_shown_once(tmp_path: Path):
    """Nothing runs: how it ended, and what to type next."""
    folder = make(tmp_path, SMALL)
    result = look(tmp_path)
    assert result.exit_code == 0, result.output
    assert "4 of" in result.stdout
    assert "complete" in result.stdout
    assert f"next: edgebench show {folder}" in result.stderr


def test_json_is_one_look(tmp_path: Path):
    """--json tells a sweep's state as data."""
    make(tmp_path, SMALL)
    told = json.loads(look(tmp_path, "--json").stdout)
    assert (told["recorded"], told["running"], told["trial"]) == (4, False, None)
    assert told["outcomes"] == {"ok": 4}


def test_half_written_files_are_survived(tmp_path: Path):
    """A torn record, a damaged plan, a missing environment: shown, with the damage named."""
    folder = make(tmp_path, SMALL)
    with (folder / "trials.jsonl").open("a") as file:
        file.write('{"no": "record"}\n{"trial": "00')
    (folder / "resolved.json").write_text("{")
    (folder / "environment.json").unlink()
    result = look(folder, "--once")
    assert result.exit_code == 0, result.output
    assert "4 of ? trials" in result.stdout
    assert "resolved.json is damaged" in result.stdout


@pytest.mark.own_cgroup
def test_a_running_sweep_is_watched_and_not_disturbed(tmp_path: Path):
    """Ctrl-C ends the watching, not the sweep; a second look ends by itself with the sweep."""
    go_on = tmp_path / "go-on"
    (tmp_path / "tiny.toml").write_text(SCENARIO.replace("GO-ON", str(go_on)))
    results = tmp_path / "results"
    words = ["run", str(tmp_path / "tiny.toml"), "--results", str(results)]
    command = [sys.executable, "-m", "edgebench", *words]
    sweep = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 200
        while not list(results.glob("*/*/live.json")) and time.monotonic() < deadline:
            time.sleep(0.1)
        first = Terminal(["watch", str(results)], 50)
        first.read(200, until="memory")
        first.process.send_signal(signal.SIGINT)
        assert first.close() == 0, first.text
        assert "stopped watching; the sweep continues" in first.text
        second = Terminal(["watch", str(results)], 100)
        second.read(200, until="memory")
        go_on.touch()
        assert second.close() == 0, second.text
        assert sweep.wait(200) == 0, sweep.communicate()[1]
    finally:
        go_on.touch()
        with contextlib.suppress(ProcessLookupError):
            sweep.kill()
        sweep.communicate()
    assert "4 of 4 trials, complete" in second.text
    assert "memory" in first.text
    assert "sh -c" in first.text
    assert list(results.glob("*/*/complete.json"))


@pytest.mark.parametrize("words", [("--replay", "--json"), ("--replay", "--once")])
def test_flags_that_do_not_go_together_are_refused(words: tuple[str, ...]):
    """Instead of being ignored; with the flag to leave out or to add."""
    refused = look(*words).exception
    assert isinstance(refused, UsageError)
    assert "--replay" in str(refused)
