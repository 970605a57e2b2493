"""Intervals as wide as the errors on points that predictions did not know.

Conformal prediction (Vovk and others, 2005): a new point lies within the reach that 90 % of the
known ones did, if it is like them. What is uncertain is as much *where* a curve rises as how high:
an interval of reach t holds all slowdowns of limits up to t / 4 away, times up to exp(t) more or
less (nested sets, Gupta, Kuchibhotla and Ramdas, 2022). Points that were hardly slowed are no part
of it: they would make the interval too narrow where slowdown matters.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgebench.slowdown.curves import FloatArray
from edgebench.slowdown.models.base import LEVEL, CurvePrediction
from edgebench.slowdown.slowdown_function import SlowdownFunction

#: What is slowed by less is no part of a reach.
SLOWED = 1.5
#: Of the limit's logarithm, for each 1 of the slowdown's.
_SIDEWAYS = 0.25
#: Reaches that are tried: fine near 0.
_REACHES = np.concatenate([[0.0], np.geomspace(0.005, 6.0, 80)])


def interval_at(
    function: SlowdownFunction, limit_bytes: FloatArray, reach: float | FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The lowest and highest slowdown at each limit (a row for each of several reaches)."""
    aside = np.exp(reach * _SIDEWAYS)
    low = function.at(limit_bytes * aside) * np.exp(-reach)
    return low, function.at(limit_bytes / aside) * np.exp(reach)


def conformity_scores(
    function: SlowdownFunction, limit_bytes: FloatArray, slowdown: FloatArray
) -> FloatArray:
    """The least reach whose interval holds each point."""
    reaches = _REACHES[:, None]
    low, high = interval_at(function, limit_bytes, reaches)
    inside = (low <= slowdown) & (slowdown <= high)
    inside[-1] = True
    return np.asarray(_REACHES[inside.argmax(axis=0)])


def with_interval(
    unlimited_s: float,
    function: SlowdownFunction,
    limit_bytes: FloatArray,
    reach: float | None,
    bounds: tuple[FloatArray, FloatArray] | None = None,
) -> CurvePrediction:
    """The function's slowdowns, with the interval of this reach; without a reach without one.

    ``bounds`` are a lowest and a highest slowdown at each limit that are known otherwise: no
    interval is wider.
    """
    slowdown = function.at(limit_bytes)
    if reach is None:
        return CurvePrediction(unlimited_s, slowdown)
    low, high = interval_at(function, limit_bytes, reach)
    if bounds is not None:
        low = np.minimum(np.maximum(low, bounds[0]), slowdown)
        high = np.maximum(np.minimum(high, bounds[1]), slowdown)
    return CurvePrediction(unlimited_s, slowdown, (low, high))


def reach_of(groups: Sequence[FloatArray], level: float = LEVEL) -> float | None:
    """The reach that a share ``level`` of new points stays within; None without scores.

    Args:
        groups: scores, an array for each group whose errors go together (a network); each group
            counts the same, however many points it has.
        level: 0.9 for a 90 % interval.
    """
    filled = [np.sort(group) for group in groups if len(group)]
    if not filled:
        return None
    every = np.concatenate(filled)
    weight = np.concatenate([np.full(len(group), 1 / len(group)) for group in filled])
    order = np.argsort(every)
    below = np.cumsum(weight[order])
    # One more, unseen score may lie anywhere: it counts as the largest.
    wanted = level * (below[-1] + float(np.mean(weight)))
    place = int(np.searchsorted(below, min(wanted, below[-1]) - 1e-12))
    return float(every[order][place])
