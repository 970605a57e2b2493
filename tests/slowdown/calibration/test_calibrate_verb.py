"""edgebench calibrate: what it runs, what a slowed network tells, and what a person meets."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import made_records
import pytest
from click.testing import CliRunner, Result
from made_sweep import Shape, make
from verb_making import calibration

from edgebench.answers.models import calibration_table
from edgebench.cli.predict import calibrate
from edgebench.errors import MachineError, ResultsError
from edgebench.records import LimitSetting, TrialRecord
from edgebench.results.results import load
from edgebench.run import calibration as module
from edgebench.run.calibration import (
    FILE_BYTES,
    CalibrationOptions,
    calibration_points,
    with_slowed_visit,
)
from edgebench.run.trial.controllers import ROOM
from edgebench.run.trial.record import TrialRequest
from edgebench.scenario.points import Point
from edgebench.slowdown.calibration import FITS, WIDE, load_calibration
from edgebench.slowdown.curves import curves

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


MIB = 1 << 20
FILE = Path("scan.bin")


def points(swap: str, block: int = 0) -> dict[str, Point]:
    size = None if swap == "none" else 1 << 30
    made = calibration_points(block, swap, size, FILE, "254:0", "254:16")
    return {point.id: point for point in made}


def areas(swap: str, block: int = 0) -> dict[tuple[str, float], dict[str, Any]]:
    found = points(swap, block)["scans"].settings["areas"]
    return {(area["of"], area["planned_share"]): area for area in found}


def test_with_swap_both_memory_and_a_file_are_scanned():
    assert {*points("file")} == {"scans", "hot-base"}
    assert {*points("file", 1)} == {"scans"}
    ends = {(of, share) for of in ("anon", "file") for share in (FITS, WIDE)}
    assert {*areas("file")} == {*areas("file", 2)} == ends
    assert (areas("file")["anon", WIDE]["disk"], areas("file")["file", WIDE]["disk"]) == (
        *("254:0", "254:16"),
    )
    hot_base = points("file")["hot-base"]
    assert hot_base.limits.memory_bytes is None
    assert hot_base.settings[ROOM] == 0
    assert hot_base.settings["area"]["size_bytes"] is None
    assert hot_base.settings["area"]["planned_share"] > 1


def test_without_swap_files_are_scanned_beyond_the_limit():
    """Anonymous memory is only touched where it fits, beside an interpreter of 11 MiB and more."""
    found = areas("none")
    assert {*found} == {("anon", FITS), ("file", FITS), ("file", WIDE)}
    assert found["anon", FITS]["passes"] == ["touch"]
    hot_base = points("none")["hot-base"].settings
    assert hot_base["area"]["file"] == str(FILE)
    assert 0 < hot_base[ROOM] < hot_base["area"]["size_bytes"] <= FILE_BYTES
    limit = points("none")["scans"].limits.memory_bytes
    assert limit is not None
    assert limit - found["anon", FITS]["size_bytes"] > 16 * MIB


def test_each_block_has_an_order_of_its_own():
    orders = [[*areas("file", block)] for block in range(3)]
    assert len({tuple(order) for order in orders}) > 1
    assert orders == [[*areas("file", block)] for block in range(3)]


@pytest.mark.torch
@pytest.mark.process
def test_a_slowed_network_tells_what_scans_leave_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What its limit added ÷ what is computed: scans that are three times as fast say a third."""
    shape = Shape(networks={"resnet50": 6}, limits=(None, 60), schedules=("bulk",), repeats=1)
    sweep = make(tmp_path, replace(shape, rounds=1, with_files=False), "board")
    asked: list[tuple[Any, ...]] = []
    monkeypatch.setattr(module, "run_probe", lambda *about: asked.append(about) or sweep)
    options, no_progress = CalibrationOptions(tmp_path, swap_bytes=1 << 30), None

    def seen(**changes: Any) -> float:
        made = with_slowed_visit(calibration(**changes), options, no_progress)  # type: ignore[arg-type]
        assert made.seen_share is not None
        return made.seen_share.value

    (curve,) = (one for one in curves(load(sweep)) if one.phase == "total")
    assert curve.medians[0] > 1
    slow = seen(fault_s=replace(calibration().fault_s, value=0.0))
    rate = calibration().swap_in_bytes_per_s
    assert rate is not None
    third = replace(rate, value=3 * rate.value)
    fast = seen(fault_s=replace(calibration().fault_s, value=0.0), swap_in_bytes_per_s=third)
    assert (slow > 0, fast) == (True, pytest.approx(3 * slow))
    network, settings, limit, results, _, device = asked[0]
    assert (network, settings["loader"], results, device) == ("resnet50", "copy", tmp_path, "board")
    # 90 MiB of the runtime stay, 97.5 of weights, and what its layers make.
    assert 0.8 * 187 * MIB < limit < 0.8 * 215 * MIB


@pytest.mark.torch
@pytest.mark.process
def test_without_a_slowed_network_scans_alone_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*about: Any) -> Path:
        raise MachineError("no room for it")

    monkeypatch.setattr(module, "run_probe", refuse)
    options, no_progress = CalibrationOptions(tmp_path), None
    made = with_slowed_visit(calibration(), options, no_progress)  # type: ignore[arg-type]
    assert made.seen_share is None
    assert "no room for it" in made.warnings[-1]
