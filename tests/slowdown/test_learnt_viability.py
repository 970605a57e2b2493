"""The limit that kills a network which never ran is as sure as simulated needs are right."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from made_networks import MIB, TABLES, context, curve

from edgebench.slowdown.context import DeviceData
from edgebench.slowdown.viability import (
    CONFIDENT,
    LearntViability,
    Viability,
    ViabilityTrial,
    as_never_run,
    simulated_needs,
)

DATA = DeviceData("made-up", "file", tuple(curve(name) for name in TABLES), context())
WANTED = {(one.workload_network, "bulk", "copy") for one in DATA.curves}
NEEDS = {network: need for (network, *_), need in simulated_needs(DATA, WANTED).items()}
#: A network's place among all, and by what factor it needs more than is simulated.
Factor = Callable[[int], float]


def trials(factor: Factor) -> list[ViabilityTrial]:
    """Each network at limits on both sides of what it needs, killed where that doesn't fit."""
    made = []
    for place, (name, simulated) in enumerate(NEEDS.items()):
        need, swap = simulated * factor(place), 16.0 * MIB
        for limit in (share * need for share in (1.2, 1.1, 1.0, 0.95, 0.9, 0.85, 0.8, 0.7, 0.6)):
            viable = limit + swap >= need
            about = {"schedule": "bulk", "loader": "copy"}
            made.append(ViabilityTrial(name, (name,), limit, swap, need, viable, **about))
    return made


def learnt(factor: Factor) -> tuple[Viability, Viability]:
    """The edge of networks that ran, and that of networks that never did."""
    (one, *_) = DATA.curves
    found = LearntViability(trials(factor), DATA)
    return found.of([one]), found.of([one.unseen(with_unlimited=False)])


def test_what_simulated_needs_lack_in_all_networks_is_learnt():
    """All need a tenth more than is simulated: the edge of one that never ran lies there."""
    ran, never = learnt(lambda place: math.exp(0.1))
    assert ran.edge == pytest.approx(0.0, abs=0.03)
    assert never.edge == pytest.approx(0.1, abs=0.03)
    assert never.killed == ran.killed > 0


def test_where_simulated_needs_scatter_less_is_called_sure():
    """Needs that are off by 8 % either way: to be sure takes more memory than for one that ran."""
    ran, never = learnt(lambda place: math.exp(0.08 * (-1) ** place))
    need = 200.0 * MIB
    assert never.sharpness > 1.5 * ran.sharpness
    assert never.least_bytes(0, need, CONFIDENT) > ran.least_bytes(0, need, CONFIDENT)


def test_a_need_is_simulated_without_the_network_s_own_demand():
    """One network's demand grows: its own simulated need stays, that of others may follow it."""
    grown = replace(DATA.curves[0], demand_bytes=2 * (DATA.curves[0].demand_bytes or 0))
    data = replace(DATA, curves=(grown, *DATA.curves[1:]))
    name = grown.network
    found = {network: need for (network, *_), need in simulated_needs(data, WANTED).items()}
    assert found[name] == NEEDS[name]


def test_what_can_not_be_simulated_is_left_out():
    """A network without a layer table teaches nothing of simulated needs."""
    known = trials(lambda place: 1.0)
    odd = [replace(one, network="unknown") for one in known[:3]]
    assert len(as_never_run([*known, *odd], DATA)) == len(known)


def test_without_trials_there_is_the_prior():
    """Limit + swap against the need, as for a network that ran."""
    none = LearntViability((), DATA)
    one = DATA.curves[0]
    assert none.of([one.unseen(with_unlimited=False)]) == none.of([one])
