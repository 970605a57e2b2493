"""The few functions of statistics that tests of repeats need, so that they need no SciPy.

Its import takes longer than the answer, and it is larger than all of the base install. The tests
compare each function with SciPy's.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

#: From here on Student's t is told from the normal distribution by a formula.
_NEARLY_NORMAL = 1e5
#: A term that changes a value by less is the last one.
_ACCURACY = 1e-15
_TINY = 1e-300
_MOST_STEPS = 500
#: From here the asymptotic series of the digamma function and its derivatives is exact.
_SERIES_FROM = 12.0


def t_tail(t: float, freedom: float) -> float:
    """Return the probability that Student's t is above ``t``, which is not negative.

    The largest relative difference to SciPy's on a grid is 1e-12 up to t = 100 and 1,000 degrees
    of freedom, and 2e-6 up to t = 30 from 100,000 degrees on.
    """
    if freedom > _NEARLY_NORMAL:
        # D. L. Wallace, Ann. Math. Stat. 30 (1959).
        shrunk = (8 * freedom + 1) / (8 * freedom + 3)
        return 0.5 * math.erfc(shrunk * math.sqrt(freedom * math.log1p(t * t / freedom) / 2))
    square = t * t
    return 0.5 * _beta_share(freedom / 2, 0.5, freedom / (freedom + square), square)


@lru_cache(maxsize=1024)
def t_quantile(tail: float, freedom: float) -> float:
    """Return the t that Student's t is above with this probability, which is below a half."""
    t = NormalDist().inv_cdf(1 - tail)
    scale = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)
    if freedom > _NEARLY_NORMAL:
        # Fisher and Cornish, Technometrics 2 (1960).
        first, second = (t**3 + t) / 4, (5 * t**5 + 16 * t**3 + 3 * t) / 96
        return t + first / freedom + second / freedom**2
    scale -= 0.5 * math.log(freedom * math.pi)
    # Newton's steps: the normal quantile lies below, from where each step comes nearer.
    for _ in range(_MOST_STEPS):
        density = math.exp(scale - (freedom + 1) / 2 * math.log1p(t * t / freedom))
        step = (t_tail(t, freedom) - tail) / density
        t += step
        if abs(step) <= 1e-13 * t:
            break
    return t


def _beta_share(a: float, b: float, x: float, square: float) -> float:
    """Return the regularized incomplete beta function at x = freedom / (freedom + square).

    By its continued fraction (Abramowitz and Stegun, 26.5.8), on the side where that is short.
    """
    if x >= 1:
        return 1.0
    if x <= 0 or math.isinf(square):
        return 0.0
    other = square / (2 * a + square)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(other)
    )
    if x < (a + 1) / (a + b + 2):
        return front * _beta_fraction(a, b, x) / a
    return 1 - front * _beta_fraction(b, a, other) / b


def _beta_fraction(a: float, b: float, x: float) -> float:
    """Return the continued fraction, by Lentz's method."""
    c, d = 1.0, 1 / _nonzero(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, _MOST_STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / _nonzero(1 + term * d)
            c = _nonzero(1 + term / c)
            value *= c * d
        if abs(c * d - 1) < _ACCURACY:
            break
    return value


def _nonzero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def digamma(x: float) -> float:
    """Return the derivative of the logarithm of the gamma function, of a positive number."""
    below = 0.0
    while x < _SERIES_FROM:
        below -= 1 / x
        x += 1
    y = 1 / (x * x)
    series = y * (1 / 12 - y * (1 / 120 - y * (1 / 252 - y * (1 / 240 - y / 132))))
    return below + math.log(x) - 0.5 / x - series


def trigamma(x: float) -> float:
    """Return the derivative of :func:`digamma`."""
    below = 0.0
    while x < _SERIES_FROM:
        below += 1 / (x * x)
        x += 1
    y = 1 / (x * x)
    series = y * (1 / 6 - y * (1 / 30 - y * (1 / 42 - y * (1 / 30 - y * 5 / 66))))
    return below + (1 + 0.5 / x + series) / x


def tetragamma(x: float) -> float:
    """Return the derivative of :func:`trigamma`."""
    below = 0.0
    while x < _SERIES_FROM:
        below -= 2 / x**3
        x += 1
    y = 1 / (x * x)
    series = y * (1 / 2 - y * (1 / 6 - y * (1 / 6 - y * (3 / 10 - y * 5 / 6))))
    return below - y * (1 + 1 / x + series)


def fisher_tail(finished: int, trials: int, other_finished: int, other_trials: int) -> float:
    """Return the p of Fisher's exact test that the first finishes more often than the other."""
    total, all_finished = trials + other_trials, finished + other_finished
    ways = sum(
        math.comb(all_finished, n) * math.comb(total - all_finished, trials - n)
        for n in range(finished, min(trials, all_finished) + 1)
    )
    return ways / math.comb(total, trials)
