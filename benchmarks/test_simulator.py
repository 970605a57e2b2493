"""The simulator: how long a curve of 50 limits takes, nothing remembered from before."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from edgebench.slowdown.simulator.memory_group import Memory
from edgebench.slowdown.simulator.movement_costs import MovementCosts
from edgebench.slowdown.simulator.simulation import Device, Simulation, simulate
from edgebench.slowdown.simulator.trace import RuntimeBase
from edgebench.slowdown.simulator.workload import Workload, workload_of
from edgebench.workloads.preparation import describe_networks

MIB = 1 << 20
#: A curve of so many limits should take no longer than this.
LIMITS, AIM_S = 50, 1.0
DEVICE = Device(
    costs=MovementCosts(fault_s=6e-5, in_s=3e-9, out_s=2e-9, file_s=1e-9, reclaim_s=8e-11),
    fault_bytes=8 * 4096,
    file_fault_bytes=64 * 4096,
    base=RuntimeBase(240.0 * MIB, 40.0 * MIB),
    cores=2,
    memory=Memory(),
)


@pytest.fixture(scope="module")
def tables() -> dict[str, Any]:
    """ResNet-50's layers."""
    made = describe_networks(["resnet50"], identity=None)["networks"]
    return {name: one["table"] for name, one in made.items()}


def workload(tables: dict[str, Any], schedule: str, loader: str) -> Workload:
    """Three rounds, and two warm executions where the schedule has them."""
    settings = {"pipeline": "resnet50", "schedule": schedule, "loader": loader}
    return workload_of({**settings, "rounds": 3, "warm": 2}, tables)


@pytest.mark.parametrize("loader", ["copy", "mmap"])
@pytest.mark.parametrize("schedule", ["linear", "bulk", "partial"])
def test_a_curve_of_resnet50(
    benchmark: BenchmarkFixture, tables: dict[str, Any], schedule: str, loader: str
) -> None:
    """From its layer table to the seconds of every task at every limit; the aim is under 1 s."""
    work = workload(tables, schedule, loader)
    limits = np.geomspace(0.3, 1.2, LIMITS) * (DEVICE.base.bytes + work.weight_bytes)

    bytes_more = itertools.count()

    def curve() -> Simulation:
        # Another runtime each time, so that nothing is known from the time before.
        base = RuntimeBase(DEVICE.base.bytes + next(bytes_more), DEVICE.base.hot_bytes)
        return simulate(work, replace(DEVICE, base=base), limits)

    found = benchmark.pedantic(curve, rounds=7, warmup_rounds=1)
    assert found.io_s.shape[-1] == LIMITS
    if benchmark.stats:
        # The least of them: what else the machine does makes it slower, nothing makes it faster.
        assert benchmark.stats.stats.min < AIM_S
