"""Seconds on another storage from the bytes that rounds were counted to read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_sweep import make
from verb_making import SHAPE, calibration, run

from edgebench.cli.predict import predict
from edgebench.results.miss_curve import MissCurve, MissPoint
from edgebench.results.results import Results, load
from edgebench.results.workload_key import WorkloadKey, workloads_of
from edgebench.slowdown import prediction_source
from edgebench.slowdown.calibration.device import save_calibration
from edgebench.slowdown.counted import (
    CountedRound,
    StorageCosts,
    counted_models,
    counted_rounds,
    storage_costs,
)
from edgebench.slowdown.curves import Curve

MIB = 1 << 20
#: A second for 100 MiB, and for 50.
FAST, SLOW = (StorageCosts(1 / size, 1 / size, 1 / size) for size in (100 * MIB, 50 * MIB))
NONE = np.empty(0)


def points(reads: dict[int, int]) -> tuple[MissPoint, ...]:
    """Limits in MiB → MiB that a round reads again on the way down."""
    return tuple(MissPoint(at * MIB, "down", read * MIB) for at, read in sorted(reads.items()))


def misses(reads: dict[int, int], unlimited_mib: int = 0) -> MissCurve:
    """A walk's curve."""
    workload: Any = None
    return MissCurve(workload, points(reads), direction="down", unlimited_bytes=unlimited_mib * MIB)


def curve(seconds: dict[int, float], network: str = "net", threads: int = 1, **about: Any) -> Curve:
    """A steady round of 2 s that takes these seconds at limits in MiB."""
    limits = np.array(sorted(seconds), dtype=float)
    settings = {"kind": "inference", "schedule": "bulk", "loader": "copy", "threads": threads}
    settings |= {"pipeline": network, **about}
    took = np.array([seconds[int(at)] for at in limits])
    return Curve(network, "total", settings, limits * MIB, took, np.array([2.0]), 400.0 * MIB)


def of(one: Curve, reads: dict[int, int], computing_s: float = 1.0) -> CountedRound:
    """With what was counted."""
    return CountedRound(one, misses(reads), computing_s, least_s=2.0)


def seconds_at(made: Any, one: Curve, limit_mib: float) -> float:
    """As predicted."""
    found = made[one.key].predict(one, np.array([limit_mib * MIB]))
    return float(found.slowdown[0] * found.unlimited_s)


def test_bytes_take_the_time_of_the_storage_and_reading_overlaps_with_computing() -> None:
    """300 MiB take 3 s, of which computing hides one; of 0.5 s it hides half."""
    one = curve({100: 4.0, 200: 2.0})
    rounds = [of(one, {100: 300, 200: 50})]
    here, there = (counted_models(rounds, FAST, costs) for costs in (FAST, SLOW))
    assert seconds_at(here, one, 100) == pytest.approx(4.0)
    assert seconds_at(here, one, 200) == pytest.approx(2.25)
    assert seconds_at(there, one, 100) == pytest.approx(7.0)
    zram = replace(SLOW, waits=False)
    assert seconds_at(counted_models(rounds, FAST, zram), one, 100) == pytest.approx(8.0)


def test_what_a_round_reads_without_a_limit_takes_the_time_of_the_storage_too() -> None:
    """100 MiB of cold weights: a second longer where a byte takes twice as long."""
    one = curve({100: 4.0})
    cold = CountedRound(one, misses({100: 300}, unlimited_mib=100), 1.0, least_s=1.9)
    assert cold.unlimited_s(FAST, SLOW) == pytest.approx(3.0)
    assert cold.unlimited_s(FAST, FAST) == 2.0


def test_no_storage_makes_shorter_what_is_computed() -> None:
    """Of 2 s it computes 1.5 s, which hide all reading where a byte takes half as long."""
    cold = CountedRound(curve({100: 4.0}), misses({100: 300}, unlimited_mib=100), 1.0, least_s=1.5)
    assert cold.unlimited_s(SLOW, FAST) == 1.5
    assert cold.unlimited_s(SLOW, SLOW) == 2.0


def test_what_a_held_disk_saves_up_no_other_disk_has() -> None:
    """It read 100 MiB in 0.9 s of 1; a disk that nothing holds takes 1 s."""
    cold = CountedRound(curve({100: 4.0}), misses({100: 300}, unlimited_mib=100), 1.0, least_s=1.1)
    held = replace(FAST, held=True)
    assert cold.unlimited_s(held, replace(SLOW, held=True)) == pytest.approx(3.0)
    assert cold.unlimited_s(held, FAST) == pytest.approx(2.1)
    assert cold.unlimited_s(FAST, FAST) == pytest.approx(2.0)


def test_faults_are_waited_for_where_little_is_read() -> None:
    """1,000 of 1 ms beside 50 MiB, half of which computing hides; where 300 MiB are read, none."""
    one = curve({100: 4.0, 200: 2.0})
    counted = misses({100: 300, 200: 50})
    faulted = replace(
        counted, points=tuple(replace(point, faults=1000) for point in counted.points)
    )
    made = counted_models([CountedRound(one, faulted, 1.0, 2.0)], FAST, replace(FAST, fault_s=1e-3))
    assert seconds_at(made, one, 200) == pytest.approx(2.0 + 0.25 + 1.0)
    made = counted_models([CountedRound(one, faulted, 1.0, 2.0)], FAST, replace(FAST, fault_s=1e-4))
    assert seconds_at(made, one, 100) == pytest.approx(4.0)


def test_directions_are_not_mixed() -> None:
    """What the way up read tells nothing of the way down."""
    both = replace(
        misses({100: 300}), points=(*points({100: 300}), MissPoint(100 * MIB, "up", 9 * MIB))
    )
    read = CountedRound(curve({100: 4.0}), both, 1.0, 2.0).again_bytes(np.array([100.0 * MIB]))
    assert read.tolist() == [300 * MIB]


def test_threads_have_a_factor_that_a_slowed_round_shows() -> None:
    """Three times the added time; one that was never slowed has the others' factor."""
    slowed, free = curve({100: 8.0}, "a", 2), curve({300: 2.0}, "b", 2)
    rounds = [of(slowed, {100: 300}), of(free, {100: 300, 300: 0})]
    made = counted_models(rounds, FAST, SLOW)
    assert made[slowed.key].factor == made[free.key].factor == pytest.approx(3.0)
    assert seconds_at(made, free, 100) == pytest.approx(2.0 + 3 * 5.0)


def test_only_rounds_in_order_are_counted() -> None:
    """Where loads overlap with executions, and where no first execution is known, none is."""
    one = replace(curve({100: 4.0}), workload="w")
    first = replace(one, phase="first", limit_bytes=NONE, seconds=NONE)
    known = {"w": misses({100: 300})}
    (found,) = counted_rounds([first, one], known)
    assert found.computing_s == found.least_s == 2.0
    assert counted_rounds([one], known) == []
    overlapping = [replace(c, settings={**c.settings, "schedule": "deepeye"}) for c in (first, one)]
    assert counted_rounds(overlapping, known) == []


def test_a_held_storage_takes_what_its_speed_says_and_zram_does_not_wait() -> None:
    """A byte at 5 MB/s; in zram one is written in its place, too."""
    from edgebench.boards.storage import parse_storage

    held = storage_costs(calibration().held_to(parse_storage("read=5MB/s")))
    assert held.again_s("copy") == held.again_s("mmap") == held.file_s == pytest.approx(2e-7)
    zram = storage_costs(replace(calibration(), swap_kind="zram"))
    assert not zram.waits
    assert zram.swap_s > storage_costs(calibration()).swap_s


@pytest.mark.heavy
def test_another_storage_is_answered_from_counted_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``predict --storage`` says where it has it from; uncounted it is simulated."""
    make(tmp_path, SHAPE)
    save_calibration(calibration(), tmp_path)
    asked = ("alexnet", "--results", str(tmp_path), "--schedule", "bulk", "--memory", "60M")
    assert "simulated at storage read=5MB/s" in run(predict, *asked, "--storage", "read=5MB/s")

    def counted(results: Results) -> dict[str, MissCurve]:
        keys: list[WorkloadKey] = workloads_of(results.sweeps[0].columns)[1]
        return {key.id: misses({60: 200, 400: 0}) for key in keys}

    monkeypatch.setattr(prediction_source, "counted_by_workload", counted)
    slow, fast = (
        run(predict, *asked, "--storage", f"read={speed}MB/s", "--json") for speed in (5, 50)
    )
    told = run(predict, *asked, "--storage", "read=5MB/s")
    assert "from bytes counted in its rounds, at storage read=5MB/s" in " ".join(told.split())
    assert "measured on another storage; other limits by model counted" in " ".join(told.split())
    assert '"kind": "counted"' in slow
    assert slow != fast
    assert "extrapolated" not in told
    tighter = run(predict, *asked[:-1], "40M", "--storage", "read=5MB/s")
    assert "extrapolated" in tighter
    assert load(tmp_path).sweeps
