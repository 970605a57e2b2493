"""What a calibration runs, with and without swap, and what it says of a noisy machine."""

from __future__ import annotations

import mmap
from pathlib import Path

from calibration_making import constant

from edgebench.run.calibration_points import FILE_BYTES, LIMIT_BYTES, scan_points
from edgebench.run.launch import KINDS
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


def test_with_swap_both_memory_and_a_file_are_scanned():
    """Anonymous memory at every size, a file at both ends, the runtime twice."""
    points = {point.id: point for point in scan_points("file", 1 << 30, FILE, 200 * MIB)}
    anon = ["anon-0.75", "anon-1.1", "anon-1.25", "anon-1.5", "anon-2"]
    assert list(points) == [*anon, "file-0.75", "file-2", "base", "pressed"]
    assert points["pressed"].limits.memory_bytes == 200 * MIB
    assert points["pressed"].settings["size_bytes"] > 200 * MIB
    assert points["base"].limits.memory_bytes is None


def test_without_swap_files_are_scanned_beyond_the_limit():
    """Anonymous memory is only touched where it fits; files take every size."""
    points = {point.id: point for point in scan_points("none", None, FILE, 200 * MIB)}
    assert [name for name in points if name.startswith("anon")] == ["anon-0.75"]
    assert len([name for name in points if name.startswith("file")]) == 5
    pressed = points["pressed"]
    assert pressed.settings["file"] == str(FILE)
    assert pressed.limits.memory_bytes is not None
    assert 200 * MIB < pressed.limits.memory_bytes < 200 * MIB + FILE_BYTES


def test_every_pass_and_kind_is_known_and_every_size_whole():
    """The worker knows each pass; sizes are whole pages, below the limit where they must fit."""
    for swap in ("none", "zram"):
        for point in scan_points(swap, None, FILE, 200 * MIB):
            assert point.settings["kind"] in KINDS
            if point.settings["kind"] == "scan":
                assert set(point.settings["passes"]) <= set(PASSES)
                assert point.settings["size_bytes"] % mmap.PAGESIZE == 0
                if point.settings["planned_share"] == FITS:
                    assert point.settings["size_bytes"] < LIMIT_BYTES


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
