"""Is a difference of repeats more than chance? A moderated t-test.

Three repeats tell little of their own spread. All comparisons of a kind together tell how large
spreads are here and how much they differ; each comparison's variance is drawn towards that, the
more the less its own repeats say. Source: G. K. Smyth, "Linear models and empirical Bayes methods",
Stat. Appl. Genet. Mol. Biol. 3 (2004), section 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from edgebench.extras import need

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    FloatArray: TypeAlias = NDArray[np.float64]

#: How often a change of ``least_ratio`` is found.
POWER = 0.95
#: With fewer spreads than this nothing is known of how spreads differ.
_LEAST_SPREADS = 4
#: A variance below this share of the middle one is of rounding, not of repeats.
_LEAST_SHARE = 1e-5
_NORMAL = 1e9
_TINY = 1e-300

#: The logarithms of the repeats before and after.
Pair = tuple[Sequence[float], Sequence[float]]


@dataclass(frozen=True)
class RatioTest:
    """``p`` of the two-sided test, and the 95 % interval of after / before.

    ``least_ratio``: how many times as large after must be to be called a change with ``POWER``.
    """

    p: float
    ratio_low: float
    ratio_high: float
    least_ratio: float


@dataclass(frozen=True)
class ModeratedDifferences:
    """Of each pair: mean after less mean before, its standard error, its degrees of freedom."""

    difference: FloatArray
    error: FloatArray
    freedom: FloatArray


def moderated_differences(pairs: Sequence[Pair]) -> ModeratedDifferences:
    """The differences of the pairs with errors that share what all repeats tell of spread.

    Raises:
        MachineError: scipy isn't installed.
    """
    need("numpy", "scipy")
    import numpy as np

    difference = np.array([_mean(after) - _mean(before) for before, after in pairs])
    freedom = np.array([len(before) + len(after) - 2.0 for before, after in pairs])
    spread = np.array([_squares(before) + _squares(after) for before, after in pairs]) / freedom
    weight = np.array([1 / len(before) + 1 / len(after) for before, after in pairs])
    return _moderated(difference, spread, freedom, weight)


def moderated_ratios(repeats: Sequence[Sequence[float]]) -> ModeratedDifferences:
    """The same of repeats made in turn: each is after less before, and what both share is gone.

    Raises:
        MachineError: scipy isn't installed.
    """
    need("numpy", "scipy")
    import numpy as np

    difference = np.array([_mean(one) for one in repeats])
    freedom = np.array([len(one) - 1.0 for one in repeats])
    spread = np.array([_squares(one) for one in repeats]) / freedom
    weight = np.array([1 / len(one) for one in repeats])
    return _moderated(difference, spread, freedom, weight)


def _moderated(
    difference: FloatArray, spread: FloatArray, freedom: FloatArray, weight: FloatArray
) -> ModeratedDifferences:
    """``spread``: variances of single repeats; ``weight``: how much of them the difference has."""
    import numpy as np

    common, own = _prior(spread, freedom)
    total = freedom + own
    error = np.sqrt((freedom * spread + own * common) / total * weight)
    return ModeratedDifferences(difference, error, total)


def moderated_t_tests(pairs: Sequence[Pair], alpha: float = 0.05) -> list[RatioTest]:
    """Test each pair; each side has two values or more, logarithms.

    ``alpha`` is what p must stay below for a change, corrected for all comparisons made.

    Raises:
        MachineError: scipy isn't installed.
    """
    return _ratio_tests(moderated_differences(pairs), alpha)


def paired_t_tests(repeats: Sequence[Sequence[float]], alpha: float = 0.05) -> list[RatioTest]:
    """Test each list of differences of repeats made in turn; each has two values or more.

    Raises:
        MachineError: scipy isn't installed.
    """
    return _ratio_tests(moderated_ratios(repeats), alpha)


def _ratio_tests(found: ModeratedDifferences, alpha: float) -> list[RatioTest]:
    import numpy as np
    from scipy import stats

    difference, error, total = found.difference, found.error, found.freedom
    # Repeats that are all alike: any difference is one.
    size = np.abs(difference) / np.where(error > 0, error, _TINY)
    p = np.asarray(2 * stats.t.sf(size, total))
    half = stats.t.ppf(0.975, total) * error
    low, high = np.exp(difference - half), np.exp(difference + half)
    least = np.exp((stats.t.isf(alpha / 2, total) + stats.t.ppf(POWER, total)) * error)
    return [RatioTest(*map(float, one)) for one in zip(p, low, high, least, strict=True)]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _squares(values: Sequence[float]) -> float:
    mean = _mean(values)
    return sum((value - mean) ** 2 for value in values)


def _prior(spread: FloatArray, freedom: FloatArray) -> tuple[float, float]:
    """The variance that all comparisons tell of one, and for how many repeats that counts.

    Fitted by the moments of the variances' logarithms (Smyth, section 6.2).
    """
    import numpy as np
    from scipy import special

    known = spread > _LEAST_SHARE * np.median(spread)
    if np.count_nonzero(known) < _LEAST_SPREADS:
        return 0.0, 0.0
    half = freedom[known] / 2
    logs = np.log(spread[known]) - special.digamma(half) + np.log(half)
    beyond = float(logs.var(ddof=1) - special.polygamma(1, half).mean())
    if beyond <= 0:
        # They differ by no more than chance has it: all are one.
        return float(np.exp(logs.mean())), _NORMAL
    own = _inverse_trigamma(beyond)
    return float(np.exp(logs.mean() + special.digamma(own) - np.log(own))), 2 * own


def _inverse_trigamma(value: float) -> float:
    """The y whose trigamma is the value: Newton's steps (Smyth, appendix)."""
    from scipy import special

    y = 0.5 + 1 / value
    for _ in range(50):
        trigamma = float(special.polygamma(1, y))
        step = trigamma * (1 - trigamma / value) / float(special.polygamma(2, y))
        y += step
        if -step / y < 1e-8:
            break
    return y
