"""Intervals from errors: how far new trials lie from predictions that did not know them.

Conformal prediction (Vovk and others, 2005): whatever the errors' distribution, a new trial lies
within the reach that 90 % of the known ones did, if it is like them. What is unsure here is as
much *where* a curve rises as how high, so a reach is both: a band of reach t holds all slowdowns
of limits up to t · :data:`SIDEWAYS` away, times up to exp(t) more or less (nested sets, Gupta,
Kuchibhotla and Ramdas, 2022).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgebench.slowdown.data import FloatArray
from edgebench.slowdown.landscape import Landscape

#: Of the limit's logarithm, for each 1 of the slowdown's.
SIDEWAYS = 0.25
#: Reaches that are tried: fine near 0.
_REACHES = np.concatenate([[0.0], np.geomspace(0.005, 6.0, 80)])


def band(
    landscape: Landscape, limit_bytes: FloatArray, reach: float | FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The lowest and highest slowdown of a band at each limit (a row for each of several)."""
    aside = np.exp(reach * SIDEWAYS)
    low = landscape.at(limit_bytes * aside) * np.exp(-reach)
    return low, landscape.at(limit_bytes / aside) * np.exp(reach)


def scores(landscape: Landscape, limit_bytes: FloatArray, slowdown: FloatArray) -> FloatArray:
    """The least reach whose band holds each trial."""
    reaches = _REACHES[:, None]
    low, high = band(landscape, limit_bytes, reaches)
    inside = (low <= slowdown) & (slowdown <= high)
    inside[-1] = True
    return np.asarray(_REACHES[inside.argmax(axis=0)])


def reach_of(groups: Sequence[FloatArray], level: float) -> float:
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
