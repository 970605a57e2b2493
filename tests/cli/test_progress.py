"""Progress of trials: the live block on a terminal, few lines in a log, one a trial on request."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace
from rich.console import Console, Group
from rich.text import Text
from terminal import Terminal

from edgebench.cli import progress as shown
from edgebench.cli.live_block import picture_lines
from edgebench.cli.progress import head_lines
from edgebench.records import Doubt, LimitSetting, Outcome, TrialRecord
from edgebench.run.trial_record import TrialRequest

MIB = 1 << 20
HOSTILE = "\x1b[2J[red]x[/]\u202e\nnext\r" + "long" * 60
LABELS = ("max", "85%", "70%", "55%", "40%")
#: Twelve trials of a program that is killed at two of its limits; each takes some 0.2 s.
SCENARIO = """\
schema = 1
name = "tiny"
repeats = 3
timeout = "1m"
[workload]
kind = "command"
command = ["PYTHON", "-I", "-S", "-c", "b = bytearray(50 << 20); import time; time.sleep(SECONDS)"]
[limits]
memory = ["max", "400M", "30M", "20M"]
swap = "none"
"""


class Clock:
    """Stands for the module ``time``: it is as late as a test says."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        """Seconds since some moment."""
        return self.now_s


class Collected(shown.LogProgress):
    """Its lines, with a clock of its own and no thread."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def report(self, line: str) -> None:
        """Keep it."""
        self.lines.append(line)

    def wait(self, clock: Clock, seconds: int) -> None:
        """Tick once a second."""
        for _ in range(seconds):
            clock.now_s += 1
            self.tick()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock that the module reads."""
    made = Clock()
    monkeypatch.setattr(shown, "time", made)
    return made


def request_of(network: str, label: str, strategy: str | None = None) -> TrialRequest:
    """A trial of a network at a limit of so many MiB as its share says."""
    size = None if label == "max" else int(label.rstrip("%")) * MIB
    settings = {"kind": "inference", "networks": [network], "schedule": "bulk"}
    limits = LimitSetting(label, size, "file", 2 << 30)
    return TrialRequest("0001", "p001", 0, 0, settings, limits, strategy=strategy)


def record_of(
    request: TrialRequest, wall_s: float, outcome: Outcome = "ok", reason: str | None = None
) -> TrialRecord:
    """How it ended."""
    size = request.limits.memory_bytes
    told = {"wall_s": wall_s, "reason": reason, "limit_bytes": size}
    return TrialRecord(**request.described(), outcome=outcome, started_utc="", **told)


def follow(progress: shown.TrialProgress, networks: tuple[str, ...], *, times: int = 1):
    """Trials at all limits, slower the tighter; killed at 40 %."""
    progress.begin(Path("results/board/sweep"), 100, 0)
    for _ in range(times):
        for network in networks:
            for n, label in enumerate(LABELS):
                request = request_of(network, label)
                progress.trial(request)
                killed = label == "40%"
                progress.finished(record_of(request, 1 + n * n, "oom-killed" if killed else "ok"))
    progress.trial(request_of(networks[0], "70%"))


def drawn(lines: list[Text], width: int, encoding: str = "utf-8") -> list[str]:
    """The lines as a terminal of that width gets them."""
    target = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = Console(file=target, width=width, highlight=False, markup=False, color_system=None)
    console.print(Group(*lines))
    target.flush()
    target.seek(0)
    return target.read().splitlines()


def test_the_block_says_how_far_it_is_and_what_is_known(clock: Clock):
    """Count, time left, the point in words; a table of slowdowns; the curve of the slowest."""
    progress = Collected()
    clock.now_s += 20
    follow(progress, ("alexnet", "resnet18"))
    head = drawn(head_lines(progress, 80, "utf-8"), 80)
    assert head[0].startswith("trial 11 of 100 · 20 s")
    assert "now: alexnet at 70% (70.0 MiB) (0 s)" in head
    picture = drawn(picture_lines(progress.known, 80, 20, "utf-8"), 80)
    rows = [line.split() for line in picture]
    assert ["slowdown", "85%", "70%", "55%", "40%"] in rows
    assert ["alexnet", "x2", "x5", "x10", "killed"] in rows
    assert any("slowdown by memory limit: alexnet" in line for line in picture)
    assert any("killed │" in line for line in picture)
    assert picture[-1].endswith("MiB")


@pytest.mark.parametrize("width", [12, 20, 40, 60, 80, 200])
@pytest.mark.parametrize("height", [5, 12, 23, 50])
def test_it_fits_a_terminal_of_any_size(clock: Clock, width: int, height: int):
    """No line is wider, no block higher; names of any length and kind can't steer the terminal."""
    progress = Collected()
    names = (HOSTILE, "resnet18", *(f"network-{n}" for n in range(12)))
    follow(progress, names)
    head = drawn(head_lines(progress, width, "utf-8"), width)
    picture = drawn(picture_lines(progress.known, width, height, "utf-8"), width)
    assert len(picture) <= height
    assert all(len(line) <= width for line in head + picture)
    assert not re.search("[\x00-\x1f\x7f\u202e]", "".join(head + picture))


def test_time_left_is_what_trials_took_on_the_mean(clock: Clock):
    """Ten of a hundred in 40 s: 6 minutes are left, and fewer while the next one runs."""
    progress = Collected()
    progress.begin(Path("results"), 100, 20)
    for _ in range(10):
        request = request_of("alexnet", "max")
        progress.trial(request)
        clock.now_s += 4
        progress.finished(record_of(request, 4))
    assert progress.left_s == pytest.approx(70 * 4)
    progress.trial(request_of("alexnet", "max"))
    clock.now_s += 3
    assert progress.left_s == pytest.approx(70 * 4 - 3)
    progress.planned(200)
    assert "at least" in progress.time_words()
    assert progress.count_words() == "trial 31 of 200 so far"


def test_the_first_of_unknown_many_trials_is_one(clock: Clock):
    """Before it begins too: a search plans one trial after the other."""
    progress = Collected()
    progress.begin(Path("results"), 1, 0)
    assert progress.count_words() == "1 trial"
    progress.planned(1)
    assert progress.count_words() == "1 trial so far"
    progress.planned(2)
    assert progress.count_words() == "2 trials so far"


def test_a_walk_shows_the_limit_that_it_is_at(clock: Clock):
    """Its own one is none; the next trial's is its own again."""
    progress = Collected()
    progress.begin(Path("results"), 2, 0)
    request = request_of("alexnet", "max")
    progress.trial(request)
    progress.moved(replace(request.limits, label="40%", memory_bytes=100 << 20))
    assert "at 40% (100.0 MiB)" in progress.now_words()
    progress.finished(record_of(request, 4))
    progress.trial(request)
    assert "40%" not in progress.now_words()


def test_a_log_shows_life_in_few_lines(clock: Clock):
    """Eight hours are some hundred lines, never more than five minutes apart; a minute is three."""
    progress = Collected()
    follow(progress, ("alexnet",))
    progress.wait(clock, 60)
    assert len(progress.lines) == 1 + 3
    assert progress.lines[0] == "100 trials → results/board/sweep"
    assert progress.lines[1].startswith("trial 6 of 100; 15 s")
    assert progress.lines[1].endswith("alexnet at 70% (70.0 MiB) (15 s)")
    before = len(progress.lines)
    progress.wait(clock, 8 * 3600)
    assert before + 8 * 12 - 1 <= len(progress.lines) <= before + 8 * 12 + 6


def test_a_limit_that_did_not_hold_is_said_at_once(clock: Clock):
    """Whatever the trial's outcome is."""
    progress = Collected()
    request = request_of("alexnet", "85%")
    progress.trial(request)
    doubt = Doubt("limit_changed", {"from_bytes": 64 << 20}, ["memory"])
    progress.finished(replace(record_of(request, 1.0, "ok"), doubts=[doubt]))
    words = (
        "limit not held: alexnet at 85% (85.0 MiB): its limit of memory was changed while it ran"
    )
    (line,) = progress.lines
    assert line.startswith(words)


def scenario_in(folder: Path, seconds: float) -> Path:
    """The scenario's file."""
    text = SCENARIO.replace("PYTHON", sys.executable).replace("SECONDS", str(seconds))
    (folder / "tiny.toml").write_text(text)
    return folder / "tiny.toml"


@pytest.mark.own_cgroup
def test_a_log_has_no_line_for_each_trial(tmp_path: Path):
    """Not on a terminal: the plan, then the answer, the results and what to type next."""
    file = scenario_in(tmp_path, 0.01)
    command = [sys.executable, "-m", "edgebench", "run", str(file), "--results"]
    run = {"capture_output": True, "text": True, "check": True}
    quiet = subprocess.run([*command, str(tmp_path / "a")], **run)
    assert quiet.stderr.startswith("12 trials → ")
    # They become fewer the longer it takes.
    assert len(re.findall(r"^trial \d+ of 12: ", quiet.stderr, re.MULTILINE)) < 12
    answer, *others = quiet.stdout.split("\n\n")
    assert "needs" in answer
    assert "killed at 30.0 MiB" in " ".join(answer.split())
    assert others[0].startswith("12 trials in ")
    verbose = subprocess.run([*command, str(tmp_path / "b"), "--verbose"], **run)
    assert len(re.findall(r"^trial \d+ of 12: ", verbose.stderr, re.MULTILINE)) == 12
    assert "harness: " in verbose.stdout
    assert "harness: " not in quiet.stdout


@pytest.mark.own_cgroup
@pytest.mark.parametrize(("columns", "rows"), [(80, 24)])
def test_a_terminal_gets_a_block_that_goes(tmp_path: Path, columns: int, rows: int):
    """It is redrawn in place while trials run; only the answer stays on the screen."""
    words = ["run", str(scenario_in(tmp_path, 0.3)), "--results", str(tmp_path / "results")]
    terminal = Terminal(words, columns, rows)
    assert terminal.close() == 0, terminal.text
    block, _, left = terminal.text.rpartition("\x1b[?25h")
    assert "of 12" in block
    assert "left" in block
    assert "now: " in block
    # Drawn in place: the cursor goes up again and again.
    assert block.count("\x1b[1A") > 3
    assert "trial " not in left
    assert "needs" in left
    drawings = block.count("now: ")
    assert 2 <= drawings <= 60


@pytest.mark.parametrize("kind", [shown.LineProgress, shown.LogProgress])
def test_lines_hold_no_control_codes(
    kind: type[shown.LogProgress | shown.LineProgress], capsys: pytest.CaptureFixture[str]
) -> None:
    """A results folder may have any name."""
    kind().begin(Path("\x1b[2Jresults"), 3, 0)
    assert capsys.readouterr().err == "3 trials → \\x1b[2Jresults\n"
