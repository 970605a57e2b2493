"""When a limit has had enough rounds, and what is said where they never repeat."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgebench.cgroups.process_files import TouchedPages
from edgebench.records import PhaseSum, RoundCounts, WorkingSet
from edgebench.results.results import load
from edgebench.run.sweep.sweep import SweepOptions, run_sweep
from edgebench.run.walk.control import MOST_ROUNDS, WalkStep, working_set
from edgebench.run.walk.walk import Visit, visited
from edgebench.scenario.scenario import scenario_of
from edgebench.spans import finished_spans
from tests.quiet import Quiet


def at_one_limit(*seconds: float) -> WalkStep:
    rounds = [PhaseSum(number, None, "round", taken) for number, taken in enumerate(seconds)]
    return WalkStep(Visit(None), None, phases=rounds)


def test_rounds_that_repeat_are_enough_at_once() -> None:
    """Four: the first pays for the change of limit, and three are the least that can repeat."""
    assert not at_one_limit(5.0, 1.0, 1.0).enough
    assert at_one_limit(5.0, 1.0, 1.0, 1.02).enough


def test_two_rounds_that_read_the_same_are_enough_at_a_limit() -> None:
    """Within one per cent, whatever their seconds; the first round, which pays, is not one."""
    assert not reading(9, 200).enough
    assert reading(9, 200, 201).enough
    assert not reading(9, 200, 230).enough
    assert reading(9, 200, 230, 231).enough
    assert not reading(0, 0).enough
    assert reading(0, 0, 0).enough


def reading(*reads_mib: int | None, limit: int | None = 100 << 20) -> WalkStep:
    """A step whose rounds read so much, each slower than the last."""
    step = at_one_limit(*(2.0**number for number in range(len(reads_mib))))
    counts = [
        RoundCounts(number, None if read is None else read << 20)
        for number, read in enumerate(reads_mib)
    ]
    return replace(step, visit=Visit(limit, None), counts=counts)


def test_rounds_that_never_repeat_come_to_an_end() -> None:
    """Each twice the last: the walk goes on after so many, and all but the first count."""
    doubling = [0.01 * 2**n for n in range(MOST_ROUNDS)]
    assert not at_one_limit(*doubling[:-1]).enough
    step = at_one_limit(*doubling)
    assert step.enough
    assert visited(step.phases, []).seconds == doubling[MOST_ROUNDS // 2]


@pytest.mark.own_cgroup
@pytest.mark.torch
@pytest.mark.root
@pytest.mark.parametrize(
    ("values", "packed_bytes", "ends"),
    [(4900, 1 << 20, False), (600, 1 << 20, True), (3000, 0, True)],
)
def test_a_walk_with_more_events_than_are_kept_comes_to_its_end(
    values: int, packed_bytes: int, ends: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of a limit that it has left make room, up to a bound; then too many end it."""
    # As many events at each limit, however long its rounds take.
    monkeypatch.setattr(WalkStep, "enough", property(lambda step: len(step.round_s) >= 4))
    monkeypatch.setattr("edgebench.run.walk.control._MOST_PACKED_BYTES", packed_bytes)
    monkeypatch.setattr("edgebench.run.trial.process._MOST_EVENT_VALUES", values)
    shares = [f"{share}%" for share in range(130, 180, 10)]
    tables = {
        "schema": 1,
        "name": "small",
        "repeats": 1,
        "timeout": "5m",
        "workload": {"kind": "training", "network": "mlp", "width": 16, "steps": 2},
        "limits": {"memory": ["max", *shares], "swap": "none", "plan": "walk", "starts": ["max"]},
    }
    options = SweepOptions(tmp_path, "test")
    (sweep,) = load(run_sweep(scenario_of(tables), options, Quiet()).folder).sweeps
    steps = [one for one in sweep.records if one.walk]
    assert {one.outcome for one in steps} == {"ok"}
    kinds = {doubt.kind for one in steps for doubt in one.doubts}
    assert kinds & {"walk_events", "events_dropped"} == (
        {"walk_events", "events_dropped"} if ends else set()
    )
    seen = {one.limits.label for one in steps}
    assert "max" in seen
    assert (seen != {"max", *shares}) is ends
    for one in steps:
        rounds = [span for span in finished_spans(sweep.events(one.trial)) if span.phase == "round"]
        assert ends or len(rounds) == len(one.round_counts)


MIB = 1 << 20
TOUCHED = TouchedPages(30 * MIB, 50 * MIB)


def span(number: int, after: int, peak: int) -> list[dict[str, Any]]:
    """A span's events: how much was used after it, and at its peak."""
    about = {"id": number, "name": "round", "phase": "round", "thread": 1}
    start = {**about, "event": "start", "t_ns": number, "usage_bytes": 0}
    end = {"usage_bytes": after * MIB, "peak_bytes": peak * MIB}
    return [start, {**about, **end, "event": "end", "t_ns": number + 1}]


def test_idle_pages_are_left_out_and_what_passes_counts():
    """Charged: 60 MiB of files, 55 of them mapped, of which 50 were touched."""
    charged = {"file": 60 * MIB, "mapped": 55 * MIB, "kernel": 2 * MIB}
    spans = [*span(1, 90, 120), *span(2, 100, 110)]
    found = working_set(TOUCHED, charged, spans, maps_weights=False)
    assert found == WorkingSet(30 * MIB, 50 * MIB, 2 * MIB, 20 * MIB, 5 * MIB)
    assert found.total_bytes == 102 * MIB


def test_files_that_others_are_charged_for_do_not_count():
    """More was touched than is charged: the libraries were read before."""
    charged = {"file": 10 * MIB, "mapped": 8 * MIB, "kernel": 0}
    found = working_set(TOUCHED, charged, span(1, 100, 90), maps_weights=False)
    assert found == WorkingSet(30 * MIB, 8 * MIB, 0, 0, 2 * MIB)


def test_without_spans_nothing_is_known():
    charged = {"file": 0, "mapped": 0, "kernel": 0}
    assert working_set(TOUCHED, charged, [], maps_weights=False) is None


def test_weights_that_were_mapped_count_although_the_round_has_unmapped_them():
    """8 MiB are still mapped, the libraries'; 90 more are charged: the weights."""
    charged = {"file": 98 * MIB, "mapped": 8 * MIB, "kernel": 0}
    found = working_set(TOUCHED, charged, span(1, 100, 100), maps_weights=True)
    assert found == WorkingSet(30 * MIB, 98 * MIB, 0, 0, 0)
