"""`edgebench layers` as a person meets it: from a sweep that is there, and measured in truth."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from layer_cost_results import LIMITED, Made, make

from edgebench.cli.layers import layers
from edgebench.errors import ResultsError, UsageError
from edgebench.report.figures.gallery import KINDS
from edgebench.results.results import load
from edgebench.scenario.scenario import load_scenario
from tests.own_path import python_path


def run_layers(*words: str | Path) -> Result:
    """The verb's result; a program's error would be in ``exception``."""
    return CliRunner().invoke(layers, [str(word) for word in words])


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """Unlimited, at 100 MiB, and killed at 40 MiB."""
    killed = Made("40M", outcome="oom-killed", reason="killed by the kernel in import")
    return make(tmp_path, [Made(), Made("100M", [LIMITED]), killed] * 2)


def test_the_layer_that_costs_most_comes_first(made: Path):
    done = run_layers("--from", made, "--no-figure")
    lines = done.stdout.splitlines()
    assert max(map(len, lines[:-1])) <= 80
    assert lines[0].startswith("duo at 100 MiB   2.69 s a round, 2.34x (+1.54 s)   needs ")
    assert " ".join(lines[2].split()).endswith("500 ms 1.50 s 1.40 s 12 91 %")
    assert any(line.split() == ["between", "layers", "0.04", "s", "3", "%"] for line in lines)
    assert "40.0 MiB: killed by the kernel in import" in lines
    assert lines[-1] == f"results: {made}"
    assert "next: edgebench layers duo --memory 40M --swap 2G" in done.stderr


def test_layers_beyond_the_screen_are_summed(tmp_path: Path):
    path = make(tmp_path, [Made()] * 2, networks=[f"n{n}" for n in range(6)])
    short, full = (run_layers("--from", path, "--no-figure", *more) for more in ([], ["--all"]))
    assert "10 others" in short.stdout
    assert "others" not in full.stdout
    assert len(full.stdout.splitlines()) == len(short.stdout.splitlines()) + 9


def test_json_has_all_of_it(made: Path):
    data = json.loads(run_layers("--from", made, "--json", "--no-figure").stdout)
    (table,) = data["tables"]
    assert (data["schema"], data["path"], data["files"]) == (2, str(made), [])
    assert [row["name"] for row in table["layers"]] == ["conv", "fc", "act"]
    assert table["layers"][1]["at"]["100M"]["extra_share"] == pytest.approx(1.4 / 1.54)


@pytest.mark.heavy
def test_the_figure_is_drawn_where_plot_draws_it(made: Path):
    done = run_layers("--from", made)
    figure = made / "figures" / "layer-costs-duo-bulk.png"
    assert f"figure: {figure}" in done.stdout
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert [one.stem for one in KINDS["layer-costs"](load(made))] == [figure.stem]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "no network is named"),
        (["alexnett"], "NETWORK: no network 'alexnett'; did you mean 'alexnet'?"),
        (["lenet", "--schedule", "bulky"], "--schedule: no schedule 'bulky'"),
        (["lenet", "--rounds", "0"], "--rounds: "),
        (["lenet", "--from", "results", "--rounds", "2"], "--rounds is for measuring only"),
    ],
)
def test_words_that_are_off_are_told_before_anything_runs(words: list[str], says: str):
    done = run_layers(*words)
    assert isinstance(done.exception, UsageError)
    assert says in str(done.exception)


def test_folders_without_layers_are_refused(tmp_path: Path, made: Path):
    raised = run_layers("--from", tmp_path / "nothing").exception
    assert isinstance(raised, ResultsError)
    raised = run_layers("lenet", "--from", made).exception
    assert isinstance(raised, UsageError)


@pytest.mark.own_cgroup
@pytest.mark.torch
def test_measured_in_truth(tmp_path: Path):
    words = ("layers", "lenet", "--memory", "32M", "--repeats", "1", "--no-figure", "--json")
    done = subprocess.run(
        [sys.executable, "-m", "edgebench", *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": python_path()},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    (table,) = data["tables"]
    assert "2 trials → " in done.stderr
    assert [row["type"] for row in table["layers"]][:2] == ["Conv2d", "ReLU"]
    whole = table["unlimited"]
    busy = sum(row["share"] for row in table["layers"])
    assert busy + whole["glue_s"] / (whole["layers_s"] + whole["glue_s"]) == pytest.approx(1)
    # One trial of one round: what was added up is what the clock said.
    assert whole["layers_s"] + whole["glue_s"] == pytest.approx(whole["clock_s"]["median"])
    (limit,) = table["unfinished"]
    assert limit["outcomes"] == {"oom-killed": 1}
    # The scenario that was made in code is kept, and can be run again.
    (tmp_path / "again.toml").write_text((tmp_path / data["path"] / "scenario.toml").read_text())
    assert load_scenario(tmp_path / "again.toml").name
