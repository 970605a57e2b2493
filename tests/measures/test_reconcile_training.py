"""Training reconciled: the same ledgers close where weights are torch's own."""

from __future__ import annotations

import pytest
from ledger_closing import must_close
from shared_sweeps import SharedSweep

from edgebench.analysis.reconciliation import Reconciliation, reconcile_sweep
from edgebench.results.results import Results, load

LEDGERS = {
    ("sampled", "kernel"),
    ("gnu-time", "process"),
    ("process", "kernel"),
    ("kernel", "kernel"),
    ("kernel", "process-own"),
    ("process-own", "malloc"),
    ("malloc", "torch"),
}


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
