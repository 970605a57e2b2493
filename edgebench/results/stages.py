"""A trial's rounds as its start and its steady rounds: two different answers.

The first round after the import pays once for what the others don't: under a limit it writes the
idle runtime out. Which of the later rounds are steady, :mod:`edgebench.results.steady` tells.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from edgebench.records import PhaseSum, TrialRecord
from edgebench.results.steady import LEAST, Steadiness, steadiness

#: A round's stage: the first one, those before they repeat, those that repeat.
START, SETTLING, STEADY = "start", "settling", "steady"


def round_stages(record: TrialRecord) -> dict[int, str]:
    """Each round's stage, by its number; empty of a workload without rounds."""
    times = _round_times(record.phases)
    if not times:
        return {}
    stages = dict.fromkeys(times, SETTLING)
    numbers = list(times)
    # At a walk's further limits the process has long begun.
    stages[numbers[0]] = SETTLING if record.walk and record.walk.step else START
    return stages | {numbers[place]: STEADY for place in _steadiness(times).rounds}


def rounds_repeat(record: TrialRecord) -> bool | None:
    """Whether its steady rounds passed the test; None where they are too few to tell."""
    times = _round_times(record.phases)
    # One of them is the start.
    return _steadiness(times).repeats if len(times) > LEAST else None


def _round_times(phases: Iterable[PhaseSum]) -> dict[int, float]:
    """Seconds on the clock of each round, by its number, in their order."""
    found = {phase.round: phase.wall_s for phase in phases if phase.phase == "round"}
    return dict(sorted(found.items()))


def _steadiness(times: dict[int, float]) -> Steadiness:
    return _cached(tuple(times.values()))


@lru_cache(maxsize=1024)
def _cached(times_s: tuple[float, ...]) -> Steadiness:
    """Frames, tables and summaries each ask for it."""
    return steadiness(times_s)
