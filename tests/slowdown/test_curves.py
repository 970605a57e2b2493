"""The curves and what was measured of each limit, from records and made sweeps; and the fit."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from made_records import MIB, NETWORK, record, repeats, sweep
from made_sweep import Shape, make

from edgebench.cli.predict import fit
from edgebench.errors import ResultsError
from edgebench.records import PhaseSum, TrialRecord, WalkReport, WorkingSet
from edgebench.results.results import Results, load
from edgebench.results.times import Spread
from edgebench.slowdown.answer import measured_limits
from edgebench.slowdown.curves import (
    Curve,
    HeldOut,
    curves,
    fit_all,
    fit_curve,
    lost_limits,
    measured_points,
)


def of_phases(*records: TrialRecord, **about: Any) -> dict[str, Curve]:
    return {one.phase: one for one in curves(Results([sweep(*records, **about)]))}


def test_a_curve_has_the_medians_of_its_trials() -> None:
    """2.1 s of 2.0, 2.6 and 2.1; the demand of three trials, the last not the largest."""
    free = [
        record(None, 9.0, s, demand_bytes=size * MIB)
        for s, size in ((2.0, 400), (2.6, 450), (2.1, 410))
    ]
    killed = [record(at, outcome=end) for at, end in ((60, "oom-killed"), (50, "timeout"))]
    again = record(60, outcome="oom-killed")
    made = of_phases(*free, *repeats(100, (6.3, 8.4, 7.0)), *repeats(80, (10.5,)), *killed, again)
    total = made["total"]
    assert total.unlimited_s == 2.1
    assert (total.limits / MIB).tolist() == [80, 100]
    assert total.medians == pytest.approx([5.0, 7 / 2.1])
    assert total.demand_bytes == 410 * MIB
    assert total.lost_bytes == {"oom-killed": (60.0 * MIB,), "timeout": (50.0 * MIB,)}
    assert made["start"].medians == pytest.approx([1.0, 1.0])


def test_a_phase_is_one_pass_and_a_rate_the_seconds_of_one_unit() -> None:
    """Four executions of 8 s together; 40 lines a second without a limit, 16 with one."""
    executed = {
        at: [PhaseSum(0, None, "round", 20.0), PhaseSum(0, "lenet", "execute", s, passes=4)]
        for at, s in ((None, 8.0), (100, 20.0))
    }
    made = of_phases(*(record(at, phases=own) for at, own in executed.items()))
    assert made["execute"].unlimited_s == 2.0
    assert made["execute"].medians == pytest.approx([2.5])
    command = {"kind": "command", "command": ["llm"], "throughput": True}
    rates = {None: 40.0, 100: 16.0}
    told = [
        record(at, phases=[], wall_s=5.0, settings=command, throughput_per_s=rate)
        for at, rate in rates.items()
    ]
    made = of_phases(*told)
    assert made["throughput"].unlimited_s == 1 / 40
    assert made["throughput"].medians == pytest.approx([2.5])
    assert made["total"].medians == pytest.approx([1.0])


def visit(step: int, at: float | None, *s: float, around: float, **values: Any) -> TrialRecord:
    walk = WalkReport("a", step, list(s), around)
    direction = None if at is None else values.pop("direction", "down")
    return record(at, *s, walk=walk, direction=direction, **values)


def test_a_walks_curve_has_the_pairs_of_its_rounds() -> None:
    """6 s beside 2 s, later 18 s beside 4 s: 3.75 times; the start is what it was."""
    watched = WorkingSet(60 * MIB, 20 * MIB, 15 * MIB, 5 * MIB, 900 * MIB)
    own = [
        visit(0, None, 8.0, 2.0, 2.0, around=2.0, working_set=watched),
        visit(1, 100, 7.0, 6.0, 6.0, around=2.0),
        visit(0, None, 8.0, 4.0, 4.0, around=4.0),
        visit(1, 100, 17.0, 18.0, 18.0, around=4.0),
        record(100, 24.0, 6.0),
    ]
    up = [visit(2, 100, 16.0, 10.0, 10.0, around=5.0, direction="up", trial="0099")]
    made = of_phases(*own, upward_records=up)
    total = made["total"]
    # Fresh trials have no round without a limit beside them.
    assert total.walked
    assert total.working_set_bytes == 100 * MIB
    assert total.unlimited_s == 3.0
    assert total.medians == pytest.approx([3.75])
    assert made["start"].seconds.tolist() == [24.0]


def test_limits_that_ended_trials_are_told_by_how_they_did() -> None:
    ends = ((60, "oom-killed"), (80, "oom-killed"), (70, "ok"), (50, "failed"))
    made = [record(at, 9.0, 2.0, outcome=end) for at, end in ends]
    trials = Results([sweep(record(None, 9.0, 2.0), *made)]).trials
    trials.loc[1, "limit_bytes"] = 59 * MIB
    assert lost_limits(trials) == {
        "oom-killed": (59.0 * MIB, 80.0 * MIB),
        "failed": (50.0 * MIB,),
    }


def test_a_measured_limit_has_its_trials_ends_and_times() -> None:
    reads = {**NETWORK, "kind": "command", "command": ["llm"], "throughput": True}
    rates = {None: (40.0, 44.0, 36.0), 100: (16.0, 15.0, 20.0)}
    made = [
        record(at, phases=[], wall_s=5.0, settings=reads, throughput_per_s=rate)
        for at, every in rates.items()
        for rate in every
    ]
    ends = ("oom-killed", "oom-killed", "timeout", "harness-error")
    made += [record(100, settings=reads, outcome=end) for end in ends]
    made += [record(50, settings=reads, outcome="harness-error")]
    (found,) = measured_limits(Results([sweep(*made)])).values()
    limited, free = found
    assert (limited.finished, limited.ended) == (3, 6)
    assert (limited.lost, free.lost, free.limit_bytes) == ("oom-killed", "", math.inf)
    assert limited.times_s["throughput"] == Spread(1 / 16, 1 / 20, 1 / 15, 3)
    assert limited.ratios["throughput"].median == 2.5


#: EdgeCaffe's published totals of four networks, in seconds, at these limits in MiB.
EDGECAFFE_LIMITS = (4096, 2048, 1024, 512, 256, 128)
EDGECAFFE = {
    "bulk": (38.8, 47.7, 74.5, 123.6, 183.1, 271.9),
    "deepeye": (33.5, 37.3, 57.1, 102.9, 169.1, 240.6),
    "partial": (32.3, 37.3, 56.9, 78.2, 146.9, 204.2),
    "linear": (40.0, 40.2, 53.0, 83.5, 115.5, 168.7),
}


def made_curve(
    limits_mib: tuple[float, ...], repeats: int = 1, demand: float | None = None
) -> Curve:
    """Return rounds of 3 s below 200 MiB: 1 + 2 ln(200 / M)^1.5 times as long."""
    limits = np.repeat(np.sort(limits_mib), repeats) * MIB
    times = 3.0 * (1 + 2 * np.log(np.maximum(200 * MIB / limits, 1)) ** 1.5)
    settings, free = {"schedule": "linear"}, np.full(3, 3.0)
    return Curve("net", "load", settings, limits, times, free, demand and demand * MIB)


def test_the_cubic_meets_its_points():
    curve = made_curve((160, 80, 40), demand=200)

    def slowdown(*limits_mib: float) -> np.ndarray:
        return fit_curve(curve).slowdown(np.array(limits_mib) * MIB)

    assert slowdown(40, 80, 160) == pytest.approx(curve.medians)
    assert (np.diff(slowdown(*np.geomspace(20, 500, 99))) <= 1e-12).all()
    assert curve.medians[1] < slowdown(np.sqrt(80 * 40))[0] < curve.medians[0]
    assert slowdown(500)[0] == 1
    assert slowdown(20)[0] == pytest.approx(curve.medians[0])


def test_a_confirmed_point_is_never_passed_by():
    curve = made_curve((160, 120, 80, 40), repeats=3, demand=200)
    bump = np.where(curve.limit_bytes == 120 * MIB, 4.0, 1.0)
    x, y = measured_points(replace(curve, seconds=curve.seconds * bump))
    found = dict(zip(np.round(np.exp(x) / MIB), np.exp(y), strict=True))
    assert found[120] == pytest.approx(4 * curve.medians[2])
    once = made_curve((160, 120, 80, 40), demand=200)
    alone = replace(once, seconds=once.seconds * np.where(once.limit_bytes == 120 * MIB, 4.0, 1.0))
    _, evened = measured_points(alone)
    assert (np.diff(evened) <= 1e-12).all()
    wide = np.where(curve.limit_bytes == 120 * MIB, np.tile([1.0, 4.0, 4.0], 4), 1.0)
    _, within = measured_points(replace(curve, seconds=curve.seconds * wide))
    assert (np.diff(within) <= 1e-6).all()


def test_edgecaffes_published_points():
    """The 24 published points, each left out in turn: a third as far off as if never slowed."""
    held, flat = list[HeldOut](), list[HeldOut]()
    limits = np.array(EDGECAFFE_LIMITS[::-1]) * float(MIB)
    for seconds in EDGECAFFE.values():
        times = np.array(seconds)
        own = fit_curve(Curve("four", "total", {}, limits, times[::-1], times[:1])).held_out
        held += own
        flat += [replace(one, predicted_s=seconds[0]) for one in own]
    assert len(held) == 24
    mean, unslowed = (np.mean([abs(one.error) for one in own]) for own in (held, flat))
    assert mean < unslowed / 3
    assert unslowed == pytest.approx(0.451, abs=0.002)


def test_too_few_limits_is_a_clear_error():
    with pytest.raises(ResultsError, match="too few limits") as caught:
        fit_all([made_curve((100,), demand=200)])
    assert "steps" in str(caught.value)
    fits, skipped = fit_all([made_curve((100,)), made_curve((100, 80, 50))])
    assert len(fits) == 1
    assert "only one limit: " in skipped[0]
    # Two limits without a demand: none can be left out.
    assert fit_curve(made_curve((100, 80))).error is None


SHOWN = ("start", "load", "first", "steady")


def test_a_pipelines_networks_and_its_total(tmp_path: Path):
    shape = Shape(networks={"alexnet": 6, "resnet18": 9}, pipeline=True, with_files=False)
    made = [(one.network, one.phase) for one in curves(load(make(tmp_path, shape)))]
    own = {(name, phase) for name in shape.networks for phase in ("load", "first")}
    assert {*made} == own | {("alexnet+resnet18", phase) for phase in ("start", "total")}
    assert len(made) == 6


def test_a_command_has_a_total_only(tmp_path: Path):
    shape = Shape(command="python3 train.py --fast", killed_below=60)
    (curve,) = curves(load(make(tmp_path, shape)))
    assert curve.label == "python3 train.py --fast · total"
    assert curve.limits / MIB == pytest.approx([75, 100, 150])
    assert curve.lost_bytes == {"oom-killed": (50 * MIB,)}


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        (Shape(limits=(None,), with_files=False), "only unlimited trials"),
        (Shape(killed_below=1e9, with_files=False), "no trial finished below a limit"),
        (Shape(limits=(150, 100), with_files=False), "no unlimited trial finished"),
    ],
)
def test_no_curve_is_a_clear_error(tmp_path: Path, shape: Shape, words: str):
    with pytest.raises(ResultsError, match=words) as caught:
        curves(load(make(tmp_path, shape)))
    assert caught.value.remedy


def test_fit_has_a_row_for_each_curve(tmp_path: Path):
    path = make(tmp_path, Shape(with_files=False))
    brief = CliRunner().invoke(fit, [str(path)])
    assert brief.stdout.splitlines()[0].split()[:3] == ["curve", "points", "unlimited"]
    rows = [line.strip().split("  ")[0] for line in brief.stdout.splitlines()[1:]]
    assert rows == [f"alexnet · linear · copy · {phase}" for phase in SHOWN]
    assert f"next: edgebench predict --results {path}" in brief.stderr
    done = CliRunner().invoke(fit, [str(path), "--json"])
    printed = json.loads(done.stdout)
    assert len(printed["fits"]) == 4
    first = printed["fits"][0]
    assert len(first["fit"]["slowdowns"]) == len(first["fit"]["limits_bytes"]) == 5
    assert (first["fit"]["limits_bytes"][-1], first["fit"]["slowdowns"][-1]) == (200 * MIB, 1.0)
    assert len(first["held_out"]) == 4
    assert first["mean_error"] > 0
