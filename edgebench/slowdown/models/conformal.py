"""Conformal intervals: as wide as errors on trials that predictions did not know.

Conformal prediction (Vovk and others, 2005): whatever the errors' distribution, a new trial lies
within the reach that 90 % of the known ones did, if it is like them. What is uncertain here is as
much *where* a curve rises as how high, so a reach is both: an interval of reach t holds all
slowdowns of limits up to t / 4 away, times up to exp(t) more or less (nested sets,
Gupta, Kuchibhotla and Ramdas, 2022).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from edgebench.slowdown.curves import Curve, FloatArray
from edgebench.slowdown.models.base import LEVEL, CurvePrediction, Parameter
from edgebench.slowdown.slowdown_function import SlowdownFunction

#: Parameters of a fit: how far new trials may be from the prediction. Of a network that was not
#: fitted and whose unlimited trials are known; of one of which nothing is; of one that was fitted,
#: at other limits.
REACH, UNRUN_REACH, KNOWN_REACH = "reach", "reach.unrun", "reach.known"
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
    """The least reach whose interval holds each trial."""
    reaches = _REACHES[:, None]
    low, high = interval_at(function, limit_bytes, reaches)
    inside = (low <= slowdown) & (slowdown <= high)
    inside[-1] = True
    return np.asarray(_REACHES[inside.argmax(axis=0)])


def conformal_prediction(
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


def reach_over(
    name: str, scored: Iterable[tuple[Curve, SlowdownFunction]]
) -> tuple[Parameter, ...]:
    """The reach of functions that curves had no part in; none without trials."""
    groups: dict[str, list[FloatArray]] = {}
    for curve, function in scored:
        if len(curve.limit_bytes):
            found = conformity_scores(function, curve.limit_bytes, curve.slowdown)
            groups.setdefault(curve.workload_network, []).append(found)
    return reach_parameter(name, groups)


def reach_parameter(name: str, groups: Mapping[str, Sequence[FloatArray]]) -> tuple[Parameter, ...]:
    """The reach of an interval, from the scores of each network; none without scores."""
    every = [np.concatenate(group) for group in groups.values() if group]
    return (Parameter(name, _level_reach(every, LEVEL)),) if every else ()


def _level_reach(groups: Sequence[FloatArray], level: float) -> float:
    """The reach that a share ``level`` of new trials stays within.

    Args:
        groups: scores, one array for each group of trials whose errors go together (a network);
            each group counts the same, however many trials it has.
        level: 0.9 for a 90 % interval.
    """
    filled = [np.sort(group) for group in groups if len(group)]
    every = np.concatenate(filled)
    weight = np.concatenate([np.full(len(group), 1 / len(group)) for group in filled])
    order = np.argsort(every)
    below = np.cumsum(weight[order])
    # One more, unseen score may lie anywhere: it counts as the largest.
    wanted = level * (below[-1] + float(np.mean(weight)))
    place = int(np.searchsorted(below, min(wanted, below[-1]) - 1e-12))
    return float(every[order][place])
