"""Whole sweeps beside a board's sensors: steps, walks, and sensors turned off."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sensor_trees import Tree, be_patient

from edgebench.measures.machine.sensors.places import find_sensors
from edgebench.results.results import Results, load
from edgebench.run import session as session_module
from edgebench.run.sweep import SweepOptions, run_sweep
from edgebench.scenario.flag_scenario import without_sensors
from edgebench.scenario.scenario import SCHEMA, scenario_of
from tests.quiet import Quiet

pytestmark = [pytest.mark.own_cgroup, pytest.mark.torch]
RAPL = "class/powercap/intel-rapl:0/energy_uj"
#: Its steps take some milliseconds.
TRAINING = {"kind": "training", "network": "mlp", "width": 256, "steps": 5, "learning_rate": 0.001}


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """No sensor is given up because the machine is busy."""
    be_patient(monkeypatch)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tree]:
    """The sensors are those of the tree, whose package draws power all the time."""
    tree = Tree("x86-rapl", tmp_path / "tree")
    found = find_sensors(tree.machine)
    monkeypatch.setattr(session_module, "find_sensors", lambda: found)
    ended = threading.Event()

    def draw() -> None:
        used = 41267482910
        while not ended.wait(0.01):
            used += 100_000
            tree.set(RAPL, used)

    thread = threading.Thread(target=draw)
    thread.start()
    yield tree
    ended.set()
    thread.join()


def swept(folder: Path, workload: dict[str, Any], **limits: Any) -> Results:
    """A sweep of one workload."""
    tables = {
        "schema": SCHEMA,
        "name": "made",
        "repeats": 1,
        "workload": workload,
        "limits": {"swap": "none", **limits},
    }
    return load(run_sweep(scenario_of(tables), SweepOptions(folder, "test"), Quiet()).folder)


def test_turned_off_nothing_is_read(tree: Tree, tmp_path: Path):
    """`sensors = false` and the flag: no readings, no energy, the reason; another fingerprint."""
    tables = {
        "schema": SCHEMA,
        "name": "off",
        "repeats": 1,
        "workload": {"kind": "command", "command": ["true"]},
    }
    plain = scenario_of(tables)
    off = without_sensors(plain)
    results = load(run_sweep(off, SweepOptions(tmp_path, "test"), Quiet()).folder)
    [record] = results.sweeps[0].records
    assert record.sensors is None
    assert record.missing["energy"] == "the sensors were not read"
    assert "--no-sensors" in results.scenario_text
    assert results.resolved["scenario"]["sampler"]["sensors"] is False
    written = scenario_of({**tables, "sampler": {"sensors": False}})
    assert written.fingerprint() == off.fingerprint() != plain.fingerprint()


def test_sensors_do_not_change_what_a_scenario_means(tmp_path: Path):
    """A sweep begun by a version before sensors is resumed: its fingerprint is the same."""
    tables = {
        "schema": SCHEMA,
        "name": "plain",
        "repeats": 1,
        "workload": {"kind": "command", "command": ["true"]},
    }
    plain = scenario_of(tables)
    meaning = json.dumps(plain.model_dump(mode="json", exclude={"sampler": {"sensors"}}))
    assert "sensors" not in meaning
    assert scenario_of({**tables, "sampler": {"sensors": True}}).fingerprint() == (
        plain.fingerprint()
    )


@pytest.mark.root
@pytest.mark.swap
def test_steps_of_training_and_limits_of_a_walk_have_energy(tree: Tree, tmp_path: Path):
    """Each step is a round; a walk's limits share one table, each has the energy of its time."""
    limits = {"memory": ["150%", "90%"], "swap": "1G", "starts": ["max"]}
    limits |= {"plan": "walk", "target": 0.2}
    results = swept(tmp_path, TRAINING, **limits)
    fresh, *_ = [record for record in results.sweeps[0].records if not record.walk]
    [trial] = results.trials.query("trial == @fresh.trial").to_dict("records")
    assert trial["energy_domain"] == "package + dram"
    assert 0 < trial["energy_round_j"] < trial["energy_j"]
    assert trial["energy_round_error_j"] > 0
    energy = results.energy.query("domain == 'package + dram'")
    rounds = energy.query("part == 'round' and trial == @fresh.trial")
    assert len(rounds) == TRAINING["steps"]
    [whole_j] = energy.query("part == 'trial' and trial == @fresh.trial")["energy_j"]
    assert rounds["energy_j"].sum() < whole_j
    readings = results.sensors(fresh.trial)
    assert readings["rapl.package-0_j"].iloc[0] == 0
    # On a busy machine a reading may take long; a row after it is then without that sensor.
    assert readings["rapl.package-0_j"].dropna().is_monotonic_increasing
    assert readings["rapl.package-0_j"].iloc[-1] >= whole_j
    # What was there is in the sweep's environment too, of the machine itself.
    assert set(results.environment["sensors"]) == {"read", "absent"}
    walked = [record for record in results.sweeps[0].records if record.walk]
    assert len(walked) > 1
    for record in walked:
        assert record.energy is not None
        assert record.energy.j is not None
        assert record.energy_domain == "package + dram"
    assert walked[0].sensors is not None
    assert walked[1].sensors is None
    assert set(energy.query("part == 'round'")["trial"]) >= {record.trial for record in walked}


def test_a_session_s_blocked_sensor_is_not_asked_in_the_next_trial(tree: Tree, tmp_path: Path):
    """The bank is the session's: what blocked once is left out, and said, from then on."""
    from edgebench.run.sensor_watch import SensorBank, SensorWatch

    bank = SensorBank(find_sensors(tree.machine), blocked={"rapl.psys": "it did not answer"})
    with SensorWatch(replace(bank, interval_s=0.01)) as watch:
        pass
    assert watch.readings is not None
    assert "rapl.psys" not in {sensor.name for sensor in watch.readings.sensors}
    assert watch.readings.lost == {"rapl.psys": "it did not answer"}
