"""Times of a point over its repeats: trials; or, of a limit that one walk visited, its rounds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from edgebench.kills import TOO_TIGHT
from edgebench.results.rounds import STEADY, TRIAL_TIMES, round_stages
from edgebench.results.spread import Spread, spread_of

if TYPE_CHECKING:
    from edgebench.records import PhaseSum, TrialRecord
    from edgebench.results.columns import ColumnTable
    from edgebench.results.sweep_reader import Sweep


class WalkedRows:
    """The rows of a sweep's columns that are visits of walks."""

    def __init__(self, columns: ColumnTable) -> None:
        steps, around_s = (columns.numbers.get(f"walk_{name}") for name in ("step", "reference_s"))
        self._walks = [] if steps is None else walk_numbers(steps)
        #: Row → seconds of a steady round without a limit at that time.
        self.unlimited_s: dict[int, float] = {}
        if steps is not None and around_s is not None:
            self.unlimited_s = unlimited_around(self._walks, around_s)

    def of(self, rows: Iterable[int]) -> list[int]:
        """Return the numbers of the rows' walks."""
        return [self._walks[row] for row in rows] if self._walks else []


def point_times(sweep: Sweep, rows: Sequence[int], walked: WalkedRows) -> dict[str, Spread]:
    """Each time of these trials that is known, in seconds.

    A walk's rounds at a limit are compared with rounds without one in the same process, so they are
    the repeats where that walk is all there is: docs/decisions.md.
    """
    columns = sweep.columns
    spreads = {name: spread_of(columns.values(f"times_{name}", rows)) for name in TRIAL_TIMES}
    if spreads.get(STEADY) and (rounds := spread_of(_rounds_of_one_walk(sweep, rows, walked))):
        spreads |= dict.fromkeys((STEADY, "total"), rounds)
    return {name: spread for name, spread in spreads.items() if spread}


def _rounds_of_one_walk(sweep: Sweep, rows: Sequence[int], walked: WalkedRows) -> list[float]:
    """Return the steady rounds of visits that finished; empty if they are not all of one walk."""
    ends = zip(rows, sweep.columns.words("outcome", rows), strict=True)
    done = [row for row, outcome in ends if outcome == "ok"]
    if not is_one_walk(walked.of(done)):
        return []
    return [round_s for row in done for round_s in _steady_rounds(sweep.records[row])]


def steady_relative(sweep: Sweep, rows: Sequence[int], walked: WalkedRows) -> Spread | None:
    """Return walks' steady rounds over those without a limit around them in the same process.

    What the machine or a process does slower for a while cancels out. The repeats are visits; of
    one walk and without a limit, rounds. None: no visit finished.
    """
    visits: dict[int, list[float]] = {}
    for row in rows:
        unlimited_s = walked.unlimited_s.get(row)
        if unlimited_s and (record := sweep.records[row]).outcome == "ok" and record.walk:
            steady = [round_s / unlimited_s for round_s in _steady_rounds(record)]
            visits |= {row: steady} if steady else {}
    limited = bool(visits) and sweep.records[rows[0]].limits.memory_bytes is not None
    if limited and not is_one_walk(walked.of(visits)):
        return spread_of(map(statistics.median, visits.values()))
    return spread_of(one for rounds in visits.values() for one in rounds)


def rounds_before_end(sweep: Sweep, rows: Sequence[int]) -> Spread | None:
    """Return the steady rounds, in seconds, of trials that a limit ended later; None: none.

    Of a walk that visited the limit with one round, that round.
    """
    ends = zip(rows, sweep.columns.words("outcome", rows), strict=True)
    found: list[float] = []
    for one in (sweep.records[row] for row, outcome in ends if outcome in TOO_TIGHT):
        steady = _steady_rounds(one)
        if not steady and one.walk and one.walk.step:
            # No start: a process that visits a further limit has long begun.
            steady = [phase.wall_s for phase in _rounds(one)]
        found += steady
    return spread_of(found)


def _steady_rounds(record: TrialRecord) -> list[float]:
    stages = round_stages(record)
    return [one.wall_s for one in _rounds(record) if stages[one.round] == STEADY]


def _rounds(record: TrialRecord) -> list[PhaseSum]:
    return [phase for phase in record.phases if phase.phase == "round"]


#: The number of what is of no walk.
NO_WALK = -1


def walk_numbers(steps: Iterable[float]) -> list[int]:
    """Each trial's walk, numbered from 0; :data:`NO_WALK` of a fresh one.

    Args:
        steps: of each trial in the order of their records, which of its walk's visits it is; NaN
            of a fresh one.
    """
    found, number = [], NO_WALK
    for step in steps:
        number += step == 0
        found.append(number if step >= 0 else NO_WALK)
    return found


def is_one_walk(walks: Iterable[int]) -> bool:
    """Whether trials that finished are visits of a single walk: then its rounds are the repeats.

    Args:
        walks: their numbers.
    """
    found = set(walks)
    return len(found) == 1 and NO_WALK not in found


def unlimited_around(walks: Sequence[int], around_s: Sequence[float]) -> dict[int, float]:
    """Row of a walk's visit → seconds of a steady round without a limit at that time.

    Where the walk had none afterwards, for it was killed, the one before.

    Args:
        walks: each row's, as :func:`walk_numbers` has them.
        around_s: what its record says of that round; NaN where there was none.
    """
    found: dict[int, float] = {}
    known_s: dict[int, float] = {}
    for row, (walk, own_s) in enumerate(zip(walks, around_s, strict=True)):
        if not math.isnan(own_s):
            known_s[walk] = own_s
        if walk != NO_WALK and known_s.get(walk, 0.0) > 0:
            found[row] = known_s[walk]
    return found
