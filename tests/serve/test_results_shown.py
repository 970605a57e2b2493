"""Results as the page shows them: the newest sweep's answer, rows, CSV; damage said as such."""

from __future__ import annotations

import csv
import fcntl
import io
import json
import os
import random
import re
import shutil
import subprocess
import sys
from array import array
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from made_sweep import Shape, make
from serving import Served, serving

from edgebench.cgroups.sampler_process import FAST_COLUMNS
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
from edgebench.serve.app import STATIC, HelperProcess
from edgebench.serve.helper_process import sweep_answer
from edgebench.serve.history import fast_points, stat_points


def write_samples(path: Path, rows: int) -> array[int]:
    chance = random.Random(5)
    usage = array("q", (chance.randrange(10**6, 10**9) for _ in range(rows)))
    fast = np.zeros(rows, dtype=[(name, "<i8") for name in FAST_COLUMNS])
    fast["t_ns"] = np.arange(rows) * 10**6 + 10**12
    fast["usage_bytes"] = usage
    fast["swap_bytes"] = -1
    stat = np.zeros(max(1, rows // 10), dtype=[("t_ns", "<i8"), ("anon_bytes", "<i8")])
    np.savez_compressed(path, fast=fast, stat=stat)
    return usage


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


@pytest.mark.parametrize("damage", ["cut", "garbage", "no table", "objects"])
def test_damaged_samples_are_said_to_be_so(tmp_path: Path, damage: str):
    file = tmp_path / "s.npz"
    write_samples(file, 5000)
    whole = file.read_bytes()
    if damage in ("cut", "garbage"):
        file.write_bytes(whole[: len(whole) // 2] if damage == "cut" else bytes(len(whole)))
    else:
        tables = {"no table": {"other": np.zeros(3)}, "objects": {"fast": np.array([{}], object)}}
        np.savez(file, **tables[damage])
    with pytest.raises(ResultsError, match="damaged samples"):
        fast_points(file)


@pytest.mark.process
def test_sweeps_and_trials_with_their_settings(with_sweep: Served):
    (sweep,) = with_sweep.get("/api/sweeps").data["sweeps"]
    assert (sweep["state"], sweep["networks"]) == ("complete", ["alexnet", "lenet"])
    name = quote(sweep["sweep"])
    rows = with_sweep.get(f"/api/trials?sweep={name}").data["trials"]
    assert len(rows) == 20
    assert {row["network"] for row in rows} == {"alexnet", "lenet"}
    assert {row["limit"] for row in rows} == {"max", "150M", "100M", "75M", "50M"}
    answer = with_sweep.get(f"/api/trials.csv?sweep={name}")
    assert answer.headers["content-disposition"].startswith("attachment")
    table = list(csv.DictReader(io.StringIO(answer.body.decode())))
    assert [row["network"] for row in table] == [row["network"] for row in rows]
    data = with_sweep.get(f"/api/trial?sweep={name}&trial=0001").data
    assert data["row"]["outcome"] == "ok"
    assert data["fast"]["rows"]
    assert {"load", "first"} <= {span["phase"] for span in data["spans"]}
    assert data["warnings"] == []


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


@pytest.mark.process
def test_the_newest_sweep_is_answered_in_the_reports_tables(with_sweep: Served):
    found = with_sweep.get("/api/answer").data
    assert found["name"] == found["sweeps"][0]
    assert [one["brief"] for one in found["workloads"]] == ["alexnet", "lenet"]
    first = found["workloads"][0]
    assert first["tiles"]["needs"] == "200 MiB"
    assert first["table"]["columns"][:2] == ["limit", "ok"]
    assert first["table"]["rows"][0][0] == "none"
    limits = [point["limit_bytes"] for point in first["points"]]
    assert limits[0] is None
    assert limits[1:] == sorted(limits[1:], reverse=True)
    low, median, high = first["points"][-1]["slowdowns"]["total"]
    assert 1 < low <= median <= high


@pytest.mark.process
@pytest.mark.parametrize(
    "code",
    [
        "from edgebench.serve.helper_process import sweep_answer;"
        "sweep_answer(pathlib.Path(sys.argv[1]))",
        "import edgebench.serve.app",
    ],
)
def test_neither_the_server_nor_an_answer_needs_a_large_library(tmp_path: Path, code: str):
    path = make(tmp_path, Shape(repeats=1, with_files=False))
    large = {"numpy", "pandas", "scipy", "torch", "pydantic", "rich"}
    shown = f"import sys, pathlib; {code}; print(sorted({large} & set(sys.modules)))"
    words = [sys.executable, "-c", shown, str(path)]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.process
def test_a_newer_sweep_that_cannot_be_read_hides_no_older_one(tmp_path: Path):
    whole = make(tmp_path, Shape(repeats=1, with_files=False))
    newer = whole.with_name("20990101T000000Z-newer-000000")
    newer.mkdir()
    (newer / "trials.jsonl").write_text(json.dumps({"schema": 99}) + "\n")
    (newer / "resolved.json").write_text('{"schema": 99}')
    with serving(tmp_path) as served:
        found = served.get("/api/answer").data
        assert found["name"] == f"{whole.parent.name}/{whole.name}"
        assert len(found["sweeps"]) == 2
        asked = served.get(f"/api/answer?sweep={quote(found['sweeps'][0])}")
        assert asked.status == 422
        assert "schema 99" in asked.data["error"]["what"]


def test_an_answer_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = make(tmp_path, Shape(repeats=1, with_files=False))
    asked: list[str] = []

    async def counted(self: HelperProcess, about: str, **details: Any) -> bytes:
        asked.append(about)
        made = sweep_answer(Path(details["sweep"])) if about == "answer" else {}
        return json.dumps(made).encode()

    monkeypatch.setattr(HelperProcess, "ask", counted)
    with serving(tmp_path) as served:
        before = served.get("/api/answer").data
        assert served.get("/api/answer").data == before
        assert asked.count("answer") == 1
        lines = (path / "trials.jsonl").read_text().splitlines(keepends=True)
        (path / "trials.jsonl").write_text("".join(lines[:-1]))
        assert served.get("/api/answer").data["done"] == before["done"] - 1
        assert asked.count("answer") == 2


@pytest.mark.process
def test_every_module_of_the_page_is_asked_for_at_once(served: Served):
    """Modules that import each other would else arrive one after the other, and the paint late."""
    page = served.get("/").body.decode()
    asked = set(re.findall(r'(?:modulepreload" href|script src)="js/([a-z_]+\.js)"', page))
    assert asked == {path.name for path in (STATIC / "js").glob("*.js")}
