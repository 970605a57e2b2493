"""What the trials at one limit came to, whatever was measured of them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence

from edgebench.records import TrialRecord
from edgebench.results.stages import START, STEADY
from edgebench.results.trial_lines import trial_times
from edgebench.run.limit_bracket import TriedLimit
from edgebench.scenario.points import PlannedTrial
from edgebench.spans import BEFORE_ROUNDS
from edgebench.throughput import reads_throughput

#: What a trial's slowdown is told from: the time of something it does; None if it has none.
Pace = Callable[[TrialRecord], float | None]


def pace_of_phase(phase: str) -> Pace:
    """The time of one pass of a phase in steady rounds; ``round`` is a whole one on the clock."""
    return lambda record: _seconds(record, phase)


def _seconds(record: TrialRecord, phase: str) -> float | None:
    return trial_times(record).get("total" if phase == "round" else phase)


def pace_of_program(record: TrialRecord) -> float | None:
    """Seconds for one of what the program prints, if its output is looked at; else for all."""
    if record.outcome != "ok":
        return None
    if reads_throughput(record.settings):
        return 1 / record.throughput_per_s if record.throughput_per_s else None
    return _seconds(record, "round")


def start_of_rounds(record: TrialRecord) -> float | None:
    """Seconds of the import, the building and the first round; None where no round comes later."""
    times = trial_times(record)
    if STEADY not in times:
        return None
    before = sum(phase.wall_s for phase in record.phases if phase.phase in BEFORE_ROUNDS)
    return before + times[START]


def median_pace(trials: Sequence[TrialRecord], pace: Pace) -> float | None:
    """Of those that finished; None if no trial tells it."""
    known = [seconds for one in trials if (seconds := pace(one)) is not None]
    return statistics.median(known) if known else None


def trials_by_point(
    planned: Sequence[PlannedTrial], records: Mapping[str, TrialRecord]
) -> dict[str, list[TrialRecord]]:
    """Point → its trials that are recorded, in the plan's order."""
    found: dict[str, list[TrialRecord]] = {}
    for one in planned:
        if one.trial in records:
            found.setdefault(one.point_id, []).append(records[one.trial])
    return found


def tried_limit(
    limit_bytes: float, own: Sequence[TrialRecord], base: float | None, pace: Pace
) -> TriedLimit:
    """What the trials at one limit came to; ``base`` is the unlimited pace."""
    lost = next((record.outcome for record in own if record.outcome != "ok"), None)
    seconds = None if lost else median_pace(own, pace)
    free = [r.kill.swap_free_bytes for r in own if r.killed_with_swap_free and r.kill]
    rounds = [s for one in own if (s := _seconds(one, "round")) is not None]
    return TriedLimit(
        limit_bytes,
        lost or "ok",
        seconds / base if seconds is not None and base else None,
        len(own),
        min((size for size in free if size is not None), default=None),
        killed=sum(record.outcome == "oom-killed" for record in own),
        rounds=int(own[0].settings.get("rounds") or 1),
        round_s=statistics.median(rounds) if rounds else None,
        stopped_s=max((r.wall_s or 0.0 for r in own if r.outcome == "timeout"), default=None),
    )
