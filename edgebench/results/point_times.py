"""Times of a point over its repeats: trials; or, of a limit that one walk visited, its rounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgebench.kills import TOO_TIGHT
from edgebench.results.spread import Spread, spread_of
from edgebench.results.stages import STEADY
from edgebench.results.steady import steadiness
from edgebench.results.trial_lines import TIMES

if TYPE_CHECKING:
    from edgebench.records import TrialRecord
    from edgebench.results.sweep_reader import Sweep


def point_times(sweep: Sweep, rows: Sequence[int]) -> dict[str, Spread]:
    """Each time of these trials that is known, in seconds.

    A walk's rounds at a limit are compared with rounds without one in the same process, so they are
    the repeats where that walk is all there is: docs/decisions/0086-the-quick-start-walks.md.
    """
    columns = sweep.columns
    spreads = {name: spread_of(columns.values(f"times_{name}", rows)) for name in TIMES}
    if spreads.get(STEADY) and (rounds := spread_of(_rounds_of_one_walk(sweep, rows))):
        spreads |= dict.fromkeys((STEADY, "total"), rounds)
    return {name: spread for name, spread in spreads.items() if spread}


def _rounds_of_one_walk(sweep: Sweep, rows: Sequence[int]) -> list[float]:
    """The steady rounds of all visits; empty if not all trials are visits of one walk."""
    if len(sweep.columns.values("walk_step", rows)) < len(rows):
        return []
    walks = [walk for row in rows if (walk := sweep.records[row].walk) and walk.round_s]
    if len({walk.walk for walk in walks}) != 1:
        return []
    return [walk.round_s[place] for walk in walks for place in steadiness(walk.round_s).rounds]


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
