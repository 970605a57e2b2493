"""Predictions for a declared storage, from the one calibration of the storage as it is."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from made_sweep import make
from made_workloads import curve, device
from verb_making import DEVICE, SHAPE, calibration, predicted

from edgebench.results.results import Results, load
from edgebench.slowdown import context, prediction
from edgebench.slowdown.calibration import save_calibration
from edgebench.slowdown.computed import Computed
from edgebench.slowdown.context import (
    DeviceData,
    device_data,
    machine_of,
    matching_device_data,
)
from edgebench.slowdown.prediction import (
    source_of,
    workload_query,
)
from edgebench.text import AS_IS

SLOW = "read=5MB/s"
#: The same sweep twice, but that storage was held in the second, which has fewer networks.
FEWER = replace(SHAPE, networks={"alexnet": 4, "vgg11": 5}, storage=SLOW)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("both")
    make(folder, SHAPE)
    make(folder, FEWER)
    save_calibration(calibration(device=DEVICE), folder)
    return folder


def by_storage(root: Path) -> dict[str, DeviceData]:
    found, warnings = device_data(load(root))
    assert warnings == []
    return {str(data.curves[0].settings.get("storage", AS_IS)): data for data in found}


def slowed(data: DeviceData) -> float:
    asked = next(
        one
        for one in data.curves
        if (one.network, one.phase, one.settings["schedule"]) == ("alexnet", "total", "bulk")
    )
    made = Computed(replace(data, curves=())).phase(replace(asked.unseen(), workload=""))
    return float(made.seconds(asked.limits[:1])[0] / made.round.unlimited_s)


def test_a_declared_speed_counts_for_its_own_storage_alone(both: Path) -> None:
    found = by_storage(both)
    assert {*found} == {AS_IS, SLOW}
    free, held = found[AS_IS].calibration, found[SLOW].calibration
    assert free is not None
    assert held is not None
    assert free.held is None
    assert held.held is not None
    assert held.held.storage == SLOW
    assert replace(held, held=None) == free
    assert slowed(found[SLOW]) > 3 * slowed(found[AS_IS])


def test_swap_that_is_not_given_is_one_that_was_calibrated(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wrong answer that was seen: no swap, since more was measured without one."""
    found = [device(*[curve({300: 22.0})] * 3), device(curve({300: 22.0}))]
    bare = replace(found[0], swap_kind="none", calibration=None)
    monkeypatch.setattr(context, "device_data", lambda results: ([bare, found[1]], []))
    assert [one.swap_kind for one in matching_device_data(Results([]))[0]] == ["file", "none"]
    assert matching_device_data(Results([]), swap_kind="none")[0] == [bare]


def test_machines_of_one_name_are_told_apart(tmp_path: Path) -> None:
    for shape in (SHAPE, SHAPE):
        make(tmp_path, shape)
    save_calibration(calibration(device=DEVICE), tmp_path)
    first, second = sorted(tmp_path.glob("*/*/environment.json"))
    about = json.loads(first.read_text())
    first.write_text(json.dumps({**about, "cpu_model": "one", "kernel": "6.1.0-9"}))
    second.write_text(json.dumps({**about, "cpu_model": "two", "kernel": "6.1.0-9"}))
    there = json.loads(second.read_text())
    save_calibration(replace(calibration(device=DEVICE), environment=there), tmp_path)
    groups, lacking = matching_device_data(load(tmp_path))
    assert len({data.machine for data in groups}) == 2
    assert groups[0].machine == machine_of(there)
    assert groups[0].calibration is not None
    assert not groups[1].calibrated
    assert any("another machine" in words for words in lacking)


def test_what_was_counted_goes_before_what_was_only_tried(
    both: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = {curve.workload for curve in by_storage(both)[SLOW].curves if curve.network == "alexnet"}

    def used() -> DeviceData:
        source = source_of(both, workload_query("alexnet"), storage="read=50MB/s")
        (predictor,) = source.predictors
        assert predictor.there is not None
        assert predictor.there.constants.held is not None
        assert predictor.there.constants.held.storage == "read=50MB/s"
        return predictor.data

    assert used().storage == AS_IS
    monkeypatch.setattr(prediction, "counted_by_workload", lambda _: dict.fromkeys(held))
    assert used().storage == SLOW


def test_a_storage_on_which_nothing_ran_is_computed(both: Path) -> None:
    asked = ("alexnet", "--results", both, "--schedule", "bulk", "--memory", "85M")
    slow, fast = (predicted(*asked, "--storage", f"read={mb}MB/s") for mb in (2, 250))
    found = [one["at"][0] for (one, *_) in (slow, fast)]
    assert {at["source"] for at in found} == {"layer table"}
    totals = [next(t for t in at["phases"] if t["phase"] == "total") for at in found]
    assert totals[0]["slowdown"] > totals[1]["slowdown"] > 1
