"""The simulator on networks made up, where what is missed can be counted by hand."""

from __future__ import annotations

import mmap
from dataclasses import replace

import numpy as np
import pytest
from kernel_by_page import KernelByPage
from made_networks import MIB, TABLES, calibration, constant, table, workload

from edgebench.slowdown.simulator.cpu_time import TYPICAL_RATES
from edgebench.slowdown.simulator.profile import demand_bytes
from edgebench.slowdown.simulator.simulation import Simulation, device_of, simulate
from edgebench.slowdown.simulator.tasks import tasks_of
from edgebench.slowdown.simulator.trace import RuntimeBase, references_of
from edgebench.slowdown.simulator.workload import Workload

DEVICE = device_of(calibration())
#: Coarse against the kernel's, fine against any layer.
PAGE = 128 << 10
SCHEDULES, LOADERS = ("linear", "bulk", "partial", "deepeye"), ("copy", "mmap")


def simulated(work: Workload, *mib: float) -> Simulation:
    """At limits in MiB."""
    return simulate(work, DEVICE, np.array(mib) * MIB)


def in_steady_state(found: Simulation, values: np.ndarray, phase: str) -> np.ndarray:
    """Of all tasks of a phase in the last round, together."""
    by_round = values.reshape(found.io_s.shape)
    return by_round[-1, found.where(phase)].sum(axis=0)


def by_page(work: Workload, limit: float) -> dict[str, float]:
    """MiB that come back and are read again when the workload goes through the kernel's loops."""
    references = references_of(
        work, tasks_of(work, TYPICAL_RATES.seconds), work.rounds, DEVICE.base
    )
    counted = KernelByPage(references, PAGE, int(limit // PAGE)).run()
    return {
        name: sum(pages for task, pages in counts.items() if task >= 0) * (PAGE / MIB)
        for name, counts in (("in", counted.back), ("file", counted.read))
    }


@pytest.mark.parametrize(("loader", "largest"), [("copy", 0.9), ("mmap", 0.7)])
def test_what_comes_back_is_what_the_kernel_s_loops_bring_back_page_by_page(
    loader: str, largest: float
):
    """Two networks, three rounds; how fast idle memory gives way to a few MiB is not certified."""
    nets = (TABLES["alexnet"], TABLES["mobilenet_v2"])
    work = workload(*nets, schedule="bulk", loader=loader, rounds=3, warm=2)
    limits = np.array([largest, 0.5, 0.35]) * demand_bytes(work, DEVICE)
    found = simulate(work, DEVICE, limits).missed
    told = {"in": found.in_bytes, "file": found.file_bytes}
    for column, limit in enumerate(limits):
        for name, mib in by_page(work, limit).items():
            assert told[name][:, column].sum() / MIB == pytest.approx(mib, rel=0.1, abs=8), name


def test_the_same_again_and_whatever_else_is_asked():
    """Bit for bit the same, and a limit's answer does not depend on the others asked with it."""
    work = workload(TABLES["alexnet"], schedule="bulk", rounds=3, warm=2)
    limits = (200.0, 150.0, 100.0, 80.0)
    together = simulated(work, *limits)
    assert (simulated(work, *limits).io_s == together.io_s).all()
    for n, limit in enumerate(limits):
        assert (simulated(work, limit).io_s[..., 0] == together.io_s[..., n]).all()


@pytest.mark.parametrize("loader", LOADERS)
def test_a_first_round_does_not_depend_on_how_many_follow(loader: str):
    """Bit for bit the same at each limit: a walk's start is simulated without the rounds after."""
    work = workload(TABLES["alexnet"], schedule="bulk", loader=loader, rounds=3, warm=2)
    limits = (200.0, 150.0, 100.0, 80.0)
    first = simulated(work, *limits).moved[:, :1]
    assert (simulated(replace(work, rounds=1), *limits).moved == first).all()
    assert first.sum() > 0


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("loader", LOADERS)
def test_nothing_is_missed_above_the_demand(schedule: str, loader: str):
    """With room for all of it a limit costs nothing."""
    work = workload(table(3, 0, 9, 20, connected=1), schedule=schedule, loader=loader, rounds=2)
    # What the page cache keeps is room that anonymous memory does not get.
    found = simulated(work, demand_bytes(work, DEVICE) / MIB + 40)
    assert found.io_s.sum() == 0


def test_warm_executions_below_the_weights_read_them_all_again():
    """LRU on a cyclic scan: each pass of the steady state misses every weight."""
    work = workload(table(10, 20, 30), schedule="bulk", rounds=3, warm=4)
    found = simulated(work, 60.0)
    passes = work.passes - 1
    weights = 60.0 * MIB
    came_in = in_steady_state(
        found, found.missed.in_bytes - found.missed.scattered_bytes, "execute"
    )
    assert came_in[0] / passes == pytest.approx(weights, rel=0.02)
    seconds = in_steady_state(found, found.io_s, "execute")[0]
    assert seconds > came_in[0] / 1e8 * 0.99


def test_later_rounds_read_nothing_back_while_weights_and_the_hot_base_fit():
    """The first round pushes the idle base out and pays for it; the next ones pay little."""
    work = workload(table(10, 20, 30), schedule="bulk", rounds=3, warm=2)
    # 60 MiB of weights, 10 of the hot base, activations, the page cache's 16; not the idle 50.
    found = simulated(work, 90.0)
    by_round = found.io_s.sum(axis=1)[:, 0]
    assert by_round[0] > 0.5
    assert max(by_round[1:]) < by_round[0] / 5
    in_order = found.missed.in_bytes - found.missed.scattered_bytes
    assert in_order.reshape(found.io_s.shape)[1:].sum() == 0


@pytest.mark.parametrize("loader", LOADERS)
def test_room_for_what_comes_back_is_not_paid_twice(loader: str):
    """Only fresh memory pays for what makes room: what comes back has it in its own rate."""
    work = workload(table(10, 20, 30), schedule="bulk", loader=loader, rounds=3, warm=4)
    found = simulated(work, 60.0)
    moved = found.moved[:, -1, :, 0]
    _, in_bytes, _, file_bytes, for_new = moved[:, found.where("execute")].sum(axis=1)
    assert in_bytes + file_bytes > 100 * MIB
    assert for_new < (in_bytes + file_bytes) / 20
    assert moved[4].sum() > 20 * MIB


def test_reclaiming_a_page_takes_most_of_the_time_of_touching_it():
    """0.8 of a minor fault's (docs/decisions.md)."""
    costs = device_of(calibration(minor_fault_s=constant(1e-6))).costs
    assert costs.reclaim_s * mmap.PAGESIZE == pytest.approx(0.8e-6)


def test_mapped_weights_are_read_again_from_their_file():
    """They go before idle anonymous memory does, and never to swap."""
    work = workload(table(10, 20, 30), schedule="bulk", loader="mmap", rounds=3, warm=2)
    found = simulated(work, 90.0)
    assert found.missed.file_bytes.sum() > 60 * MIB
    in_order = found.missed.in_bytes - found.missed.scattered_bytes
    assert in_order.sum() == 0


def test_zram_writes_anew_what_a_disk_keeps():
    """Weights that come back unchanged go out again at no cost from a disk, not from zram."""
    work = workload(table(10, 20, 30), schedule="bulk", rounds=3, warm=4)
    zram = device_of(calibration(swap_kind="zram"))
    limit = np.array([60.0 * MIB])
    out = {
        name: simulate(work, device, limit).missed.out_bytes.sum()
        for name, device in (("disk", DEVICE), ("zram", zram))
    }
    assert out["zram"] > 2 * out["disk"]


def test_without_swap_nothing_goes_there():
    """What does not fit is killed, not slowed: the simulator charges it nothing."""
    bare = device_of(
        calibration(swap_kind="none", swap_in_bytes_per_s=None, swap_out_bytes_per_s=None)
    )
    found = simulate(workload(table(10, 20, 30), rounds=2), bare, np.array([60.0 * MIB]))
    assert found.missed.in_bytes.sum() == found.missed.out_bytes.sum() == 0


def test_the_start_writes_the_idle_runtime_out_and_later_rounds_hardly_do():
    """Where weights and the hot base fit, a limit costs the start much more than steady rounds."""
    of = {"schedule": "bulk", "warm": 2}
    found = simulated(workload(table(10, 20, 30), rounds=3, **of), 90.0)
    every = np.ones(len(found.tasks), dtype=bool)
    start = found.a_round(found.io_s, every, start=True)[0]
    assert start > 5 * found.a_round(found.io_s, every)[0]
    once = simulated(workload(table(10, 20, 30), rounds=1, **of), 90.0)
    assert once.a_round(once.io_s, every)[0] == once.a_round(once.io_s, every, start=True)[0] > 0


def test_threads_halve_the_read_ahead():
    """Where threads share a scan each fault brings half as much; one thread gets all of it."""
    made = calibration(environment={"cpu_cores_usable": 4}, fault_s=constant(1e-4))
    device = device_of(made)
    assert device.swap_fault_bytes(None) == device.fault_bytes / 2
    assert device.swap_fault_bytes(1) == device.fault_bytes


def test_overlapping_schedules_hide_what_waits():
    """A round on the clock is no longer than its tasks one after another."""
    work = workload(TABLES["alexnet"], TABLES["vgg11"], schedule="partial", rounds=2)
    found = simulated(work, 150.0)
    cpu_s = np.full(len(found.tasks), 0.01)
    alone = found.a_round(found.io_s, np.ones(len(found.tasks), dtype=bool)) + cpu_s.sum()
    clock = found.round_s(cpu_s)
    assert 0.5 * alone[0] < clock[0] <= alone[0]


def test_a_walk_goes_on_until_the_idle_runtime_has_made_room_for_mapped_weights():
    """In a fresh process' few rounds they are read again beside it; all that rounds need fits."""
    base = RuntimeBase(200.0 * MIB, 10.0 * MIB)
    device = replace(device_of(calibration()), base=base)
    work = workload(table(*[2.5] * 36), schedule="bulk", loader="mmap", rounds=4, warm=2)
    read = {}
    for walked in (False, True):
        found = simulate(replace(work, walked=walked), device, np.array([190.0, 80.0]) * MIB)
        every = np.ones(len(found.tasks), dtype=bool)
        read[walked] = found.a_round(found.missed.file_bytes, every) / MIB
    assert read[False][0] > 60
    assert read[True][0] == 0
    # Where they don't fit, they are read for good.
    assert read[True][1] > 60
