"""Schedules as tasks, and the references that they make."""

from __future__ import annotations

import numpy as np
import pytest
from made_networks import MIB, row, table, workload

from edgebench.layers.names import SCHEDULES, STREAM
from edgebench.slowdown.simulator.cpu_time import TYPICAL_RATES
from edgebench.slowdown.simulator.references import BEFORE, References
from edgebench.slowdown.simulator.tasks import Task, path_s, tasks_of
from edgebench.slowdown.simulator.trace import RuntimeBase, references_of
from edgebench.slowdown.simulator.workload import Workload, layers_of, workload_of


def tasks(work: Workload, seconds: float | None = None) -> tuple[Task, ...]:
    """A round's tasks, each taking so long."""
    return tasks_of(work, TYPICAL_RATES.seconds if seconds is None else lambda task: seconds)


def told(work: Workload, seconds: float | None = None) -> list[str]:
    """Tasks as ``load a0``."""
    return [f"{t.phase} {'abcd'[t.network]}{t.layer.order}" for t in tasks(work, seconds)]


def string(work: Workload, rounds: int = 1) -> References:
    """The references, with no base."""
    return references_of(work, tasks(work), rounds, RuntimeBase(0, 0))


def held(work: Workload) -> float:
    """Most MiB of weights and activations alive at once."""
    return float(string(work).alive.max()) / MIB


def test_linear_loads_and_executes_in_turn():
    """Layer by layer, network by network; a layer without weights is not loaded."""
    work = workload(table(1, 0, 2), table(3), schedule="linear")
    assert told(work) == [
        *("load a0", "first a0", "first a1", "load a2", "first a2", "load b0", "first b0"),
    ]


def test_bulk_loads_all_then_executes_warm_too():
    """All loads of a network, its first pass, its warm ones; then the next network."""
    work = workload(table(1, 2), table(3), schedule="bulk", warm=2)
    assert told(work)[:4] == ["load a0", "load a1", "first a0", "first a1"]
    assert told(work)[4:8] == ["execute a0", "execute a1"] * 2
    assert [t.number for t in tasks(work)][4:8] == [0, 0, 1, 1]
    assert told(work)[8:] == ["load b0", "first b0", "execute b0", "execute b0"]


def test_partial_loads_ahead():
    """Loads go ahead over the whole pipeline; an execution waits for its load and its turn."""
    work = workload(table(1, 1), table(1), schedule="partial", workers=2)
    order = told(work, 1.0)
    assert order.index("load b0") < order.index("first a1")
    path = path_s(tasks(work, 1.0), np.ones((6, 1)))
    assert path.tolist() == [4.0]
    alone = workload(table(1, 1), schedule="partial", workers=1)
    assert told(alone) == ["load a0", "first a0", "load a1", "first a1"]


def test_deepeye_has_two_lanes():
    """Convolutions in one lane, the rest in the other, which executes before it loads."""
    nets = [table(1, 5, 5, connected=2)] * 2
    work = workload(*nets, schedule="deepeye")
    order = told(work, 1.0)
    assert order[:2] == ["load a0", "load a1"]
    assert order.index("first a2") < order.index("load b1")
    after = {f"{t.phase} {t.network}{t.layer.order}": t for t in tasks(work, 1.0)}
    assert order.index("first a0") in after["first 01"].after
    assert path_s(tasks(work, 1.0), np.ones((12, 1))).tolist() == [8.0]


def test_frugal_loads_connected_layers_when_those_before_have_run():
    """In ``deepeye`` the second network's are loaded before."""
    nets = [table(1, 5, 5, connected=1)] * 2
    orders = {
        name: told(workload(*nets, schedule=name), 1.0) for name in ("deepeye", "deepeye-frugal")
    }
    later = {
        name: order.index("load b2") > order.index("first a2") for name, order in orders.items()
    }
    assert later == {"deepeye": False, "deepeye-frugal": True}


def test_admitted_networks_run_side_by_side():
    """With enough memory each has a worker of its own; with one worker it is ``linear``."""
    nets = [table(1, 1), table(1, 1)]
    two, one = (
        tasks(workload(*nets, schedule="admission", workers=workers), 1.0) for workers in (2, 1)
    )
    assert path_s(two, np.ones((8, 1))).tolist() == [4.0]
    assert one == tasks(workload(*nets, schedule="linear"), 1.0)


def test_tasks_wait_only_for_earlier_ones():
    """Whatever the schedule, a task's place comes after all that it waits for."""
    for schedule in set(SCHEDULES) - {STREAM}:
        nets = [table(1, 2, 9, connected=1), table(2, 0, 3), table(4, connected=1)]
        found = tasks(workload(*nets, schedule=schedule, workers=3, warm=1))
        assert all(before < place for place, t in enumerate(found) for before in t.after)


def test_what_each_schedule_holds():
    """Linear holds a layer, bulk a network, the overlapping ones what they loaded ahead."""
    nets = [table(8, 8, 16), table(8, 8)]
    assert 16 < held(workload(*nets, schedule="linear")) < 18
    assert 32 < held(workload(*nets, schedule="bulk")) < 34
    assert 24 < held(workload(*nets, schedule="partial")) < 25
    slow = [row(n, 8, flops=1e10) for n in range(6)]
    assert 40 < held(workload(slow, schedule="partial")) < 41


def test_copy_reads_a_file_into_fresh_memory():
    """Each piece is read from its file, then written; executions read it; then it is freed."""
    work = workload(table(10), schedule="bulk", warm=1)
    found = string(work)
    load = found.task == 0
    assert found.is_file[found.piece[load]].tolist() == [True, False] * 5
    assert found.write[load].tolist() == [False, True] * 5
    used = ~found.is_file[found.piece] & (found.touched > MIB) & (found.task > 0)
    assert len(np.unique(found.piece[used])) == 5
    assert used.sum() == 10
    weights = ~found.is_file & (found.bytes > MIB)
    assert set(found.freed[weights].tolist()) == {len(found) - 1}


def test_mmap_touches_the_file_where_it_is_executed():
    """Nothing is loaded; each execution touches the file's pages."""
    found = string(workload(table(10), schedule="bulk", loader="mmap", warm=1))
    assert not (found.task == 0).any()
    assert found.touched[found.is_file[found.piece]].sum() == 2 * 10 * MIB


def test_rounds_start_cold_or_warm():
    """Evicted files are new pages in the next round; files kept are the same pages."""
    cold = string(workload(table(3), loader="copy"), rounds=2)
    warm = string(workload(table(3), loader="copy", cold=False), rounds=2)
    assert cold.is_file.sum() == 4
    assert warm.is_file.sum() == 2
    assert set(cold.task.tolist()) == {0, 1, 2, 3}


def test_the_base_comes_first():
    """All of the runtime is made by its import, and its core used again and again meanwhile."""
    work = workload(table(1, 0, 1))
    found = references_of(work, tasks(work), 1, RuntimeBase(240 * MIB, 24 * MIB))
    made = np.unique(found.piece[found.task == BEFORE])
    assert found.bytes[made].sum() / MIB == pytest.approx(240, abs=1)
    uses = np.bincount(found.piece[found.task == BEFORE])
    assert uses.max() == 12
    once = found.bytes[made][uses[made] == 1].sum() / MIB
    assert once == pytest.approx(24 + 0.45 * 216 + 0.55 * 216 / 12, abs=3)


def test_rounds_use_little_of_the_runtime():
    """Some of it all the time; scattered pages when all is loaded, and when all is executed."""
    work = workload(table(1, 0, 1))
    found = references_of(work, tasks(work), 2, RuntimeBase(240 * MIB, 24 * MIB))
    apart = (found.scattered[found.piece] > 0) & (found.task >= 0)
    per_round = len(tasks(work))
    assert [tasks(work)[task % per_round].phase for task in found.task[apart]] == [
        *("load", "first") * 2
    ]
    assert found.bytes[found.is_busy | (found.scattered > 0)].sum() == pytest.approx(
        24 * MIB, abs=4
    )


def test_a_containers_own_parameters_stay_for_all_in_it():
    """They are needed from the container's entry to its exit, by what the names tell."""
    rows = [
        {**row(0, 1), "part": "block", "type": "Block (own)"},
        {**row(1, 2), "part": "block.conv"},
        {**row(2, 3), "part": "head"},
    ]
    assert [layer.until for layer in layers_of(rows)] == [1, 1, 2]


def test_settings_make_a_workload():
    """A trial's settings and tables of batch 1 give the pipeline at its own batch size."""
    settings = {
        "pipeline": "x+y",
        "schedule": "bulk",
        "loader": "mmap",
        "batch": 4,
        "rounds": 3.0,
        "warm": 2.0,
        "page_cache": "warm",
        "image": 64.0,
    }
    work = workload_of(settings, {"x": table(1), "y": table(2, connected=1)})
    assert work.networks == ("x", "y")
    assert work.tables[0][0].output_bytes == 4 * int(0.1 * MIB)
    assert work.tables[1][0].connected
    assert not work.cold
    assert work.input_bytes == 4 * 3 * 64 * 64 * 4
    assert work.passes == 3
    assert work.weight_bytes == 3 * MIB


def test_a_mapped_file_is_read_when_it_is_opened():
    """As far as read-ahead goes; the rest of it when it is used."""
    work = workload(table(1, 30), loader="mmap", schedule="bulk")
    found = references_of(work, tasks(work), 1, RuntimeBase(0, 0), ahead_bytes=8 * MIB)
    loads = [n for n, task in enumerate(tasks(work)) if task.phase == "load"]
    opened = np.unique(found.piece[np.isin(found.task, loads)])
    assert found.is_file[opened].all()
    assert found.bytes[opened].sum() / MIB == pytest.approx(1 + 8, abs=0.1)
    every = np.unique(found.piece[found.task >= 0])
    assert found.bytes[every][found.is_file[every]].sum() / MIB == pytest.approx(31, abs=0.1)


def test_networks_share_own_memory_by_their_layers():
    """Each uses its own part in every execution, warm ones too."""
    work = workload(table(1), table(1, 1, 1), schedule="bulk", warm=1)
    found = references_of(work, tasks(work), 1, RuntimeBase(0, 0, 40 * MIB))
    own = (found.scattered[found.piece] > 0) & (found.task >= 0)
    used = [0.0, 0.0]
    for piece, task in zip(found.piece[own], found.task[own], strict=True):
        used[tasks(work)[task].network] += found.bytes[piece] / MIB
    assert used == pytest.approx([2 * 10, 2 * 30], abs=0.1)
