"""show and export as a person meets them."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import click
import pandas as pd
import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace
from results_making import MIB, loading, make_sweep

import edgebench
from edgebench.cli.show import export, show
from edgebench.errors import ResultsError
from edgebench.results.folder import ResultsFolder

KEPT = Path(__file__).parents[2] / "results" / "vm-2core-24g"


def run(verb: click.Command, *words: str | Path) -> Result:
    return CliRunner().invoke(verb, [str(word) for word in words])


def test_show_fits_eighty_columns(tmp_path: Path):
    def wide(trial: str, label: str, block: int) -> object:
        about = {"networks": ["mobilenet_v3_large"], "schedule": "partial", "loader": "mmap"}
        made = loading(trial, label=label, memory_bytes=123456789, scale=1 + block)
        return replace(made, settings={**made.settings, **about})

    path = make_sweep(tmp_path, labels=("max", "12.5%"), make=wide)  # type: ignore[arg-type]
    done = run(show, path)
    assert done.exit_code == 0, done.exception
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_show_as_json_has_every_point(tmp_path: Path):
    shown = json.loads(run(show, make_sweep(tmp_path), "--json").stdout)
    assert shown["state"] == "complete"
    by_label = {point["limits"]["label"]: point for point in shown["points"]}
    assert by_label["150M"]["slowdowns"]["load"] == pytest.approx(4.0)
    assert by_label["100M"]["outcomes"] == {"oom-killed": 3}


def test_show_works_while_the_sweep_runs(tmp_path: Path):
    path = make_sweep(tmp_path, stop_after=2)
    with ResultsFolder.open(path):
        assert "running, 2 of 9 trials (2 ok)" in " ".join(run(show, path).stdout.split())
    done = run(show, path)
    assert "unfinished, 2 of 9 trials" in " ".join(done.stdout.split())
    assert "edgebench run" in done.stderr


def test_show_works_on_an_empty_and_on_a_broken_sweep(tmp_path: Path):
    assert "0 of 9 trials" in run(show, make_sweep(tmp_path / "a", stop_after=0)).stdout
    path = make_sweep(tmp_path / "b")
    (path / "resolved.json").write_text("{")
    with (path / "trials.jsonl").open("a") as file:
        file.write('{"schema": 1, "tri')
    done = run(show, path)
    assert done.exit_code == 0, done.exception
    assert "complete, 9 of ? trials" in " ".join(done.stdout.split())
    assert "! resolved.json is damaged" in done.stderr
    assert "the last line is torn" in done.stderr


def test_csv_has_whole_numbers_and_no_formulas(tmp_path: Path):
    path = make_sweep(tmp_path)
    trials = path / "trials.jsonl"
    trials.write_text(trials.read_text().replace('"reason":null', '"reason":"=1+1"', 1))
    rows = list(csv.DictReader(io.StringIO(run(export, path).stdout)))
    assert [row["memory_bytes"] for row in rows[:2]] == ["", str(150 * MIB)]
    assert rows[0]["reason"] == "'=1+1"


@pytest.mark.parametrize(
    "name", ["20261129T064840Z-quickstart-grid-2bf09a", "20261128T010948Z-training-limits-54d2ba"]
)
def test_csv_of_trials_is_the_frame(name: str):
    path = KEPT / name
    frame = edgebench.load(path).trials
    written = pd.read_csv(io.StringIO(run(export, path).stdout), dtype={"trial": str})
    assert list(written) == list(frame)
    for column in frame.columns.drop("started_utc"):
        there, known = frame[column].notna() & (frame[column] != ""), written[column].notna()
        assert there.tolist() == known.tolist(), column
        expected = frame[column][there].tolist()
        if frame[column].dtype == float:
            # pandas 2 reads the last digits wrongly.
            expected = pytest.approx(expected, rel=1e-14)
        assert written[column][known].tolist() == expected, column
    some = run(export, path, "--trial", "0003").stdout
    (row,) = pd.read_csv(io.StringIO(some), dtype={"trial": str}).to_dict("records")
    demand = frame.set_index("trial").loc["0003", "workload_demand_bytes"]
    assert (row["trial"], row["workload_demand_bytes"]) == ("0003", demand)


def test_every_frame_can_be_written_and_read_back(tmp_path: Path):
    path = make_sweep(tmp_path)
    frames = ("trials", "phases", "layers", "networks", "samples", "stat")
    asked = [*((frame, "csv") for frame in frames), ("trials", "json"), ("trials", "parquet")]
    readers = {"csv": pd.read_csv, "json": pd.read_json, "parquet": pd.read_parquet}
    for frame, kind in asked:
        target = tmp_path / f"{frame}.{kind}"
        done = run(export, path, "--frame", frame, "-o", target)
        assert done.exit_code == 0, done.exception
        whole = readers[kind](target)
        assert f"Wrote {len(whole)} rows of {frame} to {target}" in done.stderr
        assert len(whole) > 0


def test_one_trials_samples(tmp_path: Path):
    path = make_sweep(tmp_path)
    words = ("--frame", "samples", "--format", "json", "--trial")
    rows = json.loads(run(export, path, *words, "0002").stdout)
    assert [row["usage_bytes"] for row in rows] == [100, 200, 300]
    assert rows[1]["swap_bytes"] is None
    assert isinstance(run(export, path, *words, "0099").exception, ResultsError)


@pytest.mark.heavy
def test_markdown_has_a_table_for_each_workload(tmp_path: Path):
    file = tmp_path / "points.md"
    kept = KEPT / "20261129T064840Z-quickstart-grid-2bf09a"
    assert run(export, kept, "-o", file).exit_code == 0
    text = file.read_text()
    assert text.startswith("## alexnet\n")
    assert "## mobilenet\\_v2" in text
    # A title, a rule and five limits in each.
    assert len([line for line in text.splitlines() if line.startswith("| ")]) == 3 * (2 + 5)
