"""What a network holds beside its weights, layer by layer, against tables made by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from made_networks import MIB, row

from edgebench.slowdown.simulator.allocator import DEFAULTS, MallocSettings
from edgebench.slowdown.simulator.cpu_time import TYPICAL_RATES
from edgebench.slowdown.simulator.references import References
from edgebench.slowdown.simulator.tasks import Task, tasks_of
from edgebench.slowdown.simulator.trace import RuntimeBase, references_of
from edgebench.slowdown.simulator.workload import Layer, Workload, layers_of
from edgebench.workloads.preparation import describe_networks

#: MiB of the network's input, which is alive all the time.
INPUT = 1
#: An allocator that keeps nothing that is freed.
GIVES_BACK = MallocSettings(adapts=False)


def layer(order: int, before: int, peak: int, after: int, output: int, copied: int = 0) -> Layer:
    """A layer without weights; sizes in MiB, the input not among them."""
    told = {
        f"live_{when}_bytes": (INPUT + size) * MIB
        for when, size in (
            ("before", before),
            ("peak", peak),
            ("after", after),
        )
    }
    made = row(order, 0) | told | {"output_bytes": output * MIB, "workspace_bytes": copied * MIB}
    return replace(layers_of([made])[0], order=order)


def string(
    *layers: Layer, rounds: int = 1, malloc: MallocSettings = GIVES_BACK
) -> tuple[tuple[Task, ...], References]:
    """One network's executions, with no runtime; its tasks are its layers."""
    work = Workload(("a",), (layers,), rounds=rounds, malloc=malloc)
    tasks = tasks_of(work, TYPICAL_RATES.seconds)
    return tasks, references_of(work, tasks, rounds, RuntimeBase(0, 0))


def alive(*layers: Layer) -> list[int]:
    """The most MiB alive while each layer is executed."""
    tasks, found = string(*layers)
    return [round(found.alive[found.task == n].max() / MIB) for n in range(len(tasks))]


def test_what_later_layers_need_stays():
    """The first output is added to the third, and is read and given back after that layer."""
    block = (layer(0, 0, 4, 4, 4), layer(1, 4, 8, 8, 4), layer(2, 8, 12, 8, 4))
    assert alive(*block, layer(3, 4, 6, 2, 2), layer(4, 2, 4, 2, 2)) == [4, 8, 12, 8, 4]


def test_what_is_done_between_layers_is_seen_at_the_next():
    """Two tensors are put together by no layer: 4 + 4 MiB are 8 more."""
    apart = layer(0, 0, 4, 4, 4), layer(1, 4, 8, 8, 4)
    assert alive(*apart, layer(2, 16, 18, 2, 2)) == [4, 8, 18]


def test_a_layer_that_writes_where_it_reads_makes_nothing():
    """It dirties its input."""
    tasks, found = string(layer(0, 0, 4, 4, 4), layer(1, 4, 4, 4, 4))
    assert len(tasks) == 2
    mine = found.task == 1
    assert found.alive[mine].max() <= 4 * MIB + MIB
    assert set(found.piece[mine & found.write]) == set(found.piece[found.task == 0])


def test_copies_are_held_for_a_while():
    """A convolution's copies are in memory while it runs, and not in the next layer."""
    assert alive(layer(0, 0, 4, 4, 4, copied=40), layer(1, 4, 8, 4, 4)) == [44, 8]


def test_small_copies_stay_in_the_heap():
    """What the allocator keeps is used again in each round, and is the same pages."""
    tasks, found = string(
        layer(0, 0, 4, 4, 4, copied=4), layer(1, 4, 8, 4, 4), rounds=3, malloc=DEFAULTS
    )
    rounds = [set(found.piece[found.task // len(tasks) == n]) for n in (1, 2)]
    assert rounds[0] & rounds[1]


def test_batches_hold_more_but_weights_are_copied_once():
    """Copies of 8 MiB, 6 of them weights: with four inputs 6 + 4 · 2."""
    told = {f"live_{when}_bytes": 5 * MIB for when in ("before", "peak", "after")}
    made = row(0, 6) | told | {"workspace_bytes": 8 * MIB}
    (found,) = layers_of([made], batch=4)
    assert found.live is not None
    assert (found.live.peak_bytes, sum(found.live.workspace_bytes)) == (20 * MIB, 14 * MIB)


def test_tables_that_tell_nothing_hold_input_and_output():
    """Older tables have no such columns."""
    plain = [replace(layer(n, 0, 0, 0, 4), live=None) for n in range(3)]
    assert alive(*plain) == [4, 8, 8]


@pytest.mark.process
@pytest.mark.torch
@pytest.mark.parametrize(
    "name",
    ["resnet18", *(pytest.param(n, marks=pytest.mark.long) for n in ("densenet121", "swin_t"))],
)
def test_a_real_network_s_tables_are_followed(name):
    """At each layer so much is alive as its table tells; tensors are given back whole."""
    layers = layers_of(describe_networks([name], identity=None)["networks"][name]["table"])
    tasks, found = string(*(replace(one, part=f"{one.order}", file_bytes=0) for one in layers))
    assert layers[0].live is not None
    base = last = layers[0].live.before_bytes
    for n, task in enumerate(tasks):
        live = task.layer.live
        if live is None or not (found.task == n).any():
            continue
        # What the last layer leaves to be freed is there when this one begins.
        told = max(live.peak_bytes + sum(live.workspace_bytes), last) - base
        last = live.after_bytes
        assert np.isclose(found.alive[found.task == n].max(), told, atol=2 * MIB)
