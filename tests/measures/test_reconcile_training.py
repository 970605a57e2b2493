"""Training reconciled: the same ledgers close where weights are torch's own."""

from __future__ import annotations

from pathlib import Path

import pytest
from ledger_closing import must_close
from shared_sweeps import SharedSweep

from edgebench.analysis.reconciliation import Reconciliation, reconcile_sweep
from edgebench.results.results import Results, load
from edgebench.run.sweep.sweep import SweepOptions, run_sweep
from edgebench.scenario.scenario import load_scenario
from tests.quiet import Quiet

SCENARIO = """
schema = 1
name = "reconcile-training"
repeats = 1
timeout = "3m"
[workload]
kind = "training"
network = "lenet"
data = "digits"
image = 28
optimizer = "adam"
batch = 32
steps = 2
threads = {threads}
[limits]
memory = {memory}
swap = "{swap}"
[memory]
strategies = ["process", "torch"]
"""
LEDGERS = {
    ("sampled", "kernel"),
    ("gnu-time", "process"),
    ("process", "kernel"),
    ("kernel", "kernel"),
    ("process", "process-pss"),
    ("kernel", "process-own"),
    ("process-own", "malloc"),
    ("malloc", "torch"),
}


#: MKL allocates memory for its threads on Intel's processors that it leaves untouched: a rest that
#: nothing tells (docs/explanation/why-numbers-differ.md).
UNTOUCHED = pytest.mark.skipif(
    "GenuineIntel" in Path("/proc/cpuinfo").read_text(), reason="MKL leaves memory untouched here"
)


def explained(results: Results) -> list[Reconciliation]:
    """The sweep's points; all their ledgers are there, and those that must close do."""
    points = reconcile_sweep(results.sweeps[0], network="lenet")
    for point in points:
        assert {(led.source.strategy, led.target.strategy) for led in point.ledgers} == LEDGERS
        ledgers = [ledger for ledger in point.ledgers if must_close(point, ledger)]
        open_ones = [ledger.to_json() for ledger in ledgers if not ledger.closes]
        assert not open_ones, (point.title, open_ones)
    return points


@pytest.mark.own_cgroup
@pytest.mark.torch
def test_every_byte_of_training_is_explained(shared_sweep: SharedSweep) -> None:
    assert len(explained(load(shared_sweep("training")))) == 1


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.own_cgroup
@pytest.mark.torch
@pytest.mark.parametrize(
    ("threads", "memory", "swap"),
    [
        pytest.param(1, '["max", "75%"]', "1G", marks=pytest.mark.swap),
        pytest.param(2, '["max"]', "none", marks=UNTOUCHED),
    ],
)
def test_every_byte_is_explained_at_a_limit_and_with_threads(
    tmp_path: Path, threads: int, memory: str, swap: str
) -> None:
    file = tmp_path / "scenario.toml"
    file.write_text(SCENARIO.format(threads=threads, memory=memory, swap=swap))
    summary = run_sweep(load_scenario(file), SweepOptions(tmp_path, "here"), Quiet())
    assert set(summary.outcomes) == {"ok"}
    assert len(explained(load(summary.folder))) == sum(summary.outcomes.values())
