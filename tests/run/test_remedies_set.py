"""Remedies are set below the limit, as the workload itself sees it, and nothing stays changed."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgebench.measures.machine.disks import whole_disk
from edgebench.measures.machine.system_files import SystemFiles, UnreadableError
from edgebench.records import SCHEMA, TrialRecord
from edgebench.remedies import all_remedies
from edgebench.results.results import load
from edgebench.run.advice_candidates import candidates_of, remedy_target
from edgebench.run.sweep import SweepOptions, run_sweep
from edgebench.scenario.planner import grid_planner
from edgebench.scenario.points import points
from edgebench.scenario.scenario import Scenario, scenario_of
from tests.quiet import Quiet

pytestmark = pytest.mark.own_cgroup
NETWORK = {"kind": "inference", "network": "lenet", "schedule": "bulk", "warm": 1, "threads": 1}
#: Those about pages are each tried without a cgroup, in ``tests/layers/test_advised_pages.py``.
PLAIN, TOGETHER = "plain", ("one-interop-thread", "no-huge-pages", "pageout-behind")


def scenario(workload: dict[str, Any], swap: str = "none") -> Scenario:
    """It, without and with a limit."""
    limits = {"memory": ["max", "700M"], "swap": swap}
    tables = {"schema": SCHEMA, "name": "made", "repeats": 1, "timeout": "2m", "limits": limits}
    return scenario_of({**tables, "workload": workload})


def setting(name: str, workload: dict[str, Any]) -> dict[str, Any]:
    """What a remedy sets of this workload."""
    (_, held) = points(scenario(workload))
    (found,) = (one for one in all_remedies() if one.name == name)
    return dict(found.setting(remedy_target(held)).settings)


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> dict[str, TrialRecord]:
    """A trial below the limit without a remedy, and one with several, of one sweep."""
    own: dict[str, dict[str, Any]] = {PLAIN: {}, "together": {}}
    for name in TOGETHER:
        own["together"] |= setting(name, NETWORK)
    held = {name: points(scenario({**NETWORK, **more}))[1] for name, more in own.items()}
    chosen = [replace(point, id=name) for name, point in held.items()]
    options = SweepOptions(tmp_path_factory.mktemp("tried"), "here")
    planner = grid_planner(chosen, 1, 1)
    made = load(run_sweep(scenario(NETWORK), options, Quiet(), planner, chosen).folder)
    records = {record.point: record for record in made.sweeps[0].records}
    assert {record.outcome for record in records.values()} == {"ok"}
    return records


def test_remedies_are_in_force_in_their_trial_and_change_no_output(tried: dict[str, TrialRecord]):
    """What PyTorch and the kernel say in the trial; without the remedies it is otherwise."""
    plain, found = tried[PLAIN].notes, tried["together"].notes
    assert "huge_pages" not in plain
    assert found["interop_threads"] == 1
    assert found["huge_pages"] is False
    assert plain["interop_threads"] > 1 or os.cpu_count() == 1
    assert tried["together"].settings["page_advice"] == "pageout"
    assert found["output_sha256"] == plain["output_sha256"]


@pytest.fixture
def read_ahead() -> Path:
    """The kernel's file of the disk that this folder lies on."""
    try:
        disk = whole_disk(SystemFiles(), Path.cwd())
    except UnreadableError as reason:
        pytest.skip(f"no disk: {reason}")
    return Path("/sys/block") / disk.name / "queue" / "read_ahead_kb"


@pytest.mark.root
@pytest.mark.exclusive
def test_a_value_of_the_kernel_is_there_in_its_trial_alone(tmp_path: Path, read_ahead: Path):
    """The program prints what it reads from the kernel's file below the limit."""
    before = read_ahead.read_text()
    program = ["cat", str(read_ahead)]
    made = scenario({"kind": "command", "command": program, "throughput_pattern": "(.+)"})
    free, held = points(made)
    candidates, _ = candidates_of(free, held, lossy=False, kernel=True)
    found = next(one for one in candidates if one.name.endswith("-read-ahead"))
    ((file, value),) = found.setting.kernel.items()
    assert (file, value) != (str(read_ahead), before.strip())
    chosen = [candidates[0].limited, found.limited]
    planner = grid_planner(chosen, 1, 1)
    folder = run_sweep(made, SweepOptions(tmp_path, "here"), Quiet(), planner, chosen).folder
    records = {r.settings.get("remedy"): r for r in load(folder).sweeps[0].records}
    assert records[None].throughput_per_s == float(before)
    assert records[found.name].throughput_per_s == float(value)
    assert records[found.name].notes["kernel_values"] == {file: value}
    assert read_ahead.read_text() == before


def test_without_being_asked_for_the_kernel_is_left_alone():
    """Each is named with what to type; what this machine lacks says so."""
    free, held = points(scenario({"kind": "command", "command": ["true"]}, "100M"))
    candidates, untried = candidates_of(free, held, lossy=False)
    assert not any(one.setting.kernel for one in candidates)
    told = {one.name: one for one in untried}
    assert told["page-cluster"].by_hand
    assert told["page-cluster"].command == "echo 0 | sudo tee /proc/sys/vm/page-cluster"
    assert told["swap-order"].reason == "edgebench's own swap is one area"
    for name in ("page-generations", "huge-pages-on-request"):
        assert told[name].reason
