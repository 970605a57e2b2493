"""One trial's times: which there are, and how they come from its phases."""

from __future__ import annotations

import statistics

from edgebench.records.records import TrialRecord

#: What a point's times are of. ``total`` is a round's time on the clock, or for a workload
#: without rounds the whole trial's; ``execute`` is one warm execution.
TIMES = ("total", "load", "first", "execute", "data", "forward", "backward", "step")


def trial_times(record: TrialRecord) -> dict[str, float]:
    """One trial's seconds, by the keys of :data:`TIMES`; empty unless it ended ``ok``.

    A phase is summed over the networks of a round, then the rounds' median is taken.
    """
    if record.outcome != "ok":
        return {}
    rounds: dict[str, dict[int, float]] = {}
    for phase in record.phases:
        by_round = rounds.setdefault(phase.phase, {})
        seconds = phase.wall_s / phase.passes
        by_round[phase.round] = by_round.get(phase.round, 0.0) + seconds
    medians = {name: statistics.median(by_round.values()) for name, by_round in rounds.items()}
    total = medians.get("round", record.wall_s)
    known = {name: medians[name] for name in TIMES if name in medians}
    return known if total is None else {"total": total, **known}
