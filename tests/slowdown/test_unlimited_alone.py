"""Networks that ran only without a limit: what is known of them is used."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from made_sweep import make
from verb_making import DEVICE, SHAPE, calibration, predicted

from edgebench.results.results import load
from edgebench.slowdown import context
from edgebench.slowdown.calibration import save_calibration
from edgebench.slowdown.context import device_data
from edgebench.slowdown.curves import curves, unlimited_curves

ALONE = replace(SHAPE, networks={"resnet50": 6}, limits=(None,), schedules=("linear",))


@pytest.fixture
def both(tmp_path: Path) -> Path:
    make(tmp_path, replace(SHAPE, networks={"alexnet": 4, "vgg11": 5}))
    make(tmp_path, ALONE)
    save_calibration(calibration(device=DEVICE), tmp_path)
    return tmp_path


def test_unlimited_trials_are_curves_without_limits(both: Path):
    results = load(both)
    alone = unlimited_curves(results)
    assert {one.network for one in alone} == {"resnet50"}
    assert {one.phase for one in alone} == {"load", "first", "total"}
    assert all(len(one.unlimited_seconds) == SHAPE.repeats for one in alone)
    assert not any(len(one.limits) for one in alone)
    assert "resnet50" not in {one.network for one in curves(results)}
    (data,), _ = device_data(results)
    assert {one.network for one in data.curves} == {"alexnet", "vgg11", "resnet50"}


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


@pytest.mark.heavy
def test_its_measured_time_is_what_is_multiplied(both: Path):
    measured = {one.phase: one.unlimited_s for one in unlimited_curves(load(both))}
    (one,) = predicted("resnet50", "--results", both, "--memory", "150M")
    assert not one["was_run"]
    times = {time["phase"]: time["unlimited_s"] for time in one["at"][0]["phases"]}
    assert times == {"total": pytest.approx(measured["total"])}
    assert (one["needs_measured"], one["at"][0]["source"]) == (True, "layer table")


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
