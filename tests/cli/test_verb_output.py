"""What a newcomer meets, and what every verb prints: the answer first, no broken value."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from made_sweep import Shape, make
from terminal import Terminal

from edgebench.answers.table import Table
from edgebench.cli import cli
from edgebench.cli.minimum import print_advice
from edgebench.cli.output import (
    print_fields,
    print_headline,
    print_lines,
    print_next,
    print_table,
    print_warnings,
)
from edgebench.results.derived import TriedRemedy
from edgebench.run.advise.advice import Advice
from tests.own_path import call

ROOT = Path(__file__).parents[2]
DEVICE = Path("results") / "vm-2core-24g"
QUICK = str(DEVICE / "20261129T064840Z-quickstart-grid-2bf09a")
CONVOLUTIONS = str(DEVICE / "20261121T153055Z-conv-batch-934c2e")
CELLS = 80
#: What styles text or moves the cursor takes no place.
_STYLE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
#: The words of a verb, and how its first line begins.
VERBS = [
    (("show", QUICK), "alexnet   needs 469 MiB   give ?   14x below 188 MiB"),
    (("report", QUICK), "alexnet   needs 469 MiB   give ?   14x below 188 MiB"),
    (("compare", QUICK, QUICK), "1.00x over 60 times"),
    (("reconcile", QUICK, "--network", "resnet18"), "1 point"),
    (("show", CONVOLUTIONS, "--study"), "Time and memory of a convolution per image"),
    (("run", "quickstart", "--dry-run"), "quickstart   valid   "),
    (("export", QUICK, "-o", "trials.csv"), "Wrote 45 rows of trials to trials.csv."),
    (("fit", QUICK), "  curve"),
    (("predict", "alexnet", "--results", QUICK, "--memory", "300M"), "alexnet"),
    (
        ("layers", "alexnet", "--from", QUICK, "--no-figure"),
        "alexnet at 188 MiB   3.59 s a round, 13.8x (+3.35 s)   needs 469 MiB",
    ),
]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    for name in (QUICK, CONVOLUTIONS):
        shutil.copytree(ROOT / name, folder / name)
    for file in (ROOT / DEVICE).glob("calibration-*.json"):
        shutil.copy(file, folder / DEVICE)
    return folder


def name_of(words: tuple[str, ...]) -> str:
    return " ".join([words[0], *(word for word in words if word.startswith("--"))])


@pytest.mark.process
@pytest.mark.parametrize(("words", "first"), VERBS, ids=[name_of(words) for words, _ in VERBS])
def test_the_answer_is_first_and_fits(words: tuple[str, ...], first: str, home: Path):
    terminal = Terminal(words, CELLS, 50, folder=home)
    code = terminal.close()
    # The cursor is shown again when live progress has ended and removed itself.
    text = _STYLE.sub("", terminal.text.rpartition("\x1b[?25h")[2])
    lines = [line.rstrip() for line in text.replace("\r", "").strip("\n").split("\n")]
    assert code == 0, lines
    assert lines[0].startswith(first), lines[:3]
    typed = ("next: ", "results: ", "figure: ", "report: ", "fits: ")
    assert not [line for line in lines if len(line) > CELLS and not line.startswith(typed)]
    assert not any(re.search(r"\bp\d{3}\b", line) for line in lines)
    assert sum(line.startswith("next: ") for line in lines) <= 1


def test_advise_says_what_it_left_out_and_whether_a_board_has_the_room(
    capsys: pytest.CaptureFixture[str],
):
    advice = Advice(
        name="alexnet",
        kind="inference",
        folder=Path("results"),
        limit_bytes=228 << 20,
        plain_end="ok",
        plain_s=6.5,
        unlimited_s=1.2,
        pressed=True,
        best=None,
        tried=(TriedRemedy("arena-max", "one heap", "timeout", None, None, None, 0, 1, None, 9.5),),
        untried=(),
        out_of_time=("jemalloc", "one-thread"),
        trials=20,
        total_s=280.0,
        needed_bytes=400 << 20,
        library_bytes=100 << 20,
    )
    print_advice(advice, "raspberry-pi-zero-2w", verbose=False)
    text = " ".join(capsys.readouterr().out.split())
    assert text.startswith("alexnet at 228 MiB 6.50 s as it is (5.42x) 20 trials, 4 min 40 s")
    assert "arena-max >9.50 s 0/1 stopped" in text
    assert "leaves 228 MiB libraries 100 MiB too little beside its libraries" in text
    assert "not tried for lack of time: jemalloc, one-thread (--budget)" in text
    print_advice(replace(advice, out_of_time=()), None, verbose=False)
    short = capsys.readouterr().out
    assert "leaves" not in short
    assert "lack of time" not in short


def test_nothing_printed_controls_the_terminal(capsys: pytest.CaptureFixture[str]):
    strange = "re\x1b[31msnet"
    print_headline(strange)
    print_lines([strange])
    print_fields([("network", strange)])
    print_table(Table(("network",), [[strange]]))
    print_warnings([strange])
    print_next(strange)
    seen = capsys.readouterr()
    assert "\x1b" not in seen.out + seen.err
    assert (seen.out + seen.err).count("re\\x1b[31msnet") == 6


def test_warnings_are_five_at_most(capsys: pytest.CaptureFixture[str]):
    many = [f"doubt {number}" for number in range(9)]
    print_warnings(many, "--verbose")
    *first, last = capsys.readouterr().err.splitlines()
    assert first == [f"! {one}" for one in many[:4]]
    assert last == "! 5 more: --verbose"
    for shown, others in ((many[:5], "--verbose"), (many, None)):
        print_warnings([*shown, shown[0]], others)
        assert capsys.readouterr().err.splitlines() == [f"! {one}" for one in shown]


@pytest.mark.process
def test_a_folder_with_a_space_is_quoted(tmp_path: Path):
    path = make(tmp_path / "my results", Shape(repeats=1))
    done = call("show", "my results", folder=tmp_path)
    (line,) = (one for one in done.stderr.splitlines() if one.startswith("next: "))
    assert shlex.split(line)[-1] in (str(path), str(path.relative_to(tmp_path)))


@pytest.mark.process
def test_a_command_in_a_warning_is_one_line():
    command = f"edgebench calibrate --swap 2G --results /{'long-' * 20}folder"
    warning = f"{'no calibration of this device ' * 5}\n  remedy: measure it: {command}"
    code = f"from edgebench.cli.output import print_warnings; print_warnings([{warning!r}])"
    terminal = Terminal(["-c", code], 80, program=[sys.executable])
    assert terminal.close() == 0
    *sentence, last = _STYLE.sub("", terminal.text).splitlines()
    assert last == f"  remedy: measure it: {command}"
    assert len(sentence) > 1
    assert max(map(len, sentence)) <= 80


#: The quick start with a network that takes a moment.
TINY = {'"alexnet"': '"lenet"'}
TINY |= {'"60%", "35%"': '"70%"', '["60%"]': '["70%"]', "target = 0.1": "target = 0.5"}


def test_edgebench_alone_asks_three_questions():
    shown = CliRunner().invoke(cli, []).stdout
    lines = shown.splitlines()
    assert len(lines) < 20
    assert all(len(line) < 80 for line in lines)
    commands = re.findall(r"^ {6}(edgebench .+)$", shown, re.MULTILINE)
    assert len(commands) == 3
    assert commands[0] == "edgebench minimum -- python3 train.py"
    for one in " && ".join(commands).split(" && "):
        words = shlex.split(one)[1:]
        command = cli.get_command(click.Context(cli), words[0])
        assert command is not None
        command.make_context(words[0], words[1:], resilient_parsing=True)
        known = {name for param in command.params for name in param.opts}
        own = words[: words.index("--")] if "--" in words else words
        assert {word for word in own if word.startswith("--")} <= known


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scenarios").mkdir()
    shutil.copy(ROOT / "scripts" / "demo", tmp_path / "scripts")
    programs = shlex.quote(str(Path(sys.executable).parent))
    (tmp_path / "scripts" / "setup").write_text(f"export PATH={programs}:$PATH\n")
    text = (ROOT / "scenarios" / "quickstart.toml").read_text()
    for long, short in TINY.items():
        assert long in text
        text = text.replace(long, short)
    (tmp_path / "scenarios" / "quickstart.toml").write_text(text)
    return tmp_path


@pytest.mark.own_cgroup
@pytest.mark.timeout(1200)
@pytest.mark.exclusive
@pytest.mark.torch
@pytest.mark.root
@pytest.mark.swap
def test_what_the_demo_leaves_is_short(clone: Path):
    words = ["bash", str(clone / "scripts" / "demo")]
    terminal = Terminal(words, 80, 24, program=[])
    assert terminal.close(1100) == 0, terminal.text
    left = re.sub(r"\x1b\[[0-9;]*m", "", terminal.text.rpartition("\x1b[?25h")[2])
    lines = left.replace("\r", "").splitlines()
    assert len(lines) <= 40
    # On a busy machine each limit may look slower, so that none can be given.
    assert any(re.match(r"lenet +needs [\d.]+ MiB +give [\d.?]+", line) for line in lines), left
    assert any(re.match(r" +layer +weights", line) for line in lines), left
    for name in ("figure: ", "report: "):
        (path,) = (line.removeprefix(name) for line in lines if line.startswith(name))
        assert (clone / path).is_file()
    assert any(line.startswith("next: ") for line in lines)
