"""The real GNU time around real processes; its report whole, torn or missing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from edgebench.errors import MachineError
from edgebench.measures.gnu_time import (
    GnuTime,
    find_gnu_time,
    gnu_time_command,
    read_report,
    report_file,
)

MIB = 1 << 20
WHOLE = (
    '{"wall_s":0.50,"user_s":0.01,"system_s":0.02,"maxrss_kib":2048,"major_faults":1,'
    '"minor_faults":9,"voluntary_switches":3,"involuntary_switches":4,"exit_code":7}\n'
)


def timed(report: Path, command: Sequence[str]) -> tuple[int, GnuTime | None]:
    with report_file(report, None) as fd:
        words = gnu_time_command(find_gnu_time(), report, command)
        done = subprocess.run(words, check=False, capture_output=True)
        return done.returncode, read_report(fd)


def written(report: Path, text: str) -> GnuTime | None:
    report.write_text("old")
    with report_file(report, None) as fd:
        assert os.fstat(fd).st_size == 0
        report.write_text(text)
        return read_report(fd)


def python(code: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", code]


@pytest.mark.process
def test_a_known_allocation_and_exit_code(tmp_path: Path) -> None:
    code = "import sys, time; b = b'x' * (50 << 20); time.sleep(0.1); sys.exit(7)"
    returncode, told = timed(tmp_path / "r", python(code))
    assert told is not None
    assert 50 * MIB < told.maxrss_bytes < 80 * MIB
    assert told.wall_s >= 0.1
    assert told.minor_faults >= 50 * MIB // (64 << 10)
    assert told.exit_code == returncode == 7


@pytest.mark.process
def test_a_large_harness_is_not_inherited(tmp_path: Path) -> None:
    ballast = b"x" * (200 * MIB)
    _, told = timed(tmp_path / "r", python("pass"))
    del ballast
    assert told is not None
    assert told.maxrss_bytes < 40 * MIB


def test_each_figure_is_asked_for_by_its_letter(tmp_path: Path) -> None:
    """As time(1) has them: F are faults that read from a disk, R are reclaims; c were preempted."""
    words = gnu_time_command(Path("time"), tmp_path / "r", ["true"])
    (asked,) = (word for word in words if "maxrss" in word)
    assert dict(re.findall(r'"(\w+)":%(\w)', asked)) == {
        "wall_s": "e",
        "user_s": "U",
        "system_s": "S",
        "maxrss_kib": "M",
        "exit_code": "x",
        "major_faults": "F",
        "minor_faults": "R",
        "voluntary_switches": "w",
        "involuntary_switches": "c",
    }


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", WHOLE[:-20], "[[]]\n", '{"wall_s":1}\n', "killed\n", "[" * 4000),
        # Figures that no machine has, as a workload may write them itself.
        *(WHOLE.replace("2048", number) for number in ("1e400", "9" * 30, '"2048x"')),
        WHOLE.replace("0.50", '"0.50"'),
    ],
)
def test_what_is_no_whole_report_is_none(tmp_path: Path, text: str) -> None:
    assert written(tmp_path / "r", text) is None
    assert not (tmp_path / "r").exists()


@pytest.mark.promise("A report of GNU time that the workload made huge costs no memory.")
def test_a_sparse_report_of_40_gib_is_none(tmp_path: Path) -> None:
    with report_file(tmp_path / "r", None) as fd:
        os.truncate(tmp_path / "r", 40 << 30)
        assert read_report(fd) is None
        os.truncate(tmp_path / "r", 0)
        (tmp_path / "r").write_text(WHOLE)
        assert read_report(fd)


@pytest.mark.promise("A FIFO or link in the place of GNU time's report is not opened.")
def test_what_is_put_in_its_place_is_not_read(tmp_path: Path) -> None:
    with report_file(tmp_path / "r", None) as fd:
        (tmp_path / "r").unlink()
        os.mkfifo(tmp_path / "r")
        assert read_report(fd) is None
    assert not (tmp_path / "r").exists()


def test_a_line_before_the_figures_does_no_harm(tmp_path: Path) -> None:
    told = written(tmp_path / "r", "Command terminated by signal 9\n" + WHOLE)
    assert told == GnuTime(2 * MIB, 0.5, 0.01, 0.02, 1, 9, 3, 4, 7)


@pytest.mark.process
def test_it_is_found_behind_an_impostor_or_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for name, version in ((None, ""), ("time", "BusyBox"), ("gtime", "time '(GNU Time)' 1.9")):
        if name:
            (tmp_path / name).write_text(f"#!/bin/sh\necho {version}\n")
            (tmp_path / name).chmod(0o755)
        if name != "gtime":
            with pytest.raises(MachineError) as refused:
                find_gnu_time()
            assert refused.value.remedy == "apt-get install time"
    assert find_gnu_time() == tmp_path / "gtime"
