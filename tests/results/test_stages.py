"""A trial's rounds as start and steady: their stages, times, and what frames and summaries have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from made_records import record, rounds

from edgebench.records import PhaseSum, TrialRecord
from edgebench.results.point_facts import point_facts
from edgebench.results.results import load
from edgebench.results.rounds import round_stages, rounds_of, trial_times

QUICKSTART = Path("results/vm-2core-24g/20261121T103950Z-quickstart-0491e2")


def timed(*times_s: float, **changes: Any) -> TrialRecord:
    """A trial of these rounds, each half loading."""
    loads = [PhaseSum(n, "lenet", "load", seconds / 2) for n, seconds in enumerate(times_s)]
    phases = [PhaseSum(-1, None, "import", 3.0), *rounds(*times_s), *loads]
    return record(**{"phases": phases, "wall_s": 9.0, **changes})


def test_rounds_before_they_repeat_are_neither():
    """Four stages of one trial: before rounds, the start, settling, steady."""
    one = timed(4.0, 2.0, 1.0, 0.5, 0.51, 0.5, 0.49)
    stages = list(round_stages(one).values())
    assert stages == ["start", "settling", "steady", "steady", "steady", "steady", "steady"]
    times = trial_times(one)
    assert (times["start"], times["steady"], times["total"]) == pytest.approx((4.0, 0.5, 0.5))
    assert times["load"] == pytest.approx(0.25)
    assert rounds_of(one).repeat


def test_too_few_rounds_for_the_test_are_steady_all_the_same():
    """Two rounds: the second is steady; whether it repeats is unknown."""
    times = trial_times(timed(4.0, 1.0))
    assert (times["start"], times["steady"], times["load"]) == (4.0, 1.0, 0.5)
    assert rounds_of(timed(4.0, 1.0)).repeat is None
    assert rounds_of(timed(4.0, 1.0, 2.0, 4.0)).repeat is False


def test_one_round_is_a_start_and_no_steady():
    """``total`` is then the start; the import before it is in neither."""
    times = {"total": 4.0, "start": 4.0, "load": 2.0, "import": 3.0}
    assert trial_times(timed(4.0)) == times


def test_no_round_is_the_whole_trial():
    """Of a trial without rounds, ``total`` is all of it; a command has no import either."""
    assert trial_times(timed()) == {"total": 9.0, "import": 3.0}
    assert trial_times(timed(phases=[])) == {"total": 9.0}


def test_a_kept_sweep_has_both_answers():
    """The quick start's ResNet-18 starts later at every limit, and then is hardly slowed."""
    results = load(QUICKSTART)
    points = [p for p in point_facts(results.sweeps[0]) if p.settings["networks"] == ["resnet18"]]
    limited = [point for point in points if point.limits.label != "max"]
    assert min(point.slowdowns["start"] for point in limited) > 2.2
    assert max(point.slowdowns["steady"] for point in limited) < 1.25
    assert all(point.slowdowns["total"] == point.slowdowns["steady"] for point in limited)
    trials, phases = results.trials, results.phases
    assert (trials["start_s"] > trials["steady_s"]).mean() > 0.9
    assert trials["rounds_repeat"].isna().all()
    assert set(phases[phases["round"] == 0]["stage"]) == {"start"}
    assert phases[phases["phase"] == "import"]["stage"].isna().all()
