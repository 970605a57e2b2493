"""What a calibration runs, with and without swap, and what a slowed network tells."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_sweep import Shape, make
from verb_making import calibration

from edgebench.errors import MachineError
from edgebench.results.results import load
from edgebench.run import calibration as module
from edgebench.run.calibration import (
    FILE_BYTES,
    CalibrationOptions,
    calibration_points,
    with_slowed_visit,
)
from edgebench.run.trial.controllers import ROOM
from edgebench.scenario.points import Point
from edgebench.slowdown.calibration import FITS, WIDE
from edgebench.slowdown.curves import curves

MIB = 1 << 20
FILE = Path("scan.bin")
SWAPS = ("file", "zram", "none")


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
