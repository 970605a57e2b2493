"""A trial's rounds as start and steady: their stages, times, and what frames and summaries have."""

from __future__ import annotations

from pathlib import Path

import pytest
from results_making import make_sweep
from results_making import record as usual

from edgebench.records import LimitSetting, PhaseSum, TrialRecord, WalkReport
from edgebench.results.point_facts import point_facts
from edgebench.results.results import load
from edgebench.results.rounds import round_stages, rounds_of, trial_times

QUICKSTART = Path("results/vm-2core-24g/20261121T103950Z-quickstart-0491e2")


def record(*times_s: float, **changes: object) -> TrialRecord:
    """A trial of these rounds, each half loading."""
    phases = [PhaseSum(-1, None, "import", 3.0)]
    for number, seconds in enumerate(times_s):
        phases.append(PhaseSum(number, "lenet", "load", seconds / 2))
        phases.append(PhaseSum(number, None, "round", seconds))
    limits, begun = LimitSetting(), "2026-11-22T00:00:00Z"
    about = {"phases": phases, "wall_s": 9.0, **changes}
    return TrialRecord("0001", "p", 0, 0, {}, limits, "ok", begun, **about)  # type: ignore[arg-type]


def test_rounds_before_they_repeat_are_neither():
    """Four stages of one trial: before rounds, the start, settling, steady."""
    one = record(4.0, 2.0, 1.0, 0.5, 0.51, 0.5, 0.49)
    stages = list(round_stages(one).values())
    assert stages == ["start", "settling", "steady", "steady", "steady", "steady", "steady"]
    times = trial_times(one)
    assert (times["start"], times["steady"], times["total"]) == pytest.approx((4.0, 0.5, 0.5))
    assert times["load"] == pytest.approx(0.25)
    assert rounds_of(one).repeat


def test_too_few_rounds_for_the_test_are_steady_all_the_same():
    """Two rounds: the second is steady; whether it repeats is unknown."""
    times = trial_times(record(4.0, 1.0))
    assert (times["start"], times["steady"], times["load"]) == (4.0, 1.0, 0.5)
    assert rounds_of(record(4.0, 1.0)).repeat is None
    assert rounds_of(record(4.0, 1.0, 2.0, 4.0)).repeat is False


def test_one_round_is_a_start_and_no_steady():
    """``total`` is then the start; the import before it is in neither."""
    times = {"total": 4.0, "start": 4.0, "load": 2.0, "import": 3.0}
    assert trial_times(record(4.0)) == times


def test_no_round_is_the_whole_trial():
    """Of a trial without rounds, ``total`` is all of it; a command has no import either."""
    assert trial_times(record()) == {"total": 9.0, "import": 3.0}
    assert trial_times(record(phases=[])) == {"total": 9.0}


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


def test_rounds_before_a_kill_are_kept_beside_it(tmp_path: Path):
    """A killed trial's steady rounds, and a walk's single round; its start alone is none of them.

    They are in no time of the point: the trial did not finish.
    """

    def made(trial: str, label: str, block: int) -> TrialRecord:
        times_s, step = {"max": ((1.0, 0.5), 0), "150M": ((9.0, 1.7, 1.8), 0), "100M": ((1.9,), 2)}[
            label
        ]
        outcome = "ok" if label == "max" else "oom-killed"
        rounds = [PhaseSum(n, "lenet", "round", s) for n, s in enumerate(times_s)]
        walk = WalkReport(trial, step, list(times_s)) if step else None
        return usual(trial, label=label, outcome=outcome, phases=rounds, walk=walk)  # type: ignore[arg-type]

    path = make_sweep(tmp_path, labels=("max", "150M", "100M"), repeats=1, make=made)
    free, killed, walked = point_facts(load(path).sweeps[0])
    assert free.rounds_before_end_s is None
    assert killed.rounds_before_end_s is not None
    assert walked.rounds_before_end_s is not None
    assert (killed.rounds_before_end_s.median, killed.rounds_before_end_s.count) == (1.75, 2)
    assert (walked.rounds_before_end_s.median, walked.rounds_before_end_s.count) == (1.9, 1)
    assert killed.times_s == walked.times_s == {}
    alone = make_sweep(
        tmp_path / "alone",
        labels=("max",),
        repeats=1,
        make=lambda trial, label, _: usual(
            trial, label=label, outcome="oom-killed", phases=[PhaseSum(0, "lenet", "round", 9.0)]
        ),
    )
    assert point_facts(load(alone).sweeps[0])[0].rounds_before_end_s is None
