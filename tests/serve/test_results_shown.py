"""What the page shows of finished sweeps: samples thinned out, rows, CSV, damage said as such."""

from __future__ import annotations

import csv
import fcntl
import io
import os
import shutil
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from made_sweep import Shape, make
from sampled import write_samples
from serving import Served, serving

from edgebench.errors import ResultsError
from edgebench.results.layout import (
    ADVICE,
    COMPLETE,
    ENVIRONMENT,
    LIVE,
    NETWORKS,
    RESOLVED,
    SCENARIO,
    TRIALS,
)
from edgebench.results.results import load
from edgebench.serve import history
from edgebench.serve.history import fast_points, stat_points


@pytest.mark.parametrize("rows", [1, 999, 1000, 1001, 100_000])
def test_samples_are_thinned_out_and_keep_their_extremes(tmp_path: Path, rows: int):
    usage = write_samples(tmp_path / "s.npz", rows)
    drawn = fast_points(tmp_path / "s.npz")
    assert drawn["samples"] == rows
    assert len(drawn["rows"]) <= 1000
    assert max(row[2] for row in drawn["rows"]) == max(usage)
    assert min(row[1] for row in drawn["rows"]) == min(usage)
    assert {row[3] for row in drawn["rows"]} == {None}
    times = [row[0] for row in drawn["rows"]]
    assert times == sorted(times)
    assert times[0] == 0


@pytest.mark.process
def test_real_samples_are_read_as_numpy_reads_them(with_sweep: Served):
    (path,) = with_sweep.root.glob("*/*made*")
    frame = load(path).samples("0001")
    drawn = fast_points(path / "samples" / "0001.npz", points=10**9)
    assert [row[2] for row in drawn["rows"]] == list(frame["usage_bytes"])
    stat = stat_points(path / "samples" / "0001.npz", drawn["start_ns"])
    assert stat["columns"][1:] == [name for name in load(path).stat("0001") if name != "t_ns"]


@pytest.mark.parametrize("damage", ["cut", "empty", "garbage", "no table", "objects"])
def test_damaged_samples_are_said_to_be_so(tmp_path: Path, damage: str):
    file = tmp_path / "s.npz"
    write_samples(file, 5000)
    whole = file.read_bytes()
    if damage == "cut":
        file.write_bytes(whole[: len(whole) // 2])
    elif damage == "empty":
        file.write_bytes(b"")
    elif damage == "garbage":
        file.write_bytes(bytes(len(whole)))
    elif damage == "no table":
        np.savez(file, other=np.zeros(3))
    else:
        np.savez(file, fast=np.array([{}], dtype=object))
    with pytest.raises(ResultsError, match="damaged samples"):
        fast_points(file)


@pytest.mark.process
def test_sweeps_and_trials_with_their_settings(with_sweep: Served):
    (sweep,) = with_sweep.get("/api/sweeps").data["sweeps"]
    assert (sweep["state"], sweep["networks"]) == ("complete", ["alexnet", "lenet"])
    rows = with_sweep.get(f"/api/trials?sweep={quote(sweep['sweep'])}").data["trials"]
    assert len(rows) == 20
    assert {row["network"] for row in rows} == {"alexnet", "lenet"}
    assert {row["limit"] for row in rows} == {"max", "150M", "100M", "75M", "50M"}


@pytest.mark.process
def test_a_trial_in_full(with_sweep: Served):
    name = with_sweep.get("/api/sweeps").data["sweeps"][0]["sweep"]
    data = with_sweep.get(f"/api/trial?sweep={quote(name)}&trial=0001").data
    assert data["row"]["outcome"] == "ok"
    assert data["fast"]["rows"]
    assert {"load", "first"} <= {span["phase"] for span in data["spans"]}
    assert data["warnings"] == []


@pytest.mark.process
def test_csv_has_every_trial(with_sweep: Served):
    name = with_sweep.get("/api/sweeps").data["sweeps"][0]["sweep"]
    answer = with_sweep.get(f"/api/trials.csv?sweep={quote(name)}")
    assert answer.headers["content-disposition"].startswith("attachment")
    rows = list(csv.DictReader(io.StringIO(answer.body.decode())))
    assert len(rows) == 20
    assert rows[0]["network"] == "alexnet"


def test_a_formula_in_a_text_stays_a_text(tmp_path: Path):
    make(tmp_path, Shape(command="=1+1", with_files=False))
    name = history.sweep_rows(tmp_path)[0]["sweep"]
    rows = list(csv.DictReader(io.StringIO(history.trials_csv(tmp_path, [name]))))
    assert {row["command"] for row in rows} == {"'=1+1"}


@pytest.mark.process
@pytest.mark.parametrize("name", ["", "x", "..", "../..", "/etc", "a/b/c", "jetson-nano/.."])
def test_no_name_leads_elsewhere(with_sweep: Served, name: str):
    for path in ("/api/trials?sweep=", "/api/trials.csv?sweep=", "/api/predictions?sweep="):
        assert with_sweep.get(path + quote(name)).status == 422
    answer = with_sweep.get(f"/api/trial?sweep={quote(name)}&trial=..%2F0001")
    assert answer.status == 422


@pytest.mark.process
def test_broken_results_are_shown_as_such(tmp_path: Path):
    whole = make(tmp_path, Shape(repeats=1))
    newer = whole.with_name("20270101T000000Z-newer-000000")
    shutil.copytree(whole, newer)
    (newer / "resolved.json").write_text('{"schema": 99}')
    with (whole / "trials.jsonl").open("ab") as file:
        file.write(b'{"schema": 1, "tri')
    (whole / "samples" / "0001.npz").unlink()
    (whole / "events" / "0001.jsonl.gz").write_bytes(b"no gzip")
    with serving(tmp_path) as served:
        first, second = served.get("/api/sweeps").data["sweeps"]
        assert "schema 99" in first["error"]
        assert "torn" in second["warnings"][0]
        data = served.get(f"/api/trial?sweep={quote(second['sweep'])}&trial=0001").data
        assert data["row"]["outcome"] == "ok"
        assert len(data["warnings"]) == 2


@pytest.mark.promise(
    "A FIFO, a device or a link in a results folder does not keep the page from showing the rest."
)
@pytest.mark.parametrize("plant", ["fifo", "device"])
def test_what_is_no_file_keeps_nothing_else_from_being_shown(tmp_path: Path, plant: str):
    whole = make(tmp_path, Shape(repeats=1))
    planted = whole.with_name("20990101T000000Z-planted-000000")
    shutil.copytree(whole, planted)
    for name in (LIVE, RESOLVED, ENVIRONMENT, NETWORKS, SCENARIO, ADVICE):
        (planted / name).unlink(missing_ok=True)
        put(plant, planted / name)
    for file in [*(planted / "samples").iterdir(), *(planted / "events").iterdir()]:
        file.unlink()
        put(plant, file)
    (planted / COMPLETE).unlink()
    put(plant, planted.parent / "20990102T000000Z-another-000000" / TRIALS)
    with (planted / TRIALS).open() as writing, serving(tmp_path) as served:
        fcntl.flock(writing, fcntl.LOCK_EX)
        with served.stream() as events:
            _, state = next(events)
            assert state["sweep"]["name"] == planted.name
            assert next(events)
            without, first, second = served.get("/api/sweeps").data["sweeps"]
            assert "not a file" in without["error"] or "no results" in without["error"]
            assert first["warnings"]
            assert (second["state"], second["warnings"]) == ("complete", [])
            for sweep in (first, second):
                name = quote(sweep["sweep"])
                assert served.get(f"/api/trials?sweep={name}").data["trials"]
                assert served.get(f"/api/answer?sweep={name}").data["workloads"]
                shown = served.get(f"/api/trial?sweep={name}&trial=0001").data
                assert len(shown["warnings"]) == 2 * (sweep is first)
            assert next(events)


def put(plant: str, path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    if plant == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")


@pytest.mark.process
def test_what_if_tells_slowdown_at_limits(with_sweep: Served):
    with serving(with_sweep.root, helpers=True) as served:
        name = served.get("/api/sweeps").data["sweeps"][0]["sweep"]
        workloads = served.get(f"/api/predictions?sweep={quote(name)}").data["workloads"]
        names = {one["name"] for one in served.get("/api/answer").data["workloads"]}
    assert {one["name"] for one in workloads} == names
    at = workloads[0]["prediction"]["at"]
    assert at[0]["limit_bytes"] > at[-1]["limit_bytes"]
    slowdowns = [one["phases"][0]["slowdown"] for one in at]
    assert slowdowns[-1] > slowdowns[0] >= 0.9
    assert workloads[0]["layers"]["columns"][0] == "layer"


def test_what_cannot_be_predicted_says_why(tmp_path: Path):
    make(tmp_path, Shape(limits=(None,), with_files=False))
    with serving(tmp_path) as served:
        name = served.get("/api/sweeps").data["sweeps"][0]["sweep"]
        answer = served.get(f"/api/predictions?sweep={quote(name)}")
        assert "only unlimited trials" in answer.data["why_not"]
        assert answer.data["workloads"][0]["prediction"] is None
