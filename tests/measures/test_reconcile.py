"""Real networks reconciled: every ledger closes, every layer is told, and the figure names them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from ledger_closing import must_close
from made_sweep import Shape, make
from msgspec import structs

from edgebench.analysis.reconciliation import reconcile_sweep
from edgebench.cli.compare import reconcile as verb
from edgebench.records import WalkReport
from edgebench.report.figures import memory_time as figure_of
from edgebench.report.figures.style import figure_style
from edgebench.results.results import Results, load
from edgebench.results.sweep_reader import read_sweep
from edgebench.run.sweep.sweep import SweepOptions, SweepSummary, run_sweep
from edgebench.scenario.scenario import load_scenario
from tests.quiet import Quiet

SCENARIO = """
schema = 1
name = "reconcile"
repeats = 1
timeout = "3m"
[workload]
kind = "inference"
network = "resnet18"
schedule = "bulk"
loader = ["copy", "mmap"]
warm = 1
[limits]
memory = ["max", "60%"]
swap = "1G"
[memory]
strategies = ["process", "torch"]
"""
#: From where to where the whole trial's ledgers lead.
LEDGERS = {
    ("sampled", "kernel"),
    ("gnu-time", "process"),
    ("process", "kernel"),
    ("kernel", "kernel"),
    ("kernel", "process-own"),
    ("process-own", "malloc"),
    ("malloc", "torch"),
    ("torch", "analytic"),
}


def _swept(file: Path, folder: Path) -> SweepSummary:
    for _ in range(5):
        summary = run_sweep(load_scenario(file), SweepOptions(folder, "here"), Quiet())
        records = load(summary.folder).sweeps[0].records
        killed = [record for record in records if record.outcome == "oom-killed"]
        assert all(record.killed_with_swap_free for record in killed)
        if not killed:
            break
    return summary


#: Somebody's own network.
MODULE = """from torch import nn

def make(width=64):
    return nn.Sequential(nn.Conv2d(3, width, 3), nn.ReLU(), nn.Flatten(), nn.Linear(900 * width, 9))
"""


def measured_at_once(folder: Path) -> Path:
    (folder / "mynet.py").write_text(MODULE)
    words = ["reconcile", "mynet.py:make?width=128", "--input", "float32 1x3x32x32"]
    done = subprocess.run(
        [sys.executable, "-m", "edgebench", *words],
        cwd=folder,
        env={**os.environ, "EDGEBENCH_CACHE": str(folder / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not re.search(r"strategy \w+: (?!ok)", done.stderr), done.stderr
    (sweep,) = folder.glob("results/*/*/")
    return sweep


def resnet18(folder: Path) -> Path:
    file = folder / "scenario.toml"
    file.write_text(SCENARIO)
    summary = _swept(file, folder)
    assert summary.outcomes == {"ok": 4}
    own = read_sweep(summary.folder).strategy_records
    assert not [one.missing for one in own if one.outcome != "ok" or "reading" in one.missing]
    return summary.folder


@pytest.fixture(
    scope="module",
    params=[measured_at_once, pytest.param(resnet18, marks=[pytest.mark.long, pytest.mark.swap])],
)
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Results:
    return load(request.param(tmp_path_factory.mktemp("reconcile")))


@pytest.mark.timeout(1200)
@pytest.mark.own_cgroup
@pytest.mark.torch
@pytest.mark.parametrize(
    "results",
    [pytest.param(resnet18, marks=[pytest.mark.long, pytest.mark.swap])],
    indirect=True,
)
def test_every_byte_of_a_network_is_explained(results: Results) -> None:
    points = reconcile_sweep(results.sweeps[0])
    assert len(points) == len(results.sweeps[0].records)
    for point in points:
        assert {(led.source.strategy, led.target.strategy) for led in point.ledgers} == LEDGERS
        ledgers = [ledger for ledger in point.ledgers if must_close(point, ledger)]
        open_ones = [ledger.to_json() for ledger in ledgers if not ledger.closes]
        assert not open_ones, (point.title, open_ones)
        assert set(point.costs) == {"process", "torch"}
        events = point.chain.timed.seen.events
        told = max(event.get("maxrss_bytes") or 0 for event in events)
        marked = point.record.gnu_time_maxrss_bytes
        assert marked
        # The same mark of the same process, read from inside and from outside.
        assert 0 <= marked - told < 2 << 20


@pytest.mark.timeout(1200)
@pytest.mark.own_cgroup
@pytest.mark.torch
@pytest.mark.parametrize("results", [measured_at_once], indirect=True)
def test_a_module_of_ones_own_is_measured_and_reconciled(results: Results) -> None:
    (point,) = reconcile_sweep(results.sweeps[0])
    ledgers = {(led.source.strategy, led.target.strategy): led for led in point.ledgers}
    assert set(ledgers) == LEDGERS
    assert abs(ledgers["torch", "analytic"].unexplained_bytes) < 1 << 20


@pytest.mark.timeout(1200)
@pytest.mark.own_cgroup
@pytest.mark.torch
def test_every_layer_has_its_ledgers(results: Results) -> None:
    """Unlimited they all close; each layer has its figures before, at most and after."""
    for point in reconcile_sweep(results.sweeps[0]):
        assert {layer.key.phase for layer in point.layers} == {"load", "first"}
        for layer in point.layers:
            assert {"kernel", "process", "malloc", "torch", "analytic"} <= set(layer.figures)
            if point.record.limit_bytes is None:
                assert all(ledger.closes for ledger in layer.ledgers), layer.span.name


@pytest.mark.timeout(1200)
@pytest.mark.own_cgroup
@pytest.mark.torch
@pytest.mark.parametrize(
    "results",
    [pytest.param(resnet18, marks=[pytest.mark.long, pytest.mark.swap])],
    indirect=True,
)
def test_the_model_of_live_tensors_is_torchs_own(results: Results) -> None:
    """Layer by layer, before and after: liveness on meta is what torch's allocator holds."""
    frame = results.memory
    first = frame[(frame["phase"] == "first") & (frame["loader"] == "copy")]
    unlimited = first[first["limit_bytes"].isna()]
    keys = ["layer", "pass_number"]
    torch = unlimited[unlimited["strategy"] == "torch"].set_index(keys)
    model = unlimited[unlimited["strategy"] == "analytic"].set_index(keys)
    weights = model["before_bytes"].iloc[0] - torch["before_bytes"].iloc[0]
    for column in ("before_bytes", "after_bytes"):
        off = (model[column] - weights - torch[column]).abs().max()
        # Batch norm's few kilobytes of scratch.
        assert off < 64 << 10


@pytest.mark.timeout(1200)
@pytest.mark.own_cgroup
@pytest.mark.torch
def test_the_verb_and_the_figure(results: Results) -> None:
    path = str(results.path)
    told = json.loads(CliRunner().invoke(verb, [path, "--json"], catch_exceptions=False).stdout)
    for point in told["points"]:
        for ledger in point["ledgers"]:
            assert {"from", "to", "terms", "unexplained_bytes"} <= set(ledger)
        assert point["layers"]
    trial = told["points"][0]["trial"]
    one = CliRunner().invoke(verb, [path, "--trial", trial], catch_exceptions=False)
    assert "file-pages-elsewhere" in one.stdout
    assert "unexplained" in one.stdout
    with figure_style():
        drawn = list(figure_of.strategy_figures(results))
    assert len(drawn) == len(results.sweeps[0].records)
    axes = drawn[0].figure.axes[0]
    named = {label.get_text() for label in axes.get_xticklabels()}
    assert "import" in named
    assert named & {layer["name"] for layer in told["points"][0]["layers"]}
    legend = axes.get_legend()
    assert legend is not None
    shown = " ".join(text.get_text() for text in legend.get_texts())
    for words in ("kernel's high-water mark", "GNU time", "torch's allocations", "sampled"):
        assert words in shown


@pytest.mark.process
def test_a_fresh_trial_is_preferred_to_a_part_of_a_walk(tmp_path: Path) -> None:
    """Only a whole process has a peak by GNU time; visits of walks serve where nothing else is."""
    (sweep,) = load(make(tmp_path, Shape(limits=(None,), repeats=3))).sweeps
    visit = WalkReport("0002", 2)
    mixed = [sweep.records[0], *(structs.replace(one, walk=visit) for one in sweep.records[1:])]
    (found,) = reconcile_sweep(replace(sweep, records=mixed))
    assert found.record.trial == sweep.records[0].trial
    walked = [structs.replace(one, walk=visit) for one in sweep.records]
    assert reconcile_sweep(replace(sweep, records=walked))


@pytest.mark.torch
@pytest.mark.process
def test_without_strategies_it_says_how_to_get_them(tmp_path: Path) -> None:
    path = make(tmp_path, Shape(networks={"lenet": 4}, limits=(None, 100), repeats=1))
    done = CliRunner().invoke(verb, [str(path)], catch_exceptions=False)
    told = " ".join(done.stdout.split())
    assert '"tcmalloc", "tensorflow", "torch"] in the scenario' in told
    assert told.startswith("1 point peaks differ by ")
    point = reconcile_sweep(load(path).sweeps[0])[0]
    assert {"process", "torch"} <= set(point.missing)
    assert ("sampled", "kernel") in {(x.source.strategy, x.target.strategy) for x in point.ledgers}
    assert not list(figure_of.strategy_figures(load(path)))
