"""A sweep whose trials other machines make: order, demand, losses, equal machines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edgebench.errors import CgroupError
from edgebench.fleet.device_sweep import MOST_TRIES, DeviceSweep, unequal_machines
from edgebench.records import TrialRecord
from edgebench.run.sweep.sweep import PlannedSweep
from edgebench.scenario.planner import planner_of
from edgebench.scenario.points import PlannedTrial, points
from edgebench.scenario.scenario import scenario_of

TABLES: dict[str, Any] = {
    "schema": 1,
    "name": "tiny",
    "repeats": 2,
    "workload": {"kind": "command", "command": ["true"]},
    "limits": {"memory": ["50%", "32M"]},
}

#: Point → how its limit is written.
LABELS = {"p001": "max", "p002": "50%", "p003": "32M"}


def sweep_in(root: Path) -> DeviceSweep:
    scenario = scenario_of(TABLES)
    every = points(scenario)
    planned = PlannedSweep(scenario, every, planner_of(scenario, every), {})
    return DeviceSweep(planned, root, "board", {"device": "board"})


def record_of(planned: PlannedTrial, **changes: Any) -> TrialRecord:
    record = {
        **{key: getattr(planned, key) for key in ("trial", "block", "repeat")},
        "point": planned.point_id,
        "settings": {"kind": "command", "command": ["/elsewhere/true"]},
        "limits": {"label": LABELS[planned.point_id]},
        "outcome": "ok",
        "started_utc": "2026-01-01T00:00:00",
        "demand_bytes": 1 << 20 if planned.point_id == "p001" else None,
    }
    return TrialRecord.from_json({**record, **changes})


def next_of(sweep: DeviceSweep) -> PlannedTrial:
    order = sweep.next_trial()
    assert order
    return order[0]


def finish(sweep: DeviceSweep, **changes: Any) -> list[str]:
    made = []
    while order := sweep.next_trial():
        made.append(order[0].trial)
        sweep.keep(order[0], "pi-1", [record_of(order[0], **changes)])
    assert not sweep.plan_further()
    return made


def test_a_share_waits_for_the_demand_that_it_is_of(tmp_path: Path):
    """No machine gets a trial at 50 % before the first unlimited trial is recorded."""
    sweep = sweep_in(tmp_path)
    out = []
    while order := sweep.next_trial():
        out.append(order[0])
    assert len(out) == 4
    assert {one.point_id for one in out} == {"p001", "p003"}
    first = next(one for one in out if one.trial == "0001")
    assert first.point_id == "p001"
    sweep.keep(first, "pi-1", [record_of(first)])
    left = [sweep.next_trial(), sweep.next_trial()]
    assert [order[1].demand_bytes for order in left if order] == [1 << 20, 1 << 20]


def test_without_demand_the_sweep_says_so(tmp_path: Path):
    for outcome, tries in (("failed", 1), ("harness-error", MOST_TRIES)):
        sweep = sweep_in(tmp_path / outcome)
        for _ in range(tries):
            first = next_of(sweep)
            assert (first.trial, sweep.folder.records()) == ("0001", [])
            sweep.keep(first, "pi-1", [record_of(first, outcome=outcome, demand_bytes=None)])
        with pytest.raises(CgroupError, match="demand is unknown"):
            finish(sweep, outcome=outcome, demand_bytes=None)
        assert {one.outcome for one in sweep.folder.records()} == {outcome}
    sweep = sweep_in(tmp_path / "lost")
    with pytest.raises(CgroupError, match="demand is unknown"):
        [sweep.give_back(next_of(sweep), is_lost=True) for _ in range(18)]


def test_a_lost_trial_is_made_next_and_at_last_left_to_the_next_start(tmp_path: Path):
    sweep = sweep_in(tmp_path)
    first = next_of(sweep)
    sweep.keep(first, "pi-1", [record_of(first)])
    lost = next_of(sweep)
    # Of a machine that was refused.
    assert sweep.give_back(lost, is_lost=False)
    for number in range(1, MOST_TRIES + 1):
        assert next_of(sweep) == lost
        assert sweep.give_back(lost, is_lost=True) == (number < MOST_TRIES)
    assert len(finish(sweep)) == 4
    assert (sweep.done, sweep.total) == (5, 6)
    assert not (sweep.folder.path / "complete.json").exists()
    sweep.folder.close()
    resumed = sweep_in(tmp_path)
    assert finish(resumed) == [lost.trial]
    records = resumed.folder.records()
    assert sorted(one.trial for one in records) == [f"{n:04d}" for n in range(1, 7)]
    # A machine's own paths don't come into the results; which machine it was does.
    assert {(one.machine, *one.settings["command"]) for one in records} == {("pi-1", "true")}
    assert (sweep.folder.path / "complete.json").exists()


def test_a_walk_has_records_and_files_of_each_limit(tmp_path: Path):
    sweep = sweep_in(tmp_path)
    walk = PlannedTrial("0001", "p001", 0, 0, walk=True)
    own = {"walk": {"walk": "0001", "step": 0}}
    further = record_of(walk, trial="0001-01", point="p009", limits={"label": "48M"}, **own)
    assert sweep.wrong_record(walk, [record_of(walk, **own), further]) is None
    assert sweep.wrong_record(walk, [further])
    other = record_of(walk, walk={"walk": "0003", "step": 0})
    assert sweep.wrong_record(walk, [other]) == "a record of the walk 0003"
    assert sweep.file_path(walk, "events", "0001-01") == sweep.folder.events_path("0001-01")
    for name in ("0002", "0001-7", "0001-01/../x", "0001\n"):
        assert sweep.file_path(walk, "events", name) is None


def test_machines_within_their_own_spread_are_equal():
    probes = {"a": {"max": [1.0, 1.01, 1.02]}, "b": {"max": [1.0, 1.1, 1.3]}}
    assert unequal_machines(probes, None) == {}


def test_a_slower_machine_and_one_without_an_end_are_told_apart():
    slow, quick = {"max": [2.0, 2.0, 2.01], "50%": [3.0]}, {"max": [1.0, 1.0, 1.01], "50%": [1.5]}
    probes = {"slow": slow, "b": quick, "c": quick, "killed": {**quick, "50%": []}}
    found = unequal_machines(probes, None)
    assert set(found) == {"slow", "killed"}
    assert "not equal to b: the probe at max takes 2.00 times as long (spread 1%)" in found["slow"]
    assert "the probe at 50% finishes on one of them only" in found["killed"]
    assert set(unequal_machines(probes, "slow")) == {"b", "c", "killed"}
