"""Predictions for a device on which nothing was run: a board, or one with a calibration alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from verb_making import calibration, run, said

from edgebench.boards.board import find_board
from edgebench.boards.storage import StorageSpeed
from edgebench.cli.predict import predict
from edgebench.errors import ResultsError, UsageError
from edgebench.slowdown.answer import PhaseTime
from edgebench.slowdown.calibration.board_file import board_text
from edgebench.slowdown.calibration.device import Constant, calibration_path, save_calibration
from edgebench.slowdown.other_device import WIDER, device_of_board, device_of_file
from edgebench.slowdown.prediction_source import PredictionSource, elsewhere, source_of
from edgebench.slowdown.query import workload_query

QUERY = workload_query("resnet18", "bulk")


@pytest.fixture(scope="module")
def source(root: Path) -> PredictionSource:
    """What is known of the measured device."""
    return source_of(root, QUERY)


def total(
    source: PredictionSource, limit: str, board: str | None = None, constants: Path | None = None
) -> PhaseTime:
    """The whole round at one limit, elsewhere."""
    there, _ = elsewhere(source, board, constants)
    (one,) = there.predict(QUERY, [limit])
    return next(time for time in one.at[0].phases if time.phase == "total")


@pytest.mark.heavy
def test_a_board_with_slower_storage_is_slower(source: PredictionSource):
    """An SD card behind a slow slot, then eMMC; unlimited times are those that were measured."""
    card = total(source, "90M", "raspberry-pi-zero-2w")
    emmc = total(source, "90M", "rock-5b-4g")
    assert card.slowdown > 2 * emmc.slowdown > 2
    assert card.unlimited_s == emmc.unlimited_s


def test_the_interval_is_wider_than_here(source: PredictionSource):
    """Where nothing is slowed it is the measured device's reach, so many times as wide."""
    assert source.results is not None
    there = total(source, "400M", "rock-5b-4g")
    assert there.low_s is not None
    assert there.high_s is not None
    assert there.high_s / there.low_s > WIDER
    assert there.low_s < there.seconds < there.high_s


def test_another_devices_calibration(source: PredictionSource, tmp_path: Path):
    """Its constants alone: faults a quarter as long make the same limit cheaper."""
    made = calibration("fast-board")
    save_calibration(replace(made, fault_s=_times(made.fault_s, 0.25)), tmp_path)
    save_calibration(calibration("same-board"), tmp_path)
    quick, slow = (
        total(source, "60M", constants=calibration_path(tmp_path, name, "file"))
        for name in ("fast-board", "same-board")
    )
    assert 1 < quick.slowdown < 0.8 * slow.slowdown


def test_a_shared_boards_file_is_as_good_as_its_calibration(
    source: PredictionSource, tmp_path: Path
):
    """What `calibrate --share` writes predicts as the calibration does."""
    made = calibration("their-board")
    save_calibration(made, tmp_path)
    shared = tmp_path / "their-board.toml"
    shared.write_text(board_text(replace(made, environment={"ram_bytes": 2**30, "cpu_cores": 2})))
    theirs = total(source, "60M", constants=calibration_path(tmp_path, "their-board", "file"))
    assert total(source, "60M", str(shared)).seconds == pytest.approx(theirs.seconds)
    assert device_of_file(shared, made).calibration.fault_s.value == made.fault_s.value


def test_a_shared_constant_that_is_unknown_here_is_taken(tmp_path: Path):
    """A calibration may tell more on the board than here."""
    theirs = calibration("their-board")
    more = replace(theirs, file_request_bytes=Constant(65536.0, 65536.0, 65536.0, "bytes", 3))
    environment = {"ram_bytes": 2**30, "cpu_cores": 2}
    file = tmp_path / "their-board.toml"
    file.write_text(board_text(replace(more, environment=environment)))
    found = device_of_board(str(file), calibration()).calibration.file_request_bytes
    assert found is not None
    assert found.value == 65536


def test_zram_does_not_get_the_speed_of_a_card():
    """Swap in memory keeps this machine's constants; files get the board's."""
    here = calibration(swap_kind="zram")
    there = device_of_board("raspberry-pi-4-4g", here).calibration
    assert there.swap_in_bytes_per_s == here.swap_in_bytes_per_s
    assert there.fault_s == here.fault_s
    assert there.file_read_bytes_per_s.value == 50e6


def test_a_speed_declared_here_is_not_the_boards():
    """Constants of trials whose storage was held are those of the disk, not of the holding."""
    here = calibration().held_to(StorageSpeed(read_bps=20_000_000))
    assert here.held is not None
    assert device_of_board("rock-5b-4g", here).calibration.held is None


@pytest.mark.heavy
def test_nothing_was_run_there_and_that_is_said(root: Path):
    """The board's memory is the limit; the answer says where each constant is from."""
    words = ("resnet18", "--schedule", "bulk", "--on", "raspberry-pi-zero-2w")
    told = " ".join(run(predict, "--results", root, *words).split())
    left = find_board("raspberry-pi-zero-2w").left_bytes
    assert f"with {left >> 20}.0 MiB takes" in told
    assert "constants of raspberry-pi-zero-2w, where nothing was run" in told
    assert "its storage as read=25MB/s" in told
    assert "2 times as wide" in told


def test_what_can_not_be_asked_says_why(root: Path, tmp_path: Path):
    """Both at once, no file, no constants in it, no such board, no calibration here."""
    both = said(predict, "--results", root, "--on", "jetson-nano-4g", "--constants", "x.json")
    assert "give either --on or --constants" in both
    here = calibration()
    with pytest.raises(ResultsError, match="can't be read"):
        device_of_file(tmp_path / "none.json", here)
    (tmp_path / "no.json").write_text("[1]")
    with pytest.raises(ResultsError, match="no constants: no JSON"):
        device_of_file(tmp_path / "no.json", here)
    with pytest.raises(UsageError, match="did you mean"):
        device_of_board("jetson-nano", here)
    with pytest.raises(ResultsError, match="edgebench calibrate"):
        device_of_board("jetson-nano-4g", None)
    wrong = 'schema = 1\ntitle = "Made"\nram = "1GiB"\ncores = 1\n[constants]\nspeed = 3\n'
    (tmp_path / "made.toml").write_text(wrong)
    with pytest.raises(UsageError, match="no constant 'speed'"):
        device_of_file(tmp_path / "made.toml", here)


def _times(one: Constant, factor: float) -> Constant:
    return replace(one, value=one.value * factor)
