"""Unlimited times from few trials and other networks' rates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from made_networks import TABLES, context, curve

from edgebench.slowdown.context import CannotPredictError, Context
from edgebench.slowdown.curves import Curve
from edgebench.slowdown.models.unlimited_time import fit_unlimited_times
from edgebench.slowdown.simulator.cpu_time import Rates, predicted_s
from edgebench.slowdown.simulator.profile import workload_for

CONTEXT = context()
RATES = Rates(file_s=1e-4, load_byte_s=1e-9, call_s=2e-4, flop_s=5e-9, byte_s=3e-10)
PHASES = ("load", "first", "execute")


def true_s(one: Curve) -> float:
    """What the rates say, but for what a layer table does not tell: half as much again."""
    return 1.5 * predicted_s(workload_for(one, CONTEXT), RATES, one.phase, one.network)


def curves(luck: float = 0.0) -> list[Curve]:
    """Unlimited trials are off by ``luck``; at limits above the demand nothing is."""
    chance, made = np.random.default_rng(4), []
    for network in TABLES:
        for phase in PHASES:
            one = curve(network, phase)
            times = one.slowdown * true_s(one)
            unlimited = true_s(one) * np.exp(luck * chance.standard_normal(1))
            made.append(replace(one, seconds=times, unlimited_seconds=unlimited))
    return made


def off(made: list[Curve], told: list[float]) -> float:
    """Mean size of ln(told / true)."""
    return float(np.mean([abs(np.log(t / true_s(c))) for c, t in zip(made, told, strict=True)]))


@pytest.mark.process
def test_a_measured_time_stays_where_trials_are_sure():
    """Nothing is gained by other networks' rates where the unlimited trials are right."""
    made = curves()
    found = fit_unlimited_times(made, CONTEXT)
    assert off(made, [found.seconds(c.unseen(), CONTEXT) for c in made]) < 0.02


@pytest.mark.process
def test_a_network_without_a_trial_is_told_by_rates_and_its_kind():
    """What rates miss in all curves of a kind (here a half) is known from the others."""
    made = curves()
    asked = [c for c in made if c.network == "resnet50"]
    found = fit_unlimited_times([c for c in made if c.network != "resnet50"], CONTEXT)
    told = [found.seconds(c.unseen(with_unlimited=False), CONTEXT) for c in asked]
    assert off(asked, told) < 0.1


def test_without_trials_and_tables_nothing_is_told():
    """Neither a trial nor a rate: said in words; a trial alone is taken as it is."""
    nothing = fit_unlimited_times([], CONTEXT)
    asked = curve("resnet18")
    with pytest.raises(CannotPredictError, match="no unlimited trial"):
        nothing.seconds(asked.unseen(with_unlimited=False), CONTEXT)
    assert fit_unlimited_times([asked], Context({})).seconds(asked, Context({})) == pytest.approx(
        0.2
    )
