"""A sweep whose trials another machine makes: order, demand, what could not be made, walks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edgebench.errors import CgroupError
from edgebench.fleet.sweep import DeviceSweep
from edgebench.records import TrialRecord
from edgebench.run.sweep.sweep import PlannedSweep
from edgebench.scenario.points import PlannedTrial, planner_of, points
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
    return DeviceSweep(planned, root, "pi-1", {"device": "pi-1"})


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


def make_all(sweep: DeviceSweep, failing: str = "", outcome: str = "") -> dict[str, int]:
    """Make every trial, one with that outcome; return the demand that each was ordered with."""
    made = {}
    while order := sweep.next_trial():
        planned, make = order
        # It is the next one until it is kept.
        assert sweep.next_trial() == order
        changes = {"outcome": outcome, "demand_bytes": None}
        sweep.keep([record_of(planned, **(changes if planned.trial == failing else {}))])
        made[planned.point_id] = make.demand_bytes
    return made


def test_a_share_is_of_the_demand_of_the_first_unlimited_trial(tmp_path: Path):
    sweep = sweep_in(tmp_path)
    assert make_all(sweep) == {"p001": 0, "p002": 1 << 20, "p003": 0}
    assert sweep.is_complete
    # A machine's own paths don't come into the results.
    records = sweep.folder.records()
    assert {tuple(one.settings["command"]) for one in records} == {("true",)}


def test_without_demand_the_sweep_says_so(tmp_path: Path):
    sweep = sweep_in(tmp_path)
    with pytest.raises(CgroupError, match="demand is unknown"):
        make_all(sweep, "0001", "failed")


def test_what_could_not_be_made_is_left_to_the_next_start(tmp_path: Path):
    sweep = sweep_in(tmp_path)
    make_all(sweep, "0006", "harness-error")
    assert (sweep.done, sweep.total, sweep.is_complete) == (5, 6, False)
    assert not (sweep.folder.path / "complete.json").exists()
    sweep.folder.close()
    resumed = sweep_in(tmp_path)
    assert len(make_all(resumed)) == 1
    records = resumed.folder.records()
    assert sorted(one.trial for one in records) == [f"{n:04d}" for n in range(1, 7)]
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
