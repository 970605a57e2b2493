"""Walks on a machine that gets slower: what they say of limits does not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from results_making import MIB, make_sweep
from results_making import record as usual

from edgebench.records import PhaseSum, TrialRecord, WalkReport
from edgebench.results.point_facts import PointFacts, point_facts
from edgebench.results.results import load

#: Of each visit in turn: its walk, the limit, how slow the machine is, whether the walk tells it.
Visit = tuple[str, str, float, bool]
#: How much longer a round takes at the limit.
SLOWDOWN = {"max": 1.0, "150M": 3.0}
NOISE = (1.0, 1.02, 0.98, 1.0)


def walked(root: Path, visits: Sequence[Visit]) -> PointFacts:
    """The limit's point."""
    left = list(visits)
    seen: dict[str, int] = {}

    def made(trial: str, label: str, block: int) -> TrialRecord:
        walk, at, speed, told = left.pop(0)
        assert at == label
        step = seen[walk] = seen.get(walk, -1) + 1
        rounds = [SLOWDOWN[label] * speed * noise for noise in NOISE]
        phases = [PhaseSum(n, None, "round", seconds) for n, seconds in enumerate(rounds)]
        return usual(
            trial,
            label=label,
            memory_bytes=None if label == "max" else 150 * MIB,
            block=block,
            repeat=block,
            phases=phases,
            walk=WalkReport(walk, step, rounds, speed if told else None),
        )

    path = make_sweep(root, labels=("max", "150M"), repeats=len(visits) // 2, make=made)
    _, limited = point_facts(load(path).sweeps[0])
    return limited


def test_what_is_slower_for_a_while_cancels_out(tmp_path: Path):
    """The second time all takes twice as long: at the limit it is three times as long both times.

    Compared with the median of all rounds without a limit it would be twice and four times.
    """
    visits = [("a", label, speed, True) for speed in (1.0, 2.0) for label in SLOWDOWN]
    limited = walked(tmp_path, visits)
    assert limited.ratio is not None
    assert limited.ratio.median == pytest.approx(3.0)
    assert limited.ratio.low == pytest.approx(3.0 * 0.98 / 1.02)
    assert limited.slowdowns["steady"] == limited.slowdowns["total"] == limited.ratio.median


def test_a_walk_without_a_later_round_is_compared_with_the_one_before(tmp_path: Path):
    """As of a walk that was killed: another, faster process does not come into it."""
    visits = [("a", "max", 2.0, True), ("a", "150M", 2.0, False)]
    visits += [("b", "max", 1.0, True), ("b", "150M", 1.0, False)]
    limited = walked(tmp_path, visits)
    assert limited.ratio is not None
    assert limited.ratio.median == pytest.approx(3.0)


def test_of_several_walks_each_is_one_repeat(tmp_path: Path):
    """Many rounds of two processes do not make the interval narrow."""
    visits = [("a", "max", 1.0, True), ("a", "150M", 1.0, True)]
    visits += [("b", "max", 1.0, True), ("b", "150M", 1.5, False)]
    limited = walked(tmp_path, visits)
    assert limited.steady_relative is not None
    assert limited.steady_relative.count == 2
    assert (limited.steady_relative.low, limited.steady_relative.high) == pytest.approx((3.0, 4.5))


def test_what_a_killed_visit_ran_is_no_time_of_the_limit(tmp_path: Path):
    """A visit that did not finish has no part in the slowdown."""

    def made(trial: str, label: str, block: int) -> TrialRecord:
        killed = (label, block) == ("150M", 1)
        rounds = [9.0 if killed else SLOWDOWN[label]] * 4
        return usual(
            trial,
            label=label,
            memory_bytes=None if label == "max" else 150 * MIB,
            outcome="oom-killed" if killed else "ok",
            block=block,
            repeat=block,
            phases=[PhaseSum(n, None, "round", seconds) for n, seconds in enumerate(rounds)],
            walk=WalkReport("a", 2 * block + (label != "max"), rounds, 1.0),
        )

    path = make_sweep(tmp_path, labels=("max", "150M"), repeats=2, make=made)
    _, limited = point_facts(load(path).sweeps[0])
    assert limited.times_s["steady"].median == pytest.approx(SLOWDOWN["150M"])
    assert limited.outcomes == {"ok": 1, "oom-killed": 1}
    assert limited.slowdown == pytest.approx(3.0)
