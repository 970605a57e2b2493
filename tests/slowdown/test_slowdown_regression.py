"""Ridge regression whose rows come in runs with a common error."""

from __future__ import annotations

import numpy as np
import pytest

from edgebench.slowdown.models.ridge import ErrorGroup, cross_validated_ridge, robust_ridge

TRUE = np.array([0.5, 0.2])


def runs(seed: int, shift: float, count: int = 20) -> list[ErrorGroup]:
    """Curves of seven limits, each with an error of its own and one that all its limits share."""
    chance, made = np.random.default_rng(seed), []
    for number in range(count):
        depth = np.linspace(0, 0.7, 7)
        x = np.stack([depth, depth * chance.uniform(0, 2)], axis=1)
        off = shift * chance.standard_normal() + 0.05 * chance.standard_normal(7)
        made.append(ErrorGroup(f"network {number % 4}", x, x @ TRUE + off))
    return made


def test_exact_data_give_the_weights_that_made_them():
    """Certified: nothing off, hardly any ridge, and the true weights come back."""
    exact = [ErrorGroup(run.group, run.x, run.x @ TRUE) for run in runs(1, 0.0)]
    assert robust_ridge(exact, 1e-6).weights == pytest.approx(TRUE, abs=1e-3)


def test_what_a_whole_curve_shares_bends_weights_less():
    """Unlimited times that are off by a fifth: nearer to the truth than plain least squares."""
    ours, plain = [], []
    for seed in range(30):
        made = runs(seed, 0.2)
        x, y = (np.concatenate([getattr(run, name) for run in made]) for name in ("x", "y"))
        ours.append(np.abs(robust_ridge(made, 1e-3).weights - TRUE).sum())
        plain.append(np.abs(np.linalg.lstsq(x, y, rcond=None)[0] - TRUE).sum())
    assert np.mean(ours) < 0.8 * np.mean(plain)


def test_a_bad_run_hardly_moves_them():
    """One curve that is thrice as slow as all others say."""
    made = runs(3, 0.0)
    bad = ErrorGroup(made[0].group, made[0].x, made[0].y + 1.1)
    assert robust_ridge([bad, *made[1:]], 1e-3).weights == pytest.approx(TRUE, abs=0.15)


def test_each_group_is_told_by_the_others():
    """A group's own rows have no part in the weights that it is asked with."""
    made = runs(5, 0.1)
    odd = [
        ErrorGroup(run.group, run.x, -run.y) if run.group == "network 0" else run for run in made
    ]
    own, others = cross_validated_ridge(odd)
    for name in others:
        rest = [run for run in odd if run.group != name]
        assert others[name] == pytest.approx(robust_ridge(rest, own.alpha).weights)
    assert others["network 0"][0] > 0
