"""Training reconciled: the same ledgers close where weights are torch's own."""

from __future__ import annotations

from pathlib import Path

import pytest
from ledger_closing import must_close

from edgebench.analysis.reconcile.reconciliation import reconcile_sweep
from edgebench.results.results import load
from edgebench.run.sweep import SweepOptions, run_sweep
from edgebench.scenario.scenario import load_scenario

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
memory = ["max", "75%"]
swap = "1G"
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


class _Quiet:
    """A progress that tells nothing."""

    def __getattr__(self, name: str) -> object:
        return lambda *args: None


#: MKL allocates memory for its threads on Intel's processors that it leaves untouched: a rest that
#: nothing tells (docs/explanation/why-numbers-differ.md).
UNTOUCHED = pytest.mark.skipif(
    "GenuineIntel" in Path("/proc/cpuinfo").read_text(), reason="MKL leaves memory untouched here"
)


@pytest.mark.own_cgroup
@pytest.mark.swap
@pytest.mark.parametrize("threads", [1, pytest.param(2, marks=UNTOUCHED)])
def test_every_byte_of_training_is_explained(tmp_path: Path, threads: int) -> None:
    """LeNet with Adam, unlimited and under demand: each rest is small."""
    file = tmp_path / "scenario.toml"
    file.write_text(SCENARIO.format(threads=threads))
    summary = run_sweep(load_scenario(file), SweepOptions(tmp_path, "here"), _Quiet())
    assert summary.outcomes == {"ok": 2}
    points = reconcile_sweep(load(summary.folder).sweeps[0], network="lenet")
    assert len(points) == 2
    for point in points:
        assert {(led.source.strategy, led.target.strategy) for led in point.ledgers} == LEDGERS
        ledgers = [ledger for ledger in point.ledgers if must_close(point, ledger)]
        open_ones = [ledger.to_json() for ledger in ledgers if not ledger.closes]
        assert not open_ones, (point.title, open_ones)
