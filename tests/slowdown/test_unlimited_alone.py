"""Predictions where nothing was measured: without a limit alone, or on another storage."""

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
from edgebench.slowdown.curves import curves, unlimited_curves
from edgebench.slowdown.prediction import (
    source_of,
    workload_query,
)
from edgebench.text import AS_IS

ALONE = replace(SHAPE, networks={"resnet50": 6}, limits=(None,), schedules=("linear",))


@pytest.fixture
def both(tmp_path: Path) -> Path:
    make(tmp_path, replace(SHAPE, networks={"alexnet": 4, "vgg11": 5}))
    make(tmp_path, ALONE)
    save_calibration(calibration(device=DEVICE), tmp_path)
    return tmp_path


@pytest.mark.heavy
def test_unlimited_trials_are_curves_whose_times_are_multiplied(both: Path):
    results = load(both)
    alone = unlimited_curves(results)
    assert {one.network for one in alone} == {"resnet50"}
    assert {one.phase for one in alone} == {"load", "first", "total"}
    assert all(len(one.unlimited_seconds) == SHAPE.repeats for one in alone)
    assert not any(len(one.limits) for one in alone)
    assert "resnet50" not in {one.network for one in curves(results)}
    (data,), _ = device_data(results)
    assert {one.network for one in data.curves} == {"alexnet", "vgg11", "resnet50"}
    measured = next(one.unlimited_s for one in alone if one.phase == "total")
    (told,) = predicted("resnet50", "--results", both, "--memory", "150M")
    times = {time["phase"]: time["unlimited_s"] for time in told["at"][0]["phases"]}
    assert times == {"total": pytest.approx(measured)}
    known = (told["was_run"], told["needs_measured"], told["at"][0]["source"])
    assert known == (False, True, "layer table")


def test_a_phase_without_a_limit_alone_is_no_workload_with_another_swap(
    both: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = load(both)
    total = next(one for one in curves(results) if one.phase == "total")
    start = replace(total, phase="start", settings={**total.settings, "swap_kind": "zram"}).unseen()
    walked = replace(total, settings=start.settings)
    other = replace(total, workload="another")
    monkeypatch.setattr(context, "curves", lambda _: [walked, other])
    monkeypatch.setattr(context, "unlimited_curves", lambda _: [start])
    found = {data.swap_kind: [one.phase for one in data.curves] for data in device_data(results)[0]}
    assert found == {"zram": ["total", "start"], total.settings["swap_kind"]: ["total"]}


def test_a_workload_that_only_ran_above_its_need_has_a_lower_bound(tmp_path: Path):
    make(tmp_path, replace(SHAPE, networks={"alexnet": 4}, schedules=("linear",)))
    make(tmp_path, replace(ALONE, limits=(None, 400)))
    found = {
        one["network"]: one["at"][0] for one in predicted("--results", tmp_path, "--memory", "150M")
    }
    (total,) = (time for time in found["resnet50"]["phases"] if time["phase"] == "total")
    assert (found["resnet50"]["outcome"], total["at_least"]) == ("ok", True)
    assert found["alexnet"]["source"] == "between measured limits"


def test_a_workload_that_was_killed_at_each_limit_is_killed_below_them(tmp_path: Path):
    """Killed at 100 and 150 MiB beside 16 of swap; it needs 200: 220 are enough."""
    about = {"networks": {"alexnet": 4}, "limits": (None, 150, 100), "killed_below": 999.0}
    make(tmp_path, replace(SHAPE, schedules=("bulk",), swap_bytes=16 << 20, **about))
    save_calibration(calibration(device=DEVICE), tmp_path)
    (one,) = predicted("--results", tmp_path, "--memory", "120M,220M")
    assert (one["was_run"], one["needs_bytes"]) == (False, 200 << 20)
    assert [at["outcome"] for at in one["at"]] == ["oom-killed", "ok"]


SLOW = "read=5MB/s"
#: The same sweep twice, but that storage was held in the second, which has fewer networks.
FEWER = replace(SHAPE, networks={"alexnet": 4, "vgg11": 5}, storage=SLOW)


@pytest.fixture(scope="module")
def two_storages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("storages")
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


def test_a_declared_speed_counts_for_its_own_storage_alone(two_storages: Path) -> None:
    found = by_storage(two_storages)
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
    two_storages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = {
        curve.workload
        for curve in by_storage(two_storages)[SLOW].curves
        if curve.network == "alexnet"
    }

    def used() -> DeviceData:
        source = source_of(two_storages, workload_query("alexnet"), storage="read=50MB/s")
        (predictor,) = source.predictors
        assert predictor.there is not None
        assert predictor.there.constants.held is not None
        assert predictor.there.constants.held.storage == "read=50MB/s"
        return predictor.data

    assert used().storage == AS_IS
    monkeypatch.setattr(prediction, "counted_by_workload", lambda _: dict.fromkeys(held))
    assert used().storage == SLOW


def test_a_storage_on_which_nothing_ran_is_computed(two_storages: Path) -> None:
    asked = ("alexnet", "--results", two_storages, "--schedule", "bulk", "--memory", "85M")
    slow, fast = (predicted(*asked, "--storage", f"read={mb}MB/s") for mb in (2, 250))
    found = [one["at"][0] for (one, *_) in (slow, fast)]
    assert {at["source"] for at in found} == {"layer table"}
    totals = [next(t for t in at["phases"] if t["phase"] == "total") for at in found]
    assert totals[0]["slowdown"] > totals[1]["slowdown"] > 1
