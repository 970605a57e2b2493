"""A sweep whose trials other machines make: order, shares of demand, losses and resuming."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edgebench.errors import CgroupError
from edgebench.fleet.device_sweep import MOST_TRIES, DeviceSweep
from edgebench.run.sweep import PlannedSweep
from edgebench.scenario.planner import planner_of
from edgebench.scenario.points import points
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
    """The sweep of six trials, new or resumed."""
    scenario = scenario_of(TABLES)
    every = points(scenario)
    planned = PlannedSweep(scenario, every, planner_of(scenario, every), {})
    return DeviceSweep(planned, root, "board", {"device": "board"})


def answer_to(order: dict[str, Any], outcome: str = "ok", demand: int = 1 << 20) -> dict[str, Any]:
    """What a machine answers to an order; only unlimited trials show demand."""
    planned = order["planned"]
    record = {
        **{key: planned[key] for key in ("trial", "block", "repeat")},
        "point": planned["point_id"],
        "settings": {"kind": "command", "command": ["/elsewhere/true"]},
        "limits": {"label": LABELS[planned["point_id"]]},
        "outcome": outcome,
        "started_utc": "2026-01-01T00:00:00",
        "demand_bytes": demand if planned["point_id"] == "p001" else None,
    }
    return {"records": [record], "files": {f"logs/{planned['trial']}.log": b"said"}}


def finish(sweep: DeviceSweep) -> list[dict[str, Any]]:
    """Make all that is left; the orders in their order."""
    orders = []
    while order := sweep.next_trial():
        orders.append(order)
        sweep.keep(order["planned"]["trial"], "pi-1", answer_to(order))
    assert not sweep.plan_further()
    return orders


def fail_all(sweep: DeviceSweep) -> None:
    """Make all that is left, and let each trial fail."""
    while order := sweep.next_trial():
        sweep.keep(order["planned"]["trial"], "pi-1", answer_to(order, "failed", 0))


def test_a_share_waits_for_the_demand_that_it_is_of(tmp_path: Path):
    """No machine gets a trial at 50 % before the first unlimited trial is recorded."""
    sweep = sweep_in(tmp_path)
    out = []
    while order := sweep.next_trial():
        out.append(order)
    handed = {order["planned"]["point_id"] for order in out}
    assert len(out) == 4
    first = next(o for o in out if o["planned"]["trial"] == "0001")
    assert first["planned"]["point_id"] == "p001"
    assert handed == {"p001", "p003"}
    sweep.keep("0001", "pi-1", answer_to(first))
    left = [sweep.next_trial(), sweep.next_trial()]
    assert [order["demand_bytes"] for order in left if order] == [1 << 20, 1 << 20]


def test_without_demand_the_sweep_says_so(tmp_path: Path):
    """If every unlimited trial failed, a share is of nothing."""
    sweep = sweep_in(tmp_path)
    with pytest.raises(CgroupError, match="demand is unknown"):
        fail_all(sweep)


def test_records_have_the_machine_and_the_controllers_settings(tmp_path: Path):
    """A machine's own paths don't come into the results; which machine it was does."""
    sweep = sweep_in(tmp_path)
    finish(sweep)
    records = sweep.folder.records()
    assert {record.machine for record in records} == {"pi-1"}
    assert {tuple(record.settings["command"]) for record in records} == {("true",)}
    assert sweep.folder.log_path("0001").read_bytes() == b"said"
    assert (sweep.folder.path / "complete.json").exists()


def test_a_lost_trial_is_made_first_and_recorded_once(tmp_path: Path):
    """What a machine took with it is handed out next; a late second answer changes nothing."""
    sweep = sweep_in(tmp_path)
    order = sweep.next_trial()
    assert order
    trial = order["planned"]["trial"]
    sweep.give_back(trial)
    again = sweep.next_trial()
    assert again
    assert again["planned"]["trial"] == trial
    assert sweep.keep(trial, "pi-1", answer_to(again))
    assert sweep.keep(trial, "pi-2", answer_to(again)) is None
    finish(sweep)
    assert sorted(r.trial for r in sweep.folder.records()) == [f"{n:04d}" for n in range(1, 7)]


def test_what_machines_can_not_make_is_tried_on_others_and_then_recorded(tmp_path: Path):
    """A machine's own error is no result: the trial goes round, then stands as harness-error."""
    sweep = sweep_in(tmp_path)
    for _ in range(MOST_TRIES):
        order = sweep.next_trial()
        assert order
        assert order["planned"]["trial"] == "0001"
        sweep.keep("0001", "pi-1", answer_to(order, "harness-error"))
    assert [r.outcome for r in sweep.folder.records()] == ["harness-error"]


def test_a_controller_that_was_killed_goes_on(tmp_path: Path):
    """The next start makes what is not recorded, and only that, in the same folder."""
    sweep = sweep_in(tmp_path)
    made = []
    for _ in range(2):
        order = sweep.next_trial()
        assert order
        made.append(order["planned"]["trial"])
        sweep.keep(made[-1], "pi-1", answer_to(order))
    assert sweep.next_trial()
    sweep.folder.close()
    resumed = sweep_in(tmp_path)
    assert resumed.resumed == 2
    later = [order["planned"]["trial"] for order in finish(resumed)]
    assert sorted(made + later) == [f"{n:04d}" for n in range(1, 7)]
    assert resumed.folder.path == sweep.folder.path


def test_a_trial_that_kills_machines_is_given_up(tmp_path: Path):
    """It is recorded as what the harness could not make, and the sweep is not complete."""
    sweep = sweep_in(tmp_path)
    order = sweep.next_trial()
    assert order
    sweep.give_up(order["planned"]["trial"], "KilledWorker")
    while one := sweep.next_trial():
        demand = answer_to(one)
        sweep.keep(one["planned"]["trial"], "pi-1", demand)
    assert not sweep.plan_further()
    assert not (sweep.folder.path / "complete.json").exists()


@pytest.mark.promise("A fleet's controller keeps no answer that is not to the order it gave.")
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"trial": "0002"}, "of trial 0002"),
        ({"point": "p003"}, "of point p003 at max"),
        ({"limits": {"label": "32M"}}, "of point p001 at 32M"),
        ({"repeat": 7}, "of trial 0001"),
        ({"strategy": "process"}, "other settings"),
        ({"settings": {"kind": "training", "command": ["true"]}}, "other settings"),
        ({"settings": {"kind": "command", "command": ["true"], "seed": 5}}, "other settings"),
        ({"walk": {"walk": "0003", "step": 0}}, "of the walk 0003"),
        ({"limits": 5}, "damaged"),
    ],
)
def test_an_answer_to_another_order_is_a_fault(tmp_path: Path, changes: dict[str, Any], words: str):
    """Another trial, point, limit, turn or setting: said; what is kept is as it was."""
    sweep = sweep_in(tmp_path)
    order = sweep.next_trial()
    assert order
    answer = answer_to(order)
    assert sweep.fault_of("0001", answer) is None
    fault = sweep.fault_of("0001", {**answer, "records": [{**answer["records"][0], **changes}]})
    assert fault
    assert words in fault.what
    for name in ("logs/0002.log", "../0001", "logs/../0001.log"):
        fault = sweep.fault_of("0001", {**answer, "files": {name: b""}})
        assert fault
        assert name in fault.what
    assert sweep.fault_of("0001", {**answer, "records": []})
    assert sweep.folder.records() == []
