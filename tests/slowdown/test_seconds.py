"""Both formulas, the miss curve and storage costs, in seconds that are worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from made_workloads import COSTS, MIB, WEIGHTS, calibration, constant, rows

from edgebench.boards import parse_storage
from edgebench.results.miss_curve import MissCurve as Counted
from edgebench.results.miss_curve import MissPoint
from edgebench.slowdown.computed import counted_curve, layers_of
from edgebench.slowdown.seconds import (
    Round,
    Source,
    Workload,
    cyclic_curve,
    start_s,
    steady_s,
    storage_costs,
    unlimited_elsewhere_s,
)


def workload(schedule: str = "bulk", loader: str = "copy", passes: int = 3) -> Workload:
    """Return a network of 300 MiB of weights."""
    return Workload("net", layers_of(rows(*WEIGHTS)), schedule, loader, passes)


def a_round(one: Workload) -> Round:
    """Return its round of 4 s; it needs 410 MiB beside a runtime of 80."""
    return Round(one, 4.0, 410.0 * MIB, 80.0 * MIB)


def at(*mib: float) -> np.ndarray:
    return np.array(mib) * MIB


@pytest.mark.parametrize(
    ("loader", "again"), [("copy", 3 * 300), ("mmap", 2 * 300)], ids=["copy", "mmap"]
)
def test_below_what_it_uses_each_pass_reads_all_weights_again(loader: str, again: int) -> None:
    """410 MiB but 60 idle ones: nothing from 350 up, all at 0.88 of that; mapped ones once less."""
    found = cyclic_curve(workload(loader=loader), 410.0 * MIB, 60.0 * MIB)
    assert found.source is Source.LAYER_TABLE
    assert found.bytes_at(at(100, 308, 350, 500)) / MIB == pytest.approx([again, again, 0, 0])
    half = np.exp((np.log(308) + np.log(350)) / 2)
    assert found.bytes_at(at(half))[0] / MIB == pytest.approx(again / 2)


def test_a_working_set_is_what_it_uses() -> None:
    """370 MiB that were counted, whatever the table says."""
    found = cyclic_curve(workload(), 410.0 * MIB, 60.0 * MIB, 370.0 * MIB)
    assert found.source is Source.WORKING_SET
    assert found.bytes_at(at(325, 371)) / MIB == pytest.approx([900, 0])


def test_counted_bytes_are_those_of_one_way() -> None:
    points = (MissPoint(100 * MIB, "down", 300 * MIB, faults=70), MissPoint(100 * MIB, "up", MIB))
    key: Any = None
    found = counted_curve(Counted(key, points, direction="down"), 400.0 * MIB)
    assert found is not None
    assert (found.source, found.tightest_bytes) == (Source.COUNTED, 100 * MIB)
    assert found.bytes_at(at(90, 200, 400)) / MIB == pytest.approx([300, 150, 0])
    assert found.faults_at(at(200))[0] == pytest.approx(35)


def test_as_is_what_is_read_again_is_added() -> None:
    """900 MiB at 50 MiB/s are 18 s; mapped, 600 at 400 MiB/s are 1.5."""
    for loader, seconds in (("copy", 22.0), ("mmap", 5.5)):
        one = a_round(workload(loader=loader))
        misses = cyclic_curve(one.workload, one.needs_bytes, 60.0 * MIB)
        assert steady_s(one, misses, COSTS, at(300, 360)) == pytest.approx([seconds, 4.0])


def test_a_held_disk_reads_on_while_the_network_computes() -> None:
    """At 100 MiB/s loading takes 3 of 4 s, so that 1 s is computed; it hides half at most."""
    held = replace(COSTS, held_swap_s=1 / (25 * MIB), held_file_s=1 / (100 * MIB))
    one = a_round(workload())
    misses = cyclic_curve(one.workload, one.needs_bytes, 60.0 * MIB)
    near = np.exp(np.log(350) + np.log(308 / 350) * 0.04)
    # 36 s but the one that is computed; of 1.44 s half.
    assert steady_s(one, misses, held, at(300, near)) == pytest.approx([39.0, 4.72])


def test_faults_of_a_held_disk_are_waited_for() -> None:
    """5,000 of 1 ms beside half of the reading."""
    held = replace(COSTS, held_swap_s=1 / (25 * MIB), fault_s=1e-3)
    one = a_round(workload())
    misses = replace(cyclic_curve(one.workload, 410.0 * MIB, 60.0 * MIB), faults=np.full(2, 5000.0))
    assert steady_s(one, misses, held, at(360)) == pytest.approx([9.0])


@pytest.mark.parametrize(
    ("limit", "seconds"),
    [
        # Runtime 80, new 330, cache 16: 426. With 420 MiB 6 are written out, and 2.7 MB return.
        (420, 4 + 6 / 200 + 2.7e6 / MIB / 50),
        # Below 346 what is loaded doesn't fit: 3 passes of 330 MiB, and all 410 are written.
        (300, 4 + (990 + 2.7e6 / MIB) / 50 + 410 / 200),
        (430, 4.0),
    ],
)
def test_a_start_writes_the_runtime_out_and_reads_what_lacks_again(
    limit: float, seconds: float
) -> None:
    assert start_s(a_round(workload()), COSTS, limit * MIB) == pytest.approx(seconds)


def test_a_start_of_mapped_weights_reads_them_again_in_later_passes() -> None:
    """Beside 110 MiB weights fit from 410 up; else 2 passes read 300 MiB at 400 MiB/s."""
    one = a_round(workload(loader="mmap"))
    free, tight = (start_s(one, COSTS, mib * MIB) for mib in (411.0, 120.0))
    assert free == pytest.approx(4.0)
    # 80 + 30 + 16 - 120 = 6 MiB of the runtime are written.
    assert tight == pytest.approx(4 + 600 / 400 + 6 / 200 + 2.7e6 / MIB / 50)


def test_a_start_layer_by_layer_reads_the_layers_that_do_not_fit() -> None:
    """Beside 110 + 16 MiB a layer of 220 doesn't fit in 300, those of 30 and 50 do."""
    one = a_round(workload("linear", passes=1))
    found = start_s(one, COSTS, 300.0 * MIB)
    assert found == pytest.approx(4 + (220 + 2.7e6 / MIB) / 50 + 410 / 200)


def test_what_a_round_reads_without_a_limit_takes_the_time_of_the_storage() -> None:
    """200 MiB: 0.25 s here, 2 s there; what a held disk saved up, another does not."""
    one = a_round(workload())
    slow = replace(COSTS, file_s=1 / (100 * MIB))
    read = 200.0 * MIB
    assert unlimited_elsewhere_s(one, read, 0.25, COSTS, slow) == pytest.approx(5.75)
    assert unlimited_elsewhere_s(one, read, 0.25, COSTS, COSTS) == pytest.approx(4.0)
    held = replace(slow, held_file_s=slow.file_s)
    # It reads in 0.5 s what takes 2: a disk that nothing holds saved nothing up.
    assert unlimited_elsewhere_s(one, read, 0.5, held, slow) == pytest.approx(5.5)
    assert unlimited_elsewhere_s(one, read, 0.5, held, held) == pytest.approx(4.0)


def test_costs_of_a_calibration() -> None:
    known = calibration(fault_s=constant(1e-3))
    one, two = storage_costs(known, 1), storage_costs(known, 2)
    assert (one.fault_bytes, two.fault_bytes) == (32768, 16384)
    assert one.again_s(False) == pytest.approx(1 / (50 * MIB) + 1e-3 / 32768)
    assert one.again_s(True) == pytest.approx(1 / (400 * MIB) + 1e-3 / 131072)
    zram = storage_costs(replace(known, swap_kind="zram"), 1)
    assert zram.again_s(False) == pytest.approx(one.again_s(False) + 1 / (200 * MIB))
    held = storage_costs(known.held_to(parse_storage("read=5MB/s")), 1)
    assert held.held
    assert held.again_s(False) == held.again_s(True) == held.file_s == pytest.approx(2e-7)
    fast = storage_costs(known.held_to(parse_storage("read=100GB/s")), 1)
    assert fast.again_s(False) == one.again_s(False)


def test_a_slowed_visit_corrects_what_scans_say() -> None:
    """It took 1.5 times as long as the scans say."""
    seen = storage_costs(calibration(seen_share=constant(1.5)), 1)
    assert seen.again_s(False) == pytest.approx(1.5 / (50 * MIB))
