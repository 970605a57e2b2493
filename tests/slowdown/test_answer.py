"""One answer about a workload at a limit: its source, its bounds, and the wrong answers seen."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from made_workloads import MIB, calibration, constant, curve, device

from edgebench.boards import parse_storage
from edgebench.results.miss_curve import MissCurve as Counted
from edgebench.results.miss_curve import MissPoint
from edgebench.results.times import Ratio, Spread
from edgebench.slowdown.answer import (
    Answer,
    MeasuredLimit,
    PhaseTime,
    WorkloadAnswers,
    killed_for_memory,
)
from edgebench.slowdown.computed import Computed, ComputedPhase, Room
from edgebench.slowdown.curves import CannotPredictError, Curve
from edgebench.slowdown.prediction import Predictor, QueriedWorkload
from edgebench.slowdown.seconds import Source

#: Limits in MiB, with finished trials, all trials and the slowdown.
TRIED: dict[float, tuple[int, int, float]] = {
    40: (0, 2, math.nan),
    50: (1, 2, 26.0),
    60: (3, 3, 1.43),
    80: (3, 3, 1.01),
}


def measured() -> list[MeasuredLimit]:
    found = [
        MeasuredLimit(
            label=f"{size:g}%",
            limit_bytes=size * MIB,
            finished=ok,
            ended=ended,
            lost="oom-killed" if ok < ended else "",
            times_s={"total": Spread(s, s * 0.9, s * 1.1, ok)} if ok else {},
            ratios={"total": Ratio(s, s * 0.9, s * 1.1)} if ok else {},
        )
        for size, (ok, ended, s) in TRIED.items()
    ]
    return [*found, MeasuredLimit("max", math.inf, 3, 3)]


def not_computed(curve: Curve) -> ComputedPhase:
    raise CannotPredictError("not computed")


def answers(room: Room | None = None) -> WorkloadAnswers:
    """Return those of a workload that needs 100 MiB and takes a second."""
    tried = {50: 26.0, 60: 1.43, 80: 1.01}
    made = curve(tried, loader="mmap")
    asked = replace(made, demand_bytes=100.0 * MIB, unlimited_seconds=np.ones(3))
    return WorkloadAnswers((asked,), measured(), 100.0 * MIB, room, not_computed)


def total_of(found: Answer) -> PhaseTime:
    total = found.phase("total")
    assert total
    return total


def answer(size: float, label: str = "") -> Answer:
    return answers().at(size * MIB, label)


@pytest.mark.parametrize(("size", "slowdown"), [(50, 26.0), (60.1, 1.43), (80, 1.01)])
def test_what_was_measured_is_not_predicted(size: float, slowdown: float) -> None:
    found = answer(size)
    total = total_of(found)
    assert (found.source, total.slowdown) == (Source.MEASURED, slowdown)
    assert total.slowdown_high == pytest.approx(slowdown * 1.1)
    assert found.finished == TRIED[round(size)][0]


def test_a_share_of_demand_is_the_limit_with_that_label() -> None:
    """Demand differs between trials: the label tells what was meant."""
    assert answer(62, label="60%").limit_bytes == 60 * MIB


def test_a_measured_kill_is_no_finish() -> None:
    """Nothing finished there: no time. Half of the trials did: their time."""
    killed = answer(40)
    assert (killed.outcome, killed.viable, killed.phases) == ("oom-killed", False, ())
    assert answer(50).viable


def test_repeats_are_the_interval_where_no_ratio_is_known() -> None:
    """4.8 to 7.2 s over 2 s; one trial has none."""
    made = answers()
    made._curves = (replace(made._curves[0], unlimited_seconds=np.array([2.0, 2.6, 1.9])),)
    bare = replace(made._limited[2], ratios={}, times_s={"total": Spread(6.0, 4.8, 7.2, 3)})
    once = replace(made._limited[3], ratios={}, times_s={"total": Spread(6.0, 6.0, 6.0, 1)})
    made._limited[2:] = [bare, once]
    time, alone = (total_of(made.at(size * MIB)) for size in (60, 80))
    ends = (time.low_s, time.high_s, time.slowdown_low, time.slowdown_high)
    assert (time.seconds, time.slowdown, *ends) == pytest.approx((6.0, 3.0, 4.8, 7.2, 2.4, 3.6))
    assert (alone.low_s, alone.high_s, alone.slowdown_low, alone.slowdown_high) == (None,) * 4


def test_kills_are_for_memory_below_the_tightest_limit_that_finished() -> None:
    """60 and 95 MiB finish: a kill at 70 or 90 had another cause, as a timeout at 40 has."""
    ends = {30: "oom-killed", 40: "timeout", 60: "", 70: "oom-killed", 90: "oom-killed", 95: ""}
    limits = [MeasuredLimit("", at * MIB, int(not end), 1, end) for at, end in ends.items()]
    assert [one.limit_bytes / MIB for one in killed_for_memory(limits)] == [30]


def test_at_a_cliff_without_points_the_answer_is_both_sides() -> None:
    """1.43 or 26 times, between 50 and 60 MiB: no middle that no trial would take."""
    found = answer(55)
    total = total_of(found)
    assert (found.source, found.tighter_bytes, found.wider_bytes) == (
        *(Source.BETWEEN, 50 * MIB, 60 * MIB),
    )
    assert total.slowdown is None
    assert (total.slowdown_low, total.slowdown_high) == (1.43, 26.0)


def test_between_limits_that_are_alike_the_neighbours_bound() -> None:
    found = answer(70)
    total = total_of(found)
    assert total.slowdown is not None
    assert found.source is Source.BETWEEN
    assert 1.01 < total.slowdown < 1.43
    assert total.slowdown_low == pytest.approx(1.01 * 0.9)
    assert total.slowdown_high == pytest.approx(1.43 * 1.1)


def test_above_all_that_a_free_trial_used_nothing_is_slower() -> None:
    """A limit that is never met slows nothing."""
    made = answers()
    made._measured[-1] = replace(made._measured[-1], peak_bytes=131 * MIB)  # type: ignore[index]
    total = total_of(made.at(132 * MIB))
    assert (total.seconds, total.slowdown) == (1.0, 1.0)


def test_below_the_tightest_limit_seconds_are_a_lower_bound() -> None:
    tight = answers(Room(30.0 * MIB, 0.0, 0.03))
    tight._limited[:] = [one for one in tight._limited if one.finished]
    tight._measured = [one for one in tight._measured if one.finished]
    found = tight.at(45 * MIB)
    total = total_of(found)
    assert (total.at_least, total.seconds, found.outcome) == (True, 26.0, "ok")


def test_a_measured_kill_is_never_called_safe() -> None:
    roomy = answers(Room(10.0 * MIB, 0.0, 0.03))
    assert roomy.at(39 * MIB).outcome == "oom-killed"
    assert answers(Room(400.0 * MIB, 0.0, 0.03)).at(65 * MIB).outcome == "ok"


def predict(asked: Curve, *limits: str, **about: Any) -> Any:
    return Predictor(device(asked), **about).predict(QueriedWorkload((asked,)), limits)


def test_never_run_below_a_limit_is_told_from_its_table() -> None:
    """Below 308 MiB 900 MiB are read again in 18 s; above 350 nothing, in a narrow interval."""
    found = predict(curve({}), "300M", "900M")
    slow, free = (at.phase("total") for at in found.at)
    assert {at.source for at in found.at} == {Source.LAYER_TABLE}
    assert slow.seconds == pytest.approx(22.0)
    assert slow.low_s < 15 < 22 < 30 < slow.high_s
    assert free.seconds == pytest.approx(4.0)
    assert free.high_s / free.low_s < 1.5


def test_layers_share_the_added_time_by_their_bytes() -> None:
    """18 s: 220, 50 and 30 of 300 MiB; where nothing is added there are none."""
    found = predict(curve({}), "300M", "400M")
    layers = found.at[0].layers
    assert [(one.name, round(one.added_s, 2)) for one in layers] == [
        *[("layer.2", 13.2), ("layer.1", 3.0), ("layer.0", 1.8)]
    ]
    assert found.at[1].layers == ()


def test_a_working_set_goes_before_the_table() -> None:
    """One that was counted says 300 MiB, where the table says 350."""
    asked = replace(curve({}), working_set_bytes=300.0 * MIB)
    found = predict(asked, "310M")
    assert (found.at[0].source, found.at[0].phase("total").seconds) == (Source.WORKING_SET, 4.0)


def counted(reads: dict[int, int]) -> dict[str, Counted]:
    key: Any = None
    points = tuple(MissPoint(at * MIB, "down", read * MIB) for at, read in reads.items())
    return {"w": Counted(key, points, direction="down")}


def test_counted_bytes_tell_of_another_storage() -> None:
    """700 MiB at 20 MB/s; below the tightest limit that was counted it is a lower bound."""
    asked = curve({100: 18.0})
    known = calibration().held_to(parse_storage("read=20MB/s"))
    there = replace(device(), calibration=known)
    found = predict(asked, "100M", "90M", counted=counted({100: 700, 350: 0}), there=there)
    at, tighter = found.at
    read_s = 700 * MIB / 20e6
    assert at.source is Source.COUNTED
    # Loading 300 MiB at that speed takes longer than the round computes.
    assert at.phase("total").seconds == pytest.approx(4.0 + read_s)
    assert not at.phase("total").at_least
    assert tighter.phase("total").at_least


def test_counted_bytes_tell_where_the_cliff_is() -> None:
    """Between 100 and 400 MiB nothing was timed, but at 200 MiB nothing is read again."""
    asked = curve({100: 22.0, 380: 4.0})
    times = {100: 22.0, 380: 4.0}
    spreads = {mib: {"total": Spread(s, s, s, 1)} for mib, s in times.items()}
    limits = [
        MeasuredLimit(f"{mib}M", mib * MIB, 1, 1, "", spreads[mib], {"total": Ratio(s / 4)})
        for mib, s in times.items()
    ]
    known = {("None", "w"): limits}
    said = counted({100: 900, 190: 0, 380: 0})
    found = predict(asked, "200M", counted=said, measured=known)
    assert (found.at[0].source, found.at[0].phase("total").slowdown) == (Source.COUNTED, 1.0)
    without = predict(asked, "200M", measured=known).at[0].phase("total")
    assert (without.slowdown, without.slowdown_low, without.slowdown_high) == (None, 1.0, 5.5)


def test_without_a_calibration_only_a_declared_speed_tells() -> None:
    assumed = calibration(fault_s=replace(constant(0.0), repeats=0))
    bare = replace(device(), calibration=assumed, base_bytes=80.0 * MIB)
    with pytest.raises(CannotPredictError, match="not calibrated"):
        Computed(bare).phase(curve({}))
    held = assumed.held_to(parse_storage("read=20MB/s"))
    slow = Computed(replace(bare, calibration=held)).phase(curve({}))
    assert slow.seconds(np.array([300.0 * MIB]))[0] > 40


def test_phases_of_a_round_are_told_where_they_were_measured() -> None:
    with pytest.raises(CannotPredictError, match="where it was measured"):
        Computed(device()).phase(curve({}, "load"))


def test_what_is_needed_must_fit_beside_the_swap() -> None:
    """410 MiB beside 20 of swap: 400 are too near to tell, 300 too little."""
    assert predict(curve({}), "400M").least_viable_bytes == 0
    tight = predict(curve({}, swap_bytes=20.0 * MIB), "400M", "300M")
    assert tight.least_viable_bytes == 390 * MIB
    assert [at.outcome for at in tight.at] == [None, "oom-killed"]
