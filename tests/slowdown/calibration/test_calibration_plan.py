"""What a calibration runs, with and without swap, and what it says of a noisy machine."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any

import pytest
from calibration_making import constant

from edgebench.boards.storage import AS_IS
from edgebench.records import TrialRecord
from edgebench.run.calibration import scans_of
from edgebench.run.calibration_points import (
    FILE_BYTES,
    LIMIT_BYTES,
    CalibrationPlan,
    ScannedDisks,
)
from edgebench.run.launch import KINDS
from edgebench.run.limit_control import ROOM
from edgebench.run.storage import StoragePlaces
from edgebench.scenario.points import Point
from edgebench.slowdown.calibration.device import (
    Constant,
)
from edgebench.slowdown.calibration.scans import FITS, WIDE, Scan
from edgebench.slowdown.calibration.warnings import (
    calibration_noise_warnings,
    constant_spread_warnings,
    other_swap_warnings,
)
from edgebench.workloads.scan import PASSES

MIB = 1 << 20
FILE = Path("scan.bin")
DISKS = ScannedDisks("254:0", "254:0", ("read=100MB/s", "read_iops=20000"))
PLANS = {kind: CalibrationPlan(kind, 1 << 30, FILE, DISKS) for kind in ("file", "zram")}
PLANS["none"] = CalibrationPlan("none", None, FILE)


def points(swap: str, block: int = 0) -> dict[str, Point]:
    """A block's points by their id."""
    return {point.id: point for point in PLANS[swap].points(block)}


def areas(swap: str, block: int = 0) -> dict[tuple[str, float], dict[str, Any]]:
    """What a block's scan covers: memory or file, and its size; the rest of it."""
    found = points(swap, block)["scans"].settings["areas"]
    return {(area["of"], area["planned_share"]): area for area in found}


def test_with_swap_both_memory_and_a_file_are_scanned():
    """In one trial: anonymous memory at every size, a file at both ends; the runtime in another."""
    held = [f"anon-{speed}" for speed in DISKS.speeds]
    assert {*points("file")} == {"scans", "hot-base", *held}
    anon = [("anon", share) for share in (FITS, 1.1, 1.25, 1.5, WIDE)]
    assert {*areas("file")} == {*anon, ("file", FITS), ("file", WIDE)}
    hot_base = points("file")["hot-base"]
    assert hot_base.limits.memory_bytes is None
    assert hot_base.settings[ROOM] == 0
    assert hot_base.settings["area"]["size_bytes"] is None
    assert hot_base.settings["area"]["planned_share"] > 1


def test_without_swap_files_are_scanned_beyond_the_limit():
    """Anonymous memory is only touched where it fits; files take every size."""
    found = areas("none")
    assert [share for of, share in found if of == "anon"] == [FITS]
    assert len([share for of, share in found if of == "file"]) == 5
    hot_base = points("none")["hot-base"].settings
    assert hot_base["area"]["file"] == str(FILE)
    assert 0 < hot_base[ROOM] < hot_base["area"]["size_bytes"] <= FILE_BYTES


@pytest.mark.parametrize("swap", PLANS)
def test_what_repeats_well_is_measured_in_the_first_blocks_alone(swap: str):
    """Declared speeds and the runtime in one, sizes between in two, both ends in all."""
    ids = [{*points(swap, block)} for block in range(3)]
    assert "hot-base" in ids[0]
    assert ids[1] == ids[2] == {"scans"}
    assert {*areas(swap, 1)} == {*areas(swap)}
    ends = {at for at in areas(swap) if at[1] in (FITS, WIDE)}
    assert {*areas(swap, 2)} == ends
    assert len(ends) < len(areas(swap))


def test_each_block_has_an_order_of_its_own():
    """Of points and of areas; the same in every calibration."""
    orders = [[*areas("file", block)] for block in range(2)]
    assert orders[0] != orders[1]
    assert orders == [[*areas("file", block)] for block in range(2)]


def test_only_scans_below_a_declared_speed_have_one():
    """The constants come from the storage as it is, and the disk that is held has a file on it."""
    storages = {point.id: point.limits.storage for point in PLANS["file"].points(0)}
    assert storages == {
        "scans": AS_IS,
        "hot-base": AS_IS,
        **{f"anon-{speed}": speed for speed in DISKS.speeds},
    }
    plan = CalibrationPlan("zram", 1 << 30, FILE, ScannedDisks(None, "254:0", ("read=50MB/s",)))
    held = next(point for point in plan.points(0) if point.id == "file-read=50MB/s")
    assert held.limits.storage == "read=50MB/s"
    assert StoragePlaces.of(held.settings, {}).needed == (FILE,)


def test_each_pass_keeps_the_storage_that_it_was_made_at():
    """What a calibration's file says of a scan is the trial's own storage, not the machine's."""
    held = points("file")["anon-read=100MB/s"]
    size = held.settings["areas"][0]["size_bytes"]
    made = {"of": "anon", "planned_share": 1.25, "what": "read", "number": 1, "size_bytes": size}
    made |= {"resident_bytes": 1, "touched_bytes": size, "seconds": 0.3, "in_bytes": size}
    made |= {"out_bytes": 0, "major_faults": 7, "requests": 9}
    about = {"outcome": "ok", "started_utc": "", "notes": {"passes": [made]}}
    record = TrialRecord("0003", held.id, 1, 1, dict(held.settings), held.limits, **about)
    (scan,) = scans_of(record)
    assert (scan.trial, scan.block, scan.storage) == ("0003", 1, "read=100MB/s")
    assert (scan.of, scan.planned_share, scan.requests) == ("anon", 1.25, 9)


@pytest.mark.parametrize("swap", PLANS)
def test_every_pass_and_kind_is_known_and_every_size_whole(swap: str):
    """The worker knows each pass; sizes are whole pages, below the limit where they must fit."""
    for point in PLANS[swap].points(0):
        assert point.settings["kind"] in KINDS
        for area in point.settings.get("areas", ()):
            assert set(area["passes"]) <= set(PASSES)
            assert area["size_bytes"] % mmap.PAGESIZE == 0
            if area["planned_share"] == FITS:
                assert area["size_bytes"] < LIMIT_BYTES


def test_without_swap_the_program_has_room_beside_what_it_scans():
    """Nothing of it can be swapped: an interpreter and what it copies with hold 11 MiB and more."""
    limit = {swap: points(swap)["scans"].limits.memory_bytes for swap in PLANS}
    assert limit["file"] == limit["zram"] == LIMIT_BYTES
    assert limit["none"] is not None
    (memory,) = (area for (of, _), area in areas("none").items() if of == "anon")
    assert limit["none"] - memory["size_bytes"] > 16 * MIB


def test_shares_of_a_scan():
    """A scan's share is of what was left to it; where all fits, as planned."""
    sizes = (200, 100, 200, 0.1, 150, 0, 3)
    assert Scan("0", 0, "anon", WIDE, "read", 0, *sizes).share == 2.0
    assert Scan("0", 0, "anon", WIDE, "read", 0, *sizes).miss_share == 0.75
    assert Scan("0", 0, "anon", FITS, "read", 0, 75, 75, 75, 0.1, 0, 0, 0).share == 0.75


def test_a_noisy_machine_is_told_with_numbers():
    """The medians of the trials' noise, and the events, are in the words."""
    busy = {"foreign_cpu_share": 0.4, "steal_share": 0.1, "throttled_events": 2}
    told = calibration_noise_warnings([busy, busy, {"foreign_cpu_share": None}])
    assert [word in " ".join(told) for word in ("40%", "10%", "4 events")] == [True] * 3
    assert calibration_noise_warnings([{"foreign_cpu_share": 0.01, "steal_share": 0.0}]) == []


def test_a_wide_spread_is_told_of_times_only():
    """Rates and times that differ by half between repeats are named; counts are not."""
    wide = Constant(1.0, 0.6, 1.4, "s", 5)
    pages = Constant(10.0, 1.0, 30.0, "pages", 5)
    (told,) = constant_spread_warnings({"fault_s": wide, "pages_per_fault": pages, "swap_in": None})
    assert "fault_s" in told
    assert "0.6 to 1.4" in told
    assert constant_spread_warnings({"fault_s": constant(1.0, "s")}) == []


def test_other_swap_is_named():
    """Which device, how large, and what to type."""
    (told,) = other_swap_warnings({"/dev/zram0": 1 << 30})
    assert "/dev/zram0, 1.00 GiB" in told
    assert "swapoff /dev/zram0" in told
