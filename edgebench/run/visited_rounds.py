"""What the rounds at one limit of a walk come to."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from edgebench.records import PhaseSum
from edgebench.results.rounds import steadiness
from edgebench.scenario.walk import Visited

#: Of a normal distribution, the standard deviation in median absolute deviations.
_DEVIATION = 1.4826


def visited(phases: Sequence[PhaseSum]) -> Visited:
    """Medians and spreads of each phase in the steady rounds.

    Of a single round, which a kill may leave, they are its own; empty where there is none.
    """
    rounds = [phase for phase in phases if phase.phase == "round"]
    if not rounds:
        return Visited({}, {})
    places = steadiness([phase.wall_s for phase in rounds]).rounds or (0,)
    steady = {rounds[place].round for place in places}
    seconds: dict[str, dict[int, float]] = {}
    for phase in phases:
        if phase.round in steady:
            by_round = seconds.setdefault(phase.phase, {})
            own_s = phase.wall_s / phase.passes
            by_round[phase.round] = by_round.get(phase.round, 0.0) + own_s
    medians = {name: statistics.median(of.values()) for name, of in seconds.items()}
    spread = {name: _spread([*of.values()], medians[name]) for name, of in seconds.items()}
    return Visited(medians, spread)


def _spread(seconds: Sequence[float], middle: float) -> float:
    """How far they lie from their median, as a share of it."""
    far = statistics.median(abs(one - middle) for one in seconds)
    return _DEVIATION * far / middle if middle else 0.0
