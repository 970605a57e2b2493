"""One answer about a workload at a limit, from what was measured and a made-up model."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from curve_making import curve
from made_sweep import MIB

from edgebench.results.spread import Ratio, Spread
from edgebench.slowdown.answer import (
    Answer,
    AnswerDoubt,
    MeasuredLimit,
    WorkloadAnswers,
    killed_for_memory,
)
from edgebench.slowdown.curves import Curve
from edgebench.slowdown.models.base import CurvePrediction

#: Limits in MiB, with finished trials, all trials and the slowdown.
TRIED: dict[float, tuple[int, int, float]] = {
    40: (0, 2, math.nan),
    50: (1, 2, 26.0),
    60: (3, 3, 1.03),
    80: (3, 3, 1.01),
}


class Told:
    """A model of the same slowdown everywhere."""

    name = "told"

    def __init__(self, slowdown: float) -> None:
        self._slowdown = slowdown

    def check(self, limit_bytes: Any, name: str) -> None:
        """It holds at all limits."""

    def tells(self, curve: Curve) -> bool:
        """Every curve."""
        return True

    def predict(self, curve: Curve, limit_bytes: Any) -> CurvePrediction:
        """With a narrow interval."""
        found = np.full(len(limit_bytes), self._slowdown)
        return CurvePrediction(curve.unlimited_s, found, (found * 0.9, found * 1.1))


def measured() -> list[MeasuredLimit]:
    """The limits of :data:`TRIED`, and no limit."""
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


def answer(size: float, slowdown: float = 3.0, label: str = "") -> Answer:
    """That of a workload that needs 100 MiB."""
    asked = replace(
        curve(limits=(50.0, 60.0, 80.0)), demand_bytes=100.0 * MIB, unlimited_seconds=np.ones(3)
    )
    known: Any = Told(slowdown)
    answers = WorkloadAnswers(
        (asked,), measured(), 100.0 * MIB, None, lambda: known, lambda size: True
    )
    return answers.at(size * MIB, label)


@pytest.mark.parametrize(("size", "slowdown"), [(50, 26.0), (60.1, 1.03), (80, 1.01)])
def test_what_was_measured_is_not_predicted(size: float, slowdown: float):
    """Whatever the model says: the trials' median, how many finished, and their interval."""
    found = answer(size)
    total = found.phase("total")
    assert total is not None
    assert (found.kind, total.slowdown) == ("measured", slowdown)
    assert total.slowdown_high == pytest.approx(slowdown * 1.1)
    assert found.probability == found.finished / found.ended


def test_a_share_of_demand_is_the_limit_with_that_label():
    """Demand differs between trials: the label tells what was meant."""
    assert answer(62, label="60%").limit_bytes == 60 * MIB


def test_a_measured_kill_is_no_finish():
    """Nothing finished there: no time; half of the trials did: their time, and that kills vary."""
    killed, half = answer(40), answer(50)
    assert (killed.outcome, killed.viable, killed.phases) == ("oom-killed", False, ())
    assert half.viable
    assert AnswerDoubt.KILLS_VARY in half.doubts


@pytest.mark.parametrize(("told", "slowdown"), [(3.0, 3.0), (90.0, 26.0), (1.0, 1.03)])
def test_between_measured_limits_the_neighbours_bound(told: float, slowdown: float):
    """The time stays between theirs, and the interval is all that they leave."""
    found = answer(55, told)
    total = found.phase("total")
    assert total is not None
    assert (found.kind, total.slowdown) == ("between", slowdown)
    assert total.slowdown_low == pytest.approx(1.03 * 0.9)
    assert total.slowdown_high == pytest.approx(26 * 1.1)
    assert AnswerDoubt.CLIFF in found.doubts
    assert found.probability is not None
    assert 0.5 <= found.probability <= 1


def test_above_all_limits_no_limit_is_the_neighbour():
    """No slower than at the widest limit, no faster than without one."""
    total = answer(90).phase("total")
    assert total is not None
    assert total.slowdown == 1.01
    assert AnswerDoubt.CLIFF not in answer(90).doubts


def test_above_all_that_a_free_trial_used_nothing_is_slower():
    """The model says 3 times, and repeats differ: a limit that is never met slows nothing."""
    limits = measured()
    limits[-1] = replace(limits[-1], peak_bytes=131 * MIB)
    known: Any = Told(3.0)
    asked = replace(curve(limits=(50.0, 60.0)), unlimited_seconds=np.ones(3))
    answers = WorkloadAnswers((asked,), limits, 100.0 * MIB, None, lambda: known, lambda _: True)
    total = answers.at(132 * MIB).phase("total")
    assert total is not None
    assert (total.slowdown, total.slowdown_low, total.slowdown_high) == (1.0, 1.0, 1.0)


def test_tighter_than_all_that_were_killed_is_killed():
    """No more of them finish than at the tightest limit tried."""
    found = answer(30)
    assert (found.kind, found.viable, found.probability) == ("simulated", False, 0)
    assert AnswerDoubt.EXTRAPOLATED in found.doubts


def test_a_kill_above_a_limit_that_was_enough_is_not_for_memory() -> None:
    """As in a walk that was killed with swap free: another storage need not kill there."""
    ends = {30: ("oom-killed", 0), 40: ("timeout", 0), 60: ("", 1), 90: ("oom-killed", 0)}
    limits = [
        MeasuredLimit(f"{mib}M", mib * MIB, finished, 1, lost)
        for mib, (lost, finished) in ends.items()
    ]
    assert [one.label for one in killed_for_memory(limits)] == ["30M"]
