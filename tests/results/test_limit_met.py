"""A limit that no trial met slows nothing, whatever the clock says."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from results_making import loading, make_sweep

from edgebench.records import LimitSetting
from edgebench.results.limit_to_give import is_limit_met
from edgebench.results.point_facts import point_facts
from edgebench.results.results import load


@pytest.mark.parametrize(
    ("hits", "met"),
    [((0, 0), False), ((0, 7), True), ((0, None), True), ((), True)],
)
def test_a_limit_is_met_unless_all_trials_show_that_it_was_not(hits: tuple[int, ...], met: bool):
    """A trial that doesn't tell may have met it; no trial tells nothing."""
    assert is_limit_met(LimitSetting("83M", 83 << 20), 2, hits) is met


def test_a_throttled_trial_met_its_limit_though_no_hit_is_counted():
    """``memory_high`` reclaims below the limit."""
    limits = LimitSetting("83M", 83 << 20, memory_high="61M")
    assert is_limit_met(limits, 1, (0,))


@pytest.mark.parametrize(("hits", "peak", "slowdown"), [(0, 72, 1.0), (3, 72, 1.57), (0, 70, 1.57)])
def test_busy_neighbours_are_a_doubt_and_no_slowdown(
    tmp_path: Path, hits: int, peak: int, slowdown: float
):
    """Half as long again at a limit never met is 1.00; what the clock said is a doubt.

    Unless the program took less than 0.9 of its 79 MiB: its heap was sized from the limit.
    """

    def slow(trial: str, label: str, block: int):
        is_free = label == "max"
        size = None if is_free else 83 << 20
        made = loading(trial, label=label, memory_bytes=size, scale=1 if is_free else 2.7)
        return replace(made, limit_hits=hits, peak_bytes=(79 if is_free else peak) << 20)

    make_sweep(tmp_path, labels=("max", "83M"), make=slow)
    (sweep,) = load(tmp_path).sweeps
    limited = next(point for point in point_facts(sweep) if not point.is_unlimited)
    assert limited.slowdown == pytest.approx(slowdown, rel=0.02)
    assert {one.kind for one in limited.doubts} >= ({"limit_not_met"} if slowdown == 1 else set())
    assert limited.is_slower is (slowdown > 1)
