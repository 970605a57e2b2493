"""edgebench calibrate as a person meets it, from one command to a file, a table and a figure."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from pathlib import Path

import made_records
import pytest
from click.testing import CliRunner, Result
from verb_making import calibration

from edgebench.answers.models import calibration_table
from edgebench.cli.predict import calibrate
from edgebench.errors import MachineError, ResultsError
from edgebench.records import LimitSetting, TrialRecord
from edgebench.run import calibration as module
from edgebench.run.trial.record import TrialRequest
from edgebench.slowdown.calibration import load_calibration

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="needs torch")


def run(*words: str | Path) -> Result:
    """The verb's result; a program's error would be in ``exception``."""
    return CliRunner().invoke(calibrate, [str(word) for word in words])


@pytest.mark.own_cgroup
@pytest.mark.long
def test_one_command_calibrates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    short = partial(module.CalibrationOptions, repeats=2, time_s=0.1)
    monkeypatch.setattr(module, "CalibrationOptions", short)
    monkeypatch.setattr(module, "with_slowed_visit", lambda made, *about: made)
    done = run("--swap", "none", "--results", tmp_path, "--device", "board")
    assert done.exit_code == 0, done.exception
    found = load_calibration(tmp_path, "board", "none")
    assert found.swap_in_bytes_per_s is None
    assert found.fault_s.repeats == 2
    assert found.file_read_bytes_per_s.value > 1e6
    assert 0 < found.minor_fault_s.value < 1e-3
    assert 50e6 < found.base_bytes.value < 2e9
    assert 0 < found.hot_base_bytes.value < found.base_bytes.value + (64 << 20)
    assert {scan["block"] for scan in found.scans} == {0, 1}
    assert done.stdout.startswith("board   swap none")
    # What a device without swap has not is left out.
    rows = [line.strip().split("  ")[0] for line in done.stdout.splitlines()[2:4]]
    assert rows == ["file read", "fault"]
    assert str(tmp_path / "board" / "calibration-none.json") in done.stdout
    assert "next: edgebench" in done.stderr


def test_the_table_says_each_constant_in_words():
    brief, verbose = (calibration_table(calibration(), verbose) for verbose in (False, True))
    assert [row[0] for row in brief.rows] == ["swap read", "swap write", "file read", "fault"]
    assert brief.rows[0] == ["swap read", "476.8 MiB/s"]
    assert verbose.rows[0][2:] == ["429.2 MiB/s", "524.5 MiB/s", "swap_in_bytes_per_s"]
    assert verbose.rows[5][:2] == ["first touch of a page", "0.50 µs"]
    assert (
        calibration_table(calibration(swap_in_bytes_per_s=None), False).rows[0][0] == "swap write"
    )


@needs_torch
def test_results_that_cannot_be_written_are_told_first(tmp_path: Path):
    """Before two minutes of work, not after."""
    (tmp_path / "board").write_text("a file where the folder should be")
    done = run("--swap", "none", "--results", tmp_path, "--device", "board")
    assert isinstance(done.exception, ResultsError)
    assert "--results" in str(done.exception.remedy)


@pytest.mark.own_cgroup
def test_a_scan_that_is_killed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "_TIMEOUT_S", 0.01)
    done = run("--swap", "none", "--results", tmp_path, "--device", "board")
    assert isinstance(done.exception, MachineError)
    assert "ended as timeout" in str(done.exception)


@pytest.mark.parametrize(
    ("kills", "swap_free", "outcome", "again"),
    [
        (0, True, "ok", 0),
        (2, True, "ok", 2),
        (3, True, "oom-killed", 2),
        (1, False, "oom-killed", 0),
    ],
)
def test_a_scan_killed_with_swap_free_is_made_again(
    kills: int, swap_free: bool, outcome: str, again: int
):
    """Twice at most, and only if swap was free: then the limit is not what killed it."""
    request = TrialRequest("0001", "scans", 0, 0, {}, LimitSetting())
    finished = made_records.record()
    killed = made_records.record(outcome="oom-killed", killed_with_swap_free=swap_free)
    records = iter([*[killed] * kills, finished])

    class Loop:
        """Makes these records."""

        def unkept(self, request: TrialRequest) -> TrialRecord:
            return next(records)

    blocks = module.Blocks(module.CalibrationOptions(), Loop())  # type: ignore[arg-type]
    assert blocks.make(request).outcome == outcome
    assert blocks.again == again
