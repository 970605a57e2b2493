"""Times of a point over its repeats: trials; or, of a limit that one walk visited, its rounds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from edgebench.kills import TOO_TIGHT
from edgebench.results.spread import Spread, spread_of
from edgebench.results.stages import STEADY
from edgebench.results.steady import steadiness
from edgebench.results.trial_lines import TRIAL_TIMES

if TYPE_CHECKING:
    from edgebench.records import TrialRecord
    from edgebench.results.columns.table import ColumnTable
    from edgebench.results.sweep_reader import Sweep
    from edgebench.walk_report import WalkReport


def point_times(sweep: Sweep, rows: Sequence[int]) -> dict[str, Spread]:
    """Each time of these trials that is known, in seconds.

    A walk's rounds at a limit are compared with rounds without one in the same process, so they are
    the repeats where that walk is all there is: docs/decisions/0086-the-quick-start-walks.md.
    """
    columns = sweep.columns
    spreads = {name: spread_of(columns.values(f"times_{name}", rows)) for name in TRIAL_TIMES}
    if spreads.get(STEADY) and (rounds := spread_of(_rounds_of_one_walk(sweep, rows))):
        spreads |= dict.fromkeys((STEADY, "total"), rounds)
    return {name: spread for name, spread in spreads.items() if spread}


def _rounds_of_one_walk(sweep: Sweep, rows: Sequence[int]) -> list[float]:
    """The steady rounds of visits that finished; empty if not all trials are of one walk."""
    if len(sweep.columns.values("walk_step", rows)) < len(rows):
        return []
    done = [sweep.records[row] for row in rows if sweep.records[row].outcome == "ok"]
    walks = [record.walk for record in done if record.walk and record.walk.round_s]
    if len({walk.walk for walk in walks}) != 1:
        return []
    return [round_s for walk in walks for round_s in _steady_of(walk)]


def unlimited_around(columns: ColumnTable) -> dict[int, float]:
    """Row of a walk's visit → seconds of a steady round without a limit at that time.

    Where the walk had none afterwards, for it was killed, the one before.
    """
    steps, around_s = (columns.numbers.get(f"walk_{name}") for name in ("step", "reference_s"))
    if steps is None or around_s is None:
        return {}
    found, known_s = {}, math.nan
    for row, (step, own_s) in enumerate(zip(steps, around_s, strict=True)):
        # A walk's visits follow one another, its first one without a limit.
        if step == 0:
            known_s = math.nan
        known_s = known_s if math.isnan(own_s) else own_s
        if step >= 0 and known_s > 0:
            found[row] = known_s
    return found


def steady_relative(
    sweep: Sweep, rows: Sequence[int], unlimited_s: Mapping[int, float]
) -> Spread | None:
    """Walks' steady rounds over those without a limit around them in the same process.

    What the machine or a process does slower for a while cancels out. The repeats are visits; of
    one walk and without a limit, rounds. None: no visit finished.

    Args:
        sweep: whose records.
        rows: the point's.
        unlimited_s: as :func:`unlimited_around` has it.
    """
    visits: list[tuple[str, list[float]]] = []
    for row in rows:
        if row in unlimited_s and (record := sweep.records[row]).outcome == "ok" and record.walk:
            steady = _steady_of(record.walk)
            visits.append((record.walk.walk, [round_s / unlimited_s[row] for round_s in steady]))
    visits = [visit for visit in visits if visit[1]]
    limited = bool(visits) and sweep.records[rows[0]].limits.memory_bytes is not None
    if limited and len({walk for walk, _ in visits}) > 1:
        return spread_of(statistics.median(rounds) for _, rounds in visits)
    return spread_of(one for _, rounds in visits for one in rounds)


def _steady_of(walk: WalkReport) -> list[float]:
    return [walk.round_s[place] for place in steadiness(walk.round_s).rounds]


def rounds_before_end(sweep: Sweep, rows: Sequence[int]) -> Spread | None:
    """The steady rounds, in seconds, of trials that a limit ended later; None: there were none.

    Of a walk that visited the limit with one round, that round.
    """
    ends = zip(rows, sweep.columns.words("outcome", rows), strict=True)
    ended = (sweep.records[row] for row, outcome in ends if outcome in TOO_TIGHT)
    return spread_of(round_s for record in ended for round_s in _steady_rounds(record))


def _steady_rounds(record: TrialRecord) -> list[float]:
    times = [phase.wall_s for phase in record.phases if phase.phase == "round"]
    if not times:
        return []
    # A process that visits a further limit has long started.
    single = (0,) if record.walk and record.walk.step else ()
    return [times[place] for place in steadiness(times).rounds or single]
