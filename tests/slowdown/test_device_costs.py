"""Costs fitted to what moved and how long it took."""

from __future__ import annotations

from dataclasses import astuple, replace

import numpy as np
import pytest
from made_networks import calibration, context

from edgebench.slowdown.context import CannotPredictError, Context
from edgebench.slowdown.models.device_costs import CostRows, fit_costs
from edgebench.slowdown.simulator.movement_costs import MovementCosts

TRUE = MovementCosts(fault_s=1e-4, in_s=4e-9, out_s=8e-9, file_s=1e-9, reclaim_s=5e-10)
PRIOR = MovementCosts(fault_s=6e-5, in_s=3e-9, out_s=2e-9, file_s=2e-9, reclaim_s=4e-10)
CALIBRATED = context()
UNCALIBRATED = Context({}, assumed=calibration())


def rows(count: int = 60, noise: float = 0.0, true: MovementCosts = TRUE) -> CostRows:
    """Limits at which faults, bytes in, out, of files, and reclaimed differ in their mixture."""
    chance = np.random.default_rng(1)
    moved = chance.uniform(0, 1, (5, count)) * np.array([[2e4], [4e8], [2e8], [5e8], [8e8]])
    added = np.array(astuple(true)) @ moved
    return CostRows(
        network=np.array([f"net{n % 6}" for n in range(count)]),
        kind=np.full(count, "load/copy"),
        moved=moved,
        held=np.zeros(count),
        depth=np.ones(count),
        slowdown=(1 + added) * np.exp(noise * chance.standard_normal(count)),
        weight=np.ones(count),
    )


def factors(found: MovementCosts, true: MovementCosts = TRUE) -> np.ndarray:
    """Found ÷ true, cost by cost."""
    return np.array(astuple(found)) / np.array(astuple(true))


def test_costs_that_made_the_times_come_back():
    """Certified data: many limits outweigh a calibration that is off up to fourfold."""
    found = fit_costs(rows(3000), CALIBRATED, PRIOR)
    assert factors(found) == pytest.approx(np.ones(5), rel=0.05)


def test_one_workload_that_nothing_explains_hardly_moves_them():
    """A sixth of the limits take ten times as long: no cost is found half as large again."""
    made = rows(600, noise=0.02)
    odd = np.where(made.network == "net0", 10.0, 1.0)
    found = fit_costs(replace(made, slowdown=made.slowdown * odd), CALIBRATED, PRIOR)
    assert np.max(abs(np.log(factors(found)))) < np.log(1.5)


def test_what_no_trial_pays_for_stays_calibrated():
    """Nothing was read from files: that cost is the prior's; a cost of nothing stays nothing."""
    made = rows()
    made.moved[3] = 0.0
    none = replace(PRIOR, fault_s=0.0)
    assert fit_costs(made, CALIBRATED, PRIOR).file_s == pytest.approx(PRIOR.file_s)
    assert fit_costs(made, CALIBRATED, none).fault_s == 0.0


def test_held_storage_is_no_cost():
    """Where a declared speed decides, the seconds say nothing of what the disk could do."""
    made = rows()
    held = made.slowdown * 5
    found = fit_costs(replace(made, held=held, slowdown=1 + held), CALIBRATED, PRIOR)
    assert factors(found, PRIOR) == pytest.approx(np.ones(5), rel=1e-3)


def test_without_a_calibration_slowed_limits_are_needed():
    """Assumed costs alone predict nothing; enough slowed limits replace them."""
    few = rows(2)
    with pytest.raises(CannotPredictError, match="not calibrated"):
        fit_costs(few, UNCALIBRATED, PRIOR)
    found = fit_costs(rows(3000), UNCALIBRATED, PRIOR)
    assert factors(found) == pytest.approx(np.ones(5), rel=0.05)


def test_a_network_s_rows_can_be_left_out():
    """What is left has all others, in their order."""
    made = rows()
    rest = made.without("net2")
    assert set(rest.network.tolist()) == {f"net{n}" for n in (0, 1, 3, 4, 5)}
    assert rest.moved.shape == (5, 50)
    assert (rest.slowdown == made.slowdown[made.network != "net2"]).all()
