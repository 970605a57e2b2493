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
from made_sweep import Shape, make
from msgspec import structs
from shared_sweeps import SharedSweep

from edgebench.analysis.reconciliation import reconcile_sweep
from edgebench.cli import cli
from edgebench.cli.compare import reconcile as verb
from edgebench.errors import EdgebenchError
from edgebench.records import WalkReport
from edgebench.report.figures import memory_time as figure_of
from edgebench.report.figures.style import figure_style
from edgebench.results.results import Results, load
from edgebench.results.sweep_reader import Sweep, read_sweep
from edgebench.run.sweep.sweep import SweepOptions, run_sweep
from edgebench.scenario.scenario import load_scenario
from tests.quiet import Quiet

#: From where to where the whole trial's ledgers lead; a network's also to its model.
LEDGERS = {
    ("sampled", "kernel"),
    ("gnu-time", "process"),
    ("process", "kernel"),
    ("kernel", "kernel"),
    ("kernel", "process-own"),
    ("process-own", "malloc"),
    ("malloc", "torch"),
}
TO_MODEL = ("torch", "analytic")
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
#: Somebody's own network.
MODULE = """from torch import nn

def make(width=64):
    return nn.Sequential(nn.Conv2d(3, width, 3), nn.ReLU(), nn.Flatten(), nn.Linear(900 * width, 9))
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """A network that is measured at once, without a limit."""
    folder = tmp_path_factory.mktemp("reconcile")
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
    return load(sweep)


def explained(sweep: Sweep, model: bool = True, network: str | None = None) -> None:
    """Every byte is: all ledgers of each point are there, and close."""
    for point in reconcile_sweep(sweep, network=network):
        ledgers = {(one.source.strategy, one.target.strategy): one for one in point.ledgers}
        assert set(ledgers) == LEDGERS | ({TO_MODEL} if model else set())
        if point.record.limit_bytes is not None:
            # The kernel chooses what of two trials stays in RAM.
            del ledgers["gnu-time", "process"]
        open_ones = [ledger.to_json() for ledger in ledgers.values() if not ledger.closes]
        assert not open_ones, (point.title, open_ones)


@pytest.mark.long
@pytest.mark.swap
@pytest.mark.timeout(1200)
@pytest.mark.own_cgroup
@pytest.mark.torch
def test_every_byte_of_a_network_is_explained(tmp_path: Path) -> None:
    """At a limit too, where the kernel has not killed it with most of its swap free."""
    (tmp_path / "scenario.toml").write_text(SCENARIO)
    scenario = load_scenario(tmp_path / "scenario.toml")
    summary = run_sweep(scenario, SweepOptions(tmp_path, "here"), Quiet())
    assert summary.outcomes["ok"] >= 2
    assert {*summary.outcomes} <= {"ok", "oom-killed"}
    explained(read_sweep(summary.folder))


@pytest.mark.timeout(1200)
@pytest.mark.own_cgroup
@pytest.mark.torch
def test_a_module_of_ones_own_and_its_layers_are_reconciled(results: Results) -> None:
    (point,) = reconcile_sweep(results.sweeps[0])
    ledgers = {(one.source.strategy, one.target.strategy): one for one in point.ledgers}
    assert set(ledgers) == {*LEDGERS, TO_MODEL}
    assert abs(ledgers[TO_MODEL].unexplained_bytes) < 1 << 20
    assert set(point.costs) == {"process", "torch"}
    told = max(event.get("maxrss_bytes") or 0 for event in point.chain.timed.seen.events)
    marked = point.record.gnu_time_maxrss_bytes
    assert marked
    # The same mark of the same process, read from inside and from outside.
    assert 0 <= marked - told < 2 << 20
    assert {layer.key.phase for layer in point.layers} == {"load", "first"}
    for layer in point.layers:
        assert {"kernel", "process", "malloc", "torch", "analytic"} <= set(layer.figures)
        assert all(ledger.closes for ledger in layer.ledgers), layer.span.name


@pytest.mark.own_cgroup
@pytest.mark.torch
@pytest.mark.timeout(1200)
def test_every_byte_of_training_is_explained(shared_sweep: SharedSweep) -> None:
    """Where weights are torch's own."""
    explained(load(shared_sweep("training")).sweeps[0], model=False, network="lenet")


@pytest.mark.own_cgroup
@pytest.mark.torch
@pytest.mark.timeout(1200)
def test_a_file_of_another_engine_has_the_ledgers_of_the_process(
    shared_sweep: SharedSweep,
) -> None:
    """An ONNX file has no torch to look into; the rest is as of any network."""
    words = ["reconcile", str(shared_sweep("onnx"))]
    told = CliRunner().invoke(cli, words, catch_exceptions=False).stdout
    assert told.startswith("1 point   peaks differ by ")
    assert "small.onnx" in told


@pytest.mark.torch
@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("gone.onnx",), 2, "no file"),
        pytest.param(
            ("nosuchmodule:Net",), 1, "no module 'nosuchmodule'", marks=pytest.mark.own_cgroup
        ),
        (("gone",), 1, "gone"),
        ((".", "--input", "float32 1x3"), 2, "--input is of a network that is measured now"),
    ],
)
def test_what_cant_be_reconciled_is_said(
    tmp_path: Path, words: tuple[str, ...], code: int, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EDGEBENCH_CACHE", str(tmp_path / "cache"))
    with pytest.raises(EdgebenchError) as refused:
        CliRunner().invoke(cli, ["reconcile", *words], catch_exceptions=False)
    assert refused.value.exit_code == code
    assert says in str(refused.value)
    assert not (tmp_path / "results").exists()


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
