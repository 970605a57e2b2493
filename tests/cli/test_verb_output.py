"""What every verb prints in a terminal of 80 columns: the answer first, no broken value."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from terminal import Terminal

from edgebench.answers.table import Table
from edgebench.cli.output import (
    print_fields,
    print_headline,
    print_lines,
    print_next,
    print_table,
    print_warnings,
)

ROOT = Path(__file__).parents[2]
DEVICE = Path("results") / "vm-2core-24g"
QUICK = str(DEVICE / "20261129T064840Z-quickstart-grid-2bf09a")
CONVOLUTIONS = str(DEVICE / "20261121T153055Z-conv-batch-934c2e")
CELLS = 80
_STYLE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
#: The words of a verb, and how its first line begins.
VERBS = [
    (("show", QUICK), "alexnet   needs 469 MiB   give ?   14x below 188 MiB"),
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


def in_terminal(words: tuple[str, ...], folder: Path) -> tuple[list[str], int]:
    terminal = Terminal(words, CELLS, 50, folder=folder)
    code = terminal.close()
    # The cursor is shown again when live progress has ended and removed itself.
    text = _STYLE.sub("", terminal.text.rpartition("\x1b[?25h")[2])
    lines = text.replace("\r", "").strip("\n").split("\n")
    return [line.rstrip() for line in lines], code


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    for name in (QUICK, CONVOLUTIONS):
        shutil.copytree(ROOT / name, folder / name)
    for file in (ROOT / DEVICE).glob("calibration-*.json"):
        shutil.copy(file, folder / DEVICE)
    return folder


def check_output(words: tuple[str, ...], first: str, home: Path) -> None:
    lines, code = in_terminal(words, home)
    assert code == 0, lines
    assert lines[0].startswith(first), lines[:3]
    typed = ("next: ", "results: ", "figure: ", "fits: ")
    wide = [line for line in lines if len(line) > CELLS and not line.startswith(typed)]
    assert not wide
    assert not any(re.search(r"\bp\d{3}\b", line) for line in lines)
    assert sum(line.startswith("next: ") for line in lines) <= 1


def name_of(words: tuple[str, ...]) -> str:
    return " ".join([words[0], *(word for word in words if word.startswith("--"))])


@pytest.mark.process
@pytest.mark.parametrize(("words", "first"), VERBS, ids=[name_of(words) for words, _ in VERBS])
def test_the_answer_is_first_and_fits(words: tuple[str, ...], first: str, home: Path):
    check_output(words, first, home)


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
