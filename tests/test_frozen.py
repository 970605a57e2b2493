"""The frozen numbers: what of an answer is kept, and what counts as a difference."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.frozen import freeze
from benchmarks.frozen.made_up import made_up
from edgebench.results.facts import sweep_facts
from edgebench.results.results import load
from edgebench.results.sweep_reader import read_sweep
from edgebench.slowdown.prediction import WorkloadQuery, source_of, tried_workloads
from edgebench.slowdown.seconds import Source


def test_numbers_and_identities_are_compared_and_sentences_are_not() -> None:
    old = {
        "path": "/nowhere",
        "network": "lenet",
        "says": "it was killed",
        "seconds": 1.23456789,
        "count": 123456789,
        "unknown": None,
        "peak": {"median": 2.0, "low": 1.0, "high": 3.0, "count": 4},
        "same": {"median": 2.0, "low": 2.0, "high": 2.0, "count": 1},
        "far": {"seconds": [1.0, 2.0], "flag": True},
    }
    kept = freeze.numbers(old)
    assert kept == {
        "network": "lenet",
        "seconds": 1.23457,
        "count": 123456789,
        "peak": [2.0, 1.0, 3.0, 4],
        "same": [2.0, 1],
        "far": {"seconds": [1.0, 2.0], "flag": True},
    }
    new = {**kept, "count": 123456788, "same": [2.0, 1, 1], "peak": [2.000001, 1.0, 3.1, 4]}
    del new["network"]
    new["far"] = {"seconds": [1.0, 2.0], "flag": 1}
    found = {path for path, _, _ in freeze.differences(kept, new)}
    assert found == {".network", ".count", ".same", ".peak[2]", ".far.flag"}


def test_made_up_sweeps_have_their_frozen_numbers(tmp_path: Path) -> None:
    compared = 0
    for name, path in made_up(tmp_path).items():
        file = freeze.STORE / f"{freeze.MADE}{name}" / "show.json"
        if file.exists():
            new = json.loads(json.dumps(freeze.numbers(freeze.show(path))))
            assert [*freeze.differences(json.loads(file.read_text()), new)] == []
            compared += 1
    assert compared == 8


#: Sweeps of trainings whose layers take long to read; a smaller one is tried each time.
LARGE = ("-cnn-", "-training-limits-")


def kept_sweeps() -> Iterator[Any]:
    for folder in sorted(freeze.KEPT.iterdir()):
        if folder.is_dir() and any(one.tried for one in sweep_facts(read_sweep(folder)).workloads):
            marks = [pytest.mark.long] if any(part in folder.name for part in LARGE) else []
            yield pytest.param(folder, marks=marks, id=folder.name.split("-", 1)[1])


@pytest.mark.heavy
@pytest.mark.process
@pytest.mark.parametrize("sweep", [*kept_sweeps()])
def test_verbs_agree_about_each_measured_limit(sweep: Path) -> None:
    results = load(sweep)
    source = source_of(sweep, WorkloadQuery())
    facts = {one.key.id: one for one in sweep_facts(results.sweeps[0]).workloads}
    compared = never_met = 0
    for predictor in source.predictors:
        for subject in tried_workloads(predictor.data, WorkloadQuery()):
            points = [p for p in facts[subject.workload].tried if p.made and p.limit_bytes]
            found = predictor.predict(subject, [str(p.limit_bytes) for p in points])
            for point, at in zip(points, found.at, strict=True):
                if at.source is not Source.MEASURED:
                    assert not {"ok", "oom-killed", "timeout"} & {*point.outcomes}
                    continue
                compared += 1
                assert at.finished == point.outcomes.get("ok", 0)
                assert at.viable == (2 * at.finished >= at.ended)
                total, seen = at.phase("total"), point.slowdowns.get("total")
                if seen is not None and total is not None:
                    assert total.slowdown == pytest.approx(seen)
                for curve in subject.curves if seen is not None else ():
                    here = abs(curve.limits / float(point.limit_bytes or 1) - 1) < 1e-6
                    if curve.phase != "total" or not here.any():
                        continue
                    expected = seen
                    if not point.meets_limit and point.steady_relative is None:
                        # Of fresh trials that never met it, a curve has what the clock said.
                        expected = point.times_s["total"].median / curve.unlimited_s
                        never_met += 1
                    assert curve.medians[here][0] == pytest.approx(expected)
    if "edgecaffe" in sweep.name:
        assert never_met
    assert compared
