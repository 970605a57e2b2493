"""How each answer is laid out: trials, boards, remedies, comparisons, warnings; and renderers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from edgebench.answers.limits import advice_headline, advice_table
from edgebench.answers.table import Table
from edgebench.answers.trials import (
    _DOUBTS,
    Warned,
    WarningKind,
    board_line,
    trial_fields,
    trial_headline,
    warned,
    warning_lines,
)
from edgebench.cli.output import print_table, print_warnings
from edgebench.records import Doubt, LimitSetting, TrialRecord
from edgebench.report.builder import table_lines
from edgebench.results.derived import KeptAdvice, KeptWinner, TriedRemedy

MIB = 1 << 20
PACKAGE = Path(__file__).parents[2] / "edgebench"


def trial(**values: object) -> TrialRecord:
    settings = {"kind": "command", "command": ["./fill", "7"]}
    limits = LimitSetting("120M", 120 * MIB)
    known = {"wall_s": 0.34, "cpu_s": 0.06, "major_faults": 0, "limit_bytes": 120 * MIB}
    known |= {"peak_bytes": 120 * MIB, "reason": "killed by the kernel", **values}
    outcome = known.pop("outcome", "oom-killed")
    return TrialRecord("0001", "p1", 0, 0, settings, limits, outcome, "", **known)  # type: ignore[arg-type]


def test_a_killed_trial():
    record = trial()
    assert trial_headline(record) == "./fill 7 under 120 MiB, no swap"
    assert list(trial_fields(record)) == [
        ("result", "killed for memory after 0.34 s"),
        ("peak", "120 MiB of 120 MiB   needs more than 120 MiB"),
        ("cpu", "60.0 ms   major faults 0"),
    ]
    assert repr(record) == (
        "<TrialRecord 0001: outcome='oom-killed', wall_s=0.34, limit_bytes=125829120, "
        "peak_bytes=125829120, demand_bytes=None>"
    )


def test_a_trial_without_a_limit():
    sizes = {"peak_bytes": 380 * MIB, "demand_bytes": 375 * MIB, "undroppable_bytes": 55 * MIB}
    sizes |= {"limit_bytes": None, "demand_source": "x and peak"}
    free = trial(outcome="failed", exit_code=3, reason="no x", **sizes)
    fields = dict(trial_fields(free))
    assert fields["result"] == "failed (exit code 3) after 0.34 s"
    assert fields["reason"] == "no x"
    assert fields["peak"] == "380 MiB   needs 375 MiB, 320 MiB of it files"


@pytest.mark.parametrize(
    ("needs", "libraries", "ends"),
    [
        (120, 100, "libraries 100 MiB   enough"),
        (150, None, "leaves 228 MiB   enough"),
        (150, 100, "too little beside its libraries: they are read again and again"),
        (300, 100, "too little"),
    ],
)
def test_a_board_is_sized_with_libraries(needs: int, libraries: int | None, ends: str):
    line = board_line("raspberry-pi-zero-2w", needs * MIB, None, libraries and libraries * MIB)
    assert line.startswith("Raspberry Pi Zero 2 W   leaves 228 MiB")
    assert line.endswith(ends)
    assert board_line(None, needs * MIB, None, None) == ""


def test_remedies_are_rows():
    tried = (
        TriedRemedy("arena-max-1", "keeps one heap", "ok", 0.6, 0.5, 0.7, 2, 2, 31.0),
        TriedRemedy("trim", "gives back", "ok", 0.86, 0.8, 0.9, 2, 2, 48.2, None, "results"),
        TriedRemedy("jemalloc", "another heap", "timeout", None, None, None, 0, 1, None, 70.3),
    )
    best = KeptWinner("arena-max-1", ("MALLOC_ARENA_MAX=1 ./train", "or so"), 5, 5, 0.55, True)
    found = KeptAdvice("./train", 250 * MIB, "ok", 56.3, 1.3, True, 7, 402.0, tried, best)
    assert advice_headline(found) == (
        "./train at 250 MiB   56.3 s as it is (1.30x)   7 trials, 6 min 42 s"
    )
    table = advice_table(found)
    assert table.columns == ("remedy", "time", "of that", "ok", "")
    assert table.rows == [
        ["arena-max-1", "31.0 s", "0.55x", "5/5", "<- MALLOC_ARENA_MAX=1 ./train; or so"],
        ["trim", "48.2 s", "0.86x", "2/2", "may change results"],
        ["jemalloc", ">1 min 10 s", "", "0/1", "stopped"],
    ]


def test_warnings_are_one_line_a_kind_with_the_largest_number():
    doubts = [
        Doubt("spread", {"share": 0.12}, limit="80M"),
        Doubt("foreign_cpu", {"share": 0.07, "cpu_s": 1.0}, limit="max"),
        Doubt("stolen_cpu", {"share": 0.31}, limit="80M"),
        Doubt("of another version", {"share": 0.5}),
    ]
    failed = Warned(WarningKind.FAILED, {"what": "failed: exit code 3"}, "lenet", "50 MiB")
    assert warning_lines([*warned(doubts), failed]) == [
        "lenet 50 MiB: failed: exit code 3",
        "max, 80M: others used up to 31 % of the CPU: end them (see top), or repeat more often",
        "80M: repeats differ by up to 12 %: repeat more often, or see edgebench doctor",
    ]


def test_each_doubt_has_a_warning_that_can_be_shown():
    assert len(WarningKind) <= 15
    texts = [path.read_text() for path in PACKAGE.rglob("*.py")]
    assert {kind for text in texts for kind in re.findall(r'Doubt\(\s*"(\w+)"', text)} <= {*_DOUBTS}
    sizes = ("ceiling_bytes", "swap_bytes", "taken_bytes", "huge_bytes", "free_bytes")
    numbers = {**dict.fromkeys(sizes, 7.0 * MIB), "hot_c": 91.0, "share": 0.2, "factor": 1.2}
    for kind in _DOUBTS:
        (line,) = warning_lines(warned([Doubt(kind, numbers, ["x"])]))
        assert "{" not in line


TABLE = Table(
    ("limit", "time", ""), [["max", "2.1 s", "*a* " * 30], ["9 MiB", "", ""]], ("limit", "")
)


def test_piped_output_has_one_row_a_line(capsys: pytest.CaptureFixture[str]):
    print_table(TABLE)
    head, first, last = capsys.readouterr().out.splitlines()
    assert head == "  limit   time"
    assert first == "  max    2.1 s  " + ("*a* " * 30).rstrip()
    assert last == "  9 MiB"
    print_warnings(["x" * 300])
    assert capsys.readouterr().err == f"! {'x' * 300}\n"


def test_markdown_has_the_same_cells():
    """Aligned as on the terminal; what Markdown would obey is escaped."""
    lines = list(table_lines(TABLE))
    assert lines[:2] == ["| limit | time |  |", "| --- | ---: | --- |"]
    assert lines[2].startswith("| max | 2.1 s | \\*a\\*")
    assert lines[3] == "| 9 MiB |  |  |"
