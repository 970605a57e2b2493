"""The memory of its own that a network has, beside its weights and activations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from made_networks import MIB, TABLES, context, curve

from edgebench.slowdown.curves import Curve
from edgebench.slowdown.models.own_memory import fit_own_memory
from edgebench.slowdown.simulator.profile import (
    demand_bytes,
    device_for,
    device_with_demand,
    profile,
    simulated_slowdown,
    workload_for,
)

CONTEXT = context()


def with_own(network: str, own_mib: float) -> Curve:
    """A curve whose demand shows so much memory of the network's own."""
    asked = curve(network)
    known = demand_bytes(workload_for(asked, CONTEXT), device_for(asked, CONTEXT))
    return replace(asked, demand_bytes=known + own_mib * MIB)


def test_a_demand_shows_the_memory_of_a_network_s_own():
    """It is what the demand has beside what is known; the simulated demand is the measured one."""
    asked = with_own("resnet50", 20)
    device = device_with_demand(asked, CONTEXT)
    assert device.base.own_bytes == pytest.approx(20 * MIB, abs=MIB)
    demand = demand_bytes(workload_for(asked, CONTEXT), device)
    assert demand == pytest.approx(asked.demand_bytes, abs=MIB)
    less = replace(asked, demand_bytes=50.0 * MIB)
    assert device_with_demand(less, CONTEXT).base.own_bytes == 0


@pytest.mark.process
def test_every_execution_uses_it():
    """Where weights and runtime fit and it does not, warm passes are slowed."""
    weights = sum(one["file_bytes"] for one in TABLES["resnet50"])
    limit = np.array([weights + 12.0 * MIB])
    slowdown = [
        float(simulated_slowdown(with_own("resnet50", own), 0.2, CONTEXT).at(limit)[0])
        for own in (0, 40)
    ]
    assert slowdown[0] == 1
    assert slowdown[1] > 2


@pytest.mark.heavy
def test_a_network_that_never_ran_has_as_much_a_layer_as_others():
    """The median of the others, for its loader and schedule."""
    others = [with_own(name, 0.5 * len(rows)) for name, rows in TABLES.items() if name != "vgg11"]
    own = fit_own_memory(others, CONTEXT)
    asked = replace(curve("vgg11"), demand_bytes=None)
    found = own.with_demand(asked, CONTEXT).demand_bytes
    truth = with_own("vgg11", 0.5 * len(TABLES["vgg11"])).demand_bytes
    assert found == pytest.approx(truth, abs=MIB)


def test_a_measured_demand_is_left_as_it_is():
    """Other networks tell nothing of a network that ran."""
    own = fit_own_memory([with_own("resnet50", 20)], CONTEXT)
    asked = with_own("vgg11", 3)
    assert own.with_demand(asked, CONTEXT) is asked


@pytest.mark.process
def test_a_walk_s_start_is_a_fresh_one_s_and_its_rounds_need_weights_and_own_memory():
    """Nothing else is left in memory of the import by the time rounds repeat."""
    asked = with_own("resnet50", 10)
    start, fresh = (
        profile(replace(asked, walked=w, phase="start"), 0.2, CONTEXT) for w in (True, False)
    )
    assert start.moved == pytest.approx(fresh.moved)
    steady = profile(replace(asked, walked=True, phase="total"), 0.2, CONTEXT)
    weights = sum(row["file_bytes"] for row in TABLES["resnet50"])
    needs = weights + (10 + 10) * MIB  # the hot base, and its own
    back, limits = steady.moved[1], np.exp(steady.ln_limit)
    assert back[limits > 1.05 * needs].max() < MIB
    assert back[limits < 0.9 * needs].min() > 10 * MIB
