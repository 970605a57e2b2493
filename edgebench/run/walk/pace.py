"""Paces: the time of what a trial does again and again, by which trials are compared."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from edgebench.knee import settled
from edgebench.records import FINAL_OUTCOMES, PhaseSum, RoundCounts, TrialRecord
from edgebench.results.rounds import reads_of, steadiness, trial_times
from edgebench.run.walk.walk import Visited
from edgebench.throughput import reads_throughput

if TYPE_CHECKING:
    from edgebench.scenario.points import PlannedTrial

#: A trial's time in seconds for the work that its slowdown is about; None if it has none.
Pace = Callable[[TrialRecord], float | None]


def pace_of_rounds(record: TrialRecord) -> float | None:
    """Return the time of a steady round on the clock; None if the trial has none."""
    return trial_times(record).get("total")


def pace_of_program(record: TrialRecord) -> float | None:
    """Seconds for each unit that the program prints, if its output is read; else for the whole."""
    if record.outcome != "ok":
        return None
    if reads_throughput(record.settings):
        return 1 / record.throughput_per_s if record.throughput_per_s else None
    return pace_of_rounds(record)


def median_pace(trials: Sequence[TrialRecord], pace: Pace) -> float | None:
    """Return the median pace of the trials that have one; None if none has."""
    known = [seconds for one in trials if (seconds := pace(one)) is not None]
    return statistics.median(known) if known else None


def trials_by_point(
    planned: Sequence[PlannedTrial], records: Mapping[str, TrialRecord]
) -> dict[str, list[TrialRecord]]:
    """Point → its trials that were made, in the plan's order."""
    found: dict[str, list[TrialRecord]] = {}
    for one in planned:
        if one.trial in records and records[one.trial].outcome in FINAL_OUTCOMES:
            found.setdefault(one.point_id, []).append(records[one.trial])
    return found


def visited(phases: Sequence[PhaseSum], counts: Sequence[RoundCounts]) -> Visited:
    """Medians of the steady rounds: seconds, and bytes read; these of the last that read alike.

    Of a single round, which a kill may leave, they are its own; nothing where there is none.
    """
    rounds = [phase for phase in phases if phase.phase == "round"]
    if not rounds:
        return Visited()
    places = steadiness([phase.wall_s for phase in rounds]).rounds or (0,)
    reads = reads_of((one.round for one in rounds), counts)
    known = [read for place in settled(reads) or places if (read := reads[place]) is not None]
    return Visited(
        statistics.median(rounds[place].wall_s for place in places),
        round(statistics.median(known)) if known else None,
    )
