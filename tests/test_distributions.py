"""Our own functions of statistics against SciPy's."""

from __future__ import annotations

import pytest
from scipy import special, stats

from edgebench import distributions as own

FREEDOMS = [1.0, 1.7, 2.0, 3.5, 8.0, 40.3, 900.0, 99_000.0, 101_000.0, 1e6, 1e9]


@pytest.mark.parametrize("freedom", FREEDOMS)
def test_the_tail_of_students_t(freedom: float):
    for t in (0.0, 1e-4, 0.3, 1.0, 1.96, 4.0, 9.0, 25.0):
        told = float(stats.t.sf(t, freedom))
        assert own.t_tail(t, freedom) == pytest.approx(told, rel=1e-5, abs=1e-300)
    assert own.t_tail(1e200, freedom) == 0


@pytest.mark.parametrize("freedom", FREEDOMS)
@pytest.mark.parametrize("tail", [0.4, 0.05, 0.025, 1e-3, 1e-6])
def test_the_quantiles_of_students_t(tail: float, freedom: float):
    told = float(stats.t.isf(tail, freedom))
    assert own.t_quantile(tail, freedom) == pytest.approx(told, rel=1e-9)


@pytest.mark.parametrize("x", [0.01, 0.5, 1.0, 1.5, 7.0, 11.9, 12.0, 300.0, 5e8])
def test_the_gamma_functions_derivatives(x: float):
    assert own.digamma(x) == pytest.approx(float(special.digamma(x)), rel=1e-12)
    assert own.trigamma(x) == pytest.approx(float(special.polygamma(1, x)), rel=1e-12)
    assert own.tetragamma(x) == pytest.approx(float(special.polygamma(2, x)), rel=1e-11)


def test_fishers_exact_test():
    for trials in range(1, 6):
        for others in range(1, 6):
            for finished in range(trials + 1):
                for other in range(others + 1):
                    table = [[finished, trials - finished], [other, others - other]]
                    told = float(stats.fisher_exact(table, alternative="greater").pvalue)
                    ours = own.fisher_tail(finished, trials, other, others)
                    assert ours == pytest.approx(told, rel=1e-12)
