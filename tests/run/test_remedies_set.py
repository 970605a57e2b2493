"""Remedies are set below the limit, as the workload itself sees it, and nothing stays changed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from edgebench.records import SCHEMA, TrialRecord
from edgebench.remedies import all_remedies
from edgebench.results.results import load
from edgebench.run.advise.advice import remedy_target
from edgebench.run.sweep.sweep import SweepOptions, run_sweep
from edgebench.scenario.planner import FixedPlanner
from edgebench.scenario.points import plan, points
from edgebench.scenario.scenario import Scenario, scenario_of
from tests.quiet import Quiet

pytestmark = pytest.mark.own_cgroup
NETWORK = {"kind": "inference", "network": "lenet", "schedule": "bulk", "warm": 1, "threads": 1}
#: Those about pages are each tried without a cgroup, in ``tests/layers/test_advised_pages.py``.
PLAIN, TOGETHER = "plain", ("no-huge-pages", "pageout-behind")


def scenario(workload: dict[str, Any], swap: str = "none") -> Scenario:
    limits = {"memory": ["max", "700M"], "swap": swap}
    tables = {"schema": SCHEMA, "name": "made", "repeats": 1, "timeout": "2m", "limits": limits}
    return scenario_of({**tables, "workload": workload})


def setting(name: str, workload: dict[str, Any]) -> dict[str, Any]:
    (_, held) = points(scenario(workload))
    (found,) = (one for one in all_remedies() if one.name == name)
    return dict(found.setting(remedy_target(held)).settings)


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> dict[str, TrialRecord]:
    own: dict[str, dict[str, Any]] = {PLAIN: {}, "together": {}}
    for name in TOGETHER:
        own["together"] |= setting(name, NETWORK)
    held = {name: points(scenario({**NETWORK, **more}))[1] for name, more in own.items()}
    chosen = [replace(point, id=name) for name, point in held.items()]
    options = SweepOptions(tmp_path_factory.mktemp("tried"), "here")
    planner = FixedPlanner(plan(chosen, 1, 1))
    made = load(run_sweep(scenario(NETWORK), options, Quiet(), planner, chosen).folder)
    records = {record.point: record for record in made.sweeps[0].records}
    assert {record.outcome for record in records.values()} == {"ok"}
    return records


def test_remedies_are_in_force_in_their_trial_and_change_no_output(tried: dict[str, TrialRecord]):
    plain, found = tried[PLAIN].notes, tried["together"].notes
    assert "huge_pages" not in plain
    assert found["huge_pages"] is False
    assert tried["together"].settings["page_advice"] == "pageout"
    assert found["output_sha256"] == plain["output_sha256"]
