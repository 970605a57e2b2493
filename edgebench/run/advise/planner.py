"""Which trial ``advise`` makes next: a race of remedies, then the winner measured anew.

1. The plain workload without and with the limit, twice unless it is slowed far. Without pressure
   nothing more is tried.
2. Every remedy once, those that mostly buy most first, then the easiest, against the plain trials
   of 1. Then blocks of trials, the plain workload first: in random order the faster half again, and
   those whose interval does not lie above the fastest's.
3. The two fastest of different groups at once, twice, beside the fastest.
4. The winner and the plain workload in turns: five pairs under the limit, two without. Where plain
   trials are killed at times, more.

2 and 3 end when the time that is left is what 4 takes.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

from edgebench.records import TrialRecord
from edgebench.run.advise.budget import AdviceBudget, SearchClock, needed_s, stop_s, unbeaten
from edgebench.run.advise.candidates import PLAIN, Candidate
from edgebench.run.advise.trials import (
    COMBINING,
    MEASURING,
    SCREENING,
    UNLIMITED,
    AdviceTrials,
    paired_ratio,
)
from edgebench.run.walk.pace import Pace
from edgebench.scenario.points import PlannedTrial

#: A slowdown below this, in either first pair, is no pressure; from the other on one pair will do.
PRESSURE, _CLEAR = 1.1, 3.0
#: A remedy must take at most this part of the plain time to be worth setting.
WORTH = 0.95
#: Pairs of each stage.
_FIRST, _SCREENED, _COMBINED = 2, 3, 2
#: So many are tried a second time at least.
_LEAST_KEPT = 3
#: Remedies whose times differ by less are alike: the one that is easiest to set wins.
_ALIKE = 1.05
_CONFIDENCE = 0.9
#: A candidate, its block, and whether it runs under the limit.
_Names = Sequence[str]
_Planned = Sequence[PlannedTrial]
_Next = tuple[str, int, bool]


class AdvicePlanner:
    """Chooses the next trial from what all earlier ones came to.

    Args:
        candidates: what may be tried, the plain workload first, then from the easiest to set on.
        pace: the time of a round.
        budget_s: what the search may take.
        seed: of the order within blocks.
        clock: what this start took before its first trial.
    """

    def __init__(
        self,
        candidates: Sequence[Candidate],
        pace: Pace,
        budget_s: float,
        seed: int = 1,
        clock: SearchClock | None = None,
    ) -> None:
        self._candidates = {one.name: one for one in candidates}
        singles = [one for one in candidates if len(one.remedies) == 1]
        singles.sort(key=lambda one: -one.remedies[0].promise)
        self._singles = [one.name for one in singles]
        self._pace, self._seed, self._clock = pace, seed, clock or SearchClock()
        self.budget = AdviceBudget(budget_s)

    def first(self) -> list[PlannedTrial]:
        """One without a limit: if it fails, no limit is to blame."""
        return [self._planned([], PLAIN, 0, limited=False, timeout_s=None)]

    def further(self, planned: _Planned, records: Mapping[str, TrialRecord]) -> list[PlannedTrial]:
        """Return the next trial; empty once the winner is measured, or nothing helps."""
        seen = self.trials(planned, records)
        self.budget = replace(self.budget, outside_s=self._clock.outside_s(records))
        wanted = self._next(seen)
        if wanted is None:
            return []
        name, block, limited = wanted
        stopped_s = stop_s(seen, name, block) if limited else None
        return [self._planned(planned, name, block, limited=limited, timeout_s=stopped_s)]

    def trials(self, planned: _Planned, records: Mapping[str, TrialRecord]) -> AdviceTrials:
        """Return the trials by candidate."""
        return AdviceTrials(list(self._candidates.values()), planned, records, self._pace)

    def pressed(self, seen: AdviceTrials) -> bool:
        """Whether the limit costs the plain workload anything."""
        return seen.plain_end != "ok" or min(seen.slowdowns, default=1.0) >= PRESSURE

    def winner(self, seen: AdviceTrials) -> str | None:
        """Of the fastest candidates, which are alike, the one that is easiest to set."""
        found, pair = self._kept(seen), self._pair(seen)
        if pair and pair in self._promising(seen, [pair], COMBINING, MEASURING):
            found = [*found, pair]
        score = {name: self._score(seen, name) for name in found}
        best = min(score.values(), default=math.inf)
        alike = [name for name in found if score[name] <= best * _ALIKE]
        # The candidates' own order is by effort, too, so that the easiest of two alike is first.
        listed = [name for name in self._candidates if name in alike]
        return min(listed, key=lambda name: self._candidates[name].effort, default=None)

    def _next(self, seen: AdviceTrials) -> _Next | None:
        """Candidate, block and whether under the limit; None at the end."""
        if any(r.outcome != "ok" for r in seen.records(PLAIN, limited=False).values()):
            return None
        for block in range(_FIRST):
            if block and seen.plain_end == "ok" and min(seen.slowdowns, default=0.0) >= _CLEAR:
                break
            for limited in (False, True):
                if not seen.is_planned(PLAIN, block, limited=limited):
                    return PLAIN, block, limited
        if not self.pressed(seen):
            return None
        if not seen.has_begun(COMBINING) and (screened := self._screening(seen)):
            return screened
        if not seen.has_begun(MEASURING) and (combined := self._combining(seen)):
            return combined
        return self._measuring(seen)

    def _screening(self, seen: AdviceTrials) -> _Next | None:
        for number in range(_SCREENED):
            names = self._members(seen, number)
            if number and len(names) < 2:
                # It has won: what is left is to measure it.
                return None
            if wanted := self._in_block(seen, names, SCREENING + number):
                return wanted if self._has_time(seen, wanted, names) else None
        return None

    def _has_time(self, seen: AdviceTrials, wanted: _Next, names: _Names) -> bool:
        more_s = needed_s(seen, *wanted[:2], names)
        helpful = self._promising(seen, self._singles, SCREENING, COMBINING)
        return not more_s or self.budget.allows(seen, more_s, next(iter(helpful), None))

    def _members(self, seen: AdviceTrials, number: int) -> list[str]:
        """Return the remedies of a block of screening, told from the blocks before it."""
        names = self._singles
        for before in range(number):
            end = SCREENING + before + 1
            good = self._promising(seen, names, SCREENING, end)
            if before == 0:
                good = unbeaten(good, {name: self._score(seen, name, end) for name in good})
                names = good[: max(math.ceil(len(names) / 2), _LEAST_KEPT)]
            else:
                names = self._still_possible(seen, good, end)
        return names

    def _promising(self, seen: AdviceTrials, names: _Names, first: int, end: int) -> list[str]:
        """Those that finish, change nothing and are faster than plain; the fastest first."""
        fine = [n for n in names if seen.records(n, first, end) and seen.end(n, 0, end) == "ok"]
        if seen.plain_end != "ok":
            return sorted(fine, key=lambda name: seen.seconds(name, first, end) or math.inf)
        found = {name: paired_ratio(seen.logs(name, first, end), _CONFIDENCE) for name in fine}
        faster = {n: one.ratio for n, one in found.items() if one and one.ratio <= WORTH}
        return sorted(faster, key=lambda name: faster[name])

    def _still_possible(self, seen: AdviceTrials, names: _Names, end: int) -> list[str]:
        """Those whose interval doesn't lie above the fastest's, by more than what is alike."""
        found = {n: paired_ratio(seen.logs(n, SCREENING, end), _CONFIDENCE) for n in names}
        best = found[names[0]] if names else None
        if best is None:
            return list(names)
        return [n for n in names if (one := found[n]) and one.low <= best.high * _ALIKE]

    def _kept(self, seen: AdviceTrials) -> list[str]:
        """Return the remedies that came through screening, as far as it went; the fastest first."""
        blocks = [n for n in range(_SCREENED) if self._is_over(seen, n)]
        names = self._members(seen, len(blocks))
        return self._promising(seen, names, SCREENING, COMBINING)

    def _is_over(self, seen: AdviceTrials, number: int) -> bool:
        """Whether a block of screening has all of its trials."""
        names = self._members(seen, number)
        return bool(names) and all(seen.is_planned(n, SCREENING + number) for n in names)

    def _pair(self, seen: AdviceTrials) -> str | None:
        """Return the fastest two at once, of those that help and go together."""
        helpful = self._promising(seen, self._singles, SCREENING, COMBINING)
        pairs = itertools.combinations(helpful, 2)
        names = (name for a, b in pairs for name in (f"{a}+{b}", f"{b}+{a}"))
        return next((name for name in names if name in self._candidates), None)

    def _combining(self, seen: AdviceTrials) -> _Next | None:
        if (pair := self._pair(seen)) is None:
            return None
        names = [self._kept(seen)[0], pair]
        blocks = range(COMBINING, COMBINING + _COMBINED)
        found = (self._in_block(seen, names, block) for block in blocks)
        wanted = next(filter(None, found), None)
        return wanted if wanted and self._has_time(seen, wanted, names[:1] * 2) else None

    def _measuring(self, seen: AdviceTrials) -> _Next | None:
        if (winner := self.winner(seen)) is None:
            return None
        blocks = [(MEASURING + n, True) for n in range(self.budget.blocks(seen, winner))]
        blocks += [(UNLIMITED + n, False) for n in range(self.budget.unlimited_pairs(seen))]
        for block, limited in blocks:
            for name in _in_turns(winner, block):
                if not seen.is_planned(name, block, limited=limited):
                    return name, block, limited
        return None

    def _in_block(self, seen: AdviceTrials, names: _Names, block: int) -> _Next | None:
        """Return the block's next trial: plain, then the others.

        In the first, what promises most.
        """
        if not names:
            return None
        order = list(names)
        if block > SCREENING:
            random.Random(f"{self._seed}-{block}").shuffle(order)
            order = [PLAIN, *order] if seen.plain_end == "ok" else order
        left = (name for name in order if not seen.is_planned(name, block))
        return next(((name, block, True) for name in left), None)

    def _score(self, seen: AdviceTrials, name: str, end: int = MEASURING) -> float:
        """Return what is compared.

        Time as a part of plain, or seconds where plain does not finish.
        """
        if seen.plain_end != "ok":
            return seen.seconds(name, SCREENING, end) or math.inf
        found = paired_ratio(seen.logs(name, SCREENING, end), _CONFIDENCE)
        return found.ratio if found else math.inf

    def _planned(
        self, planned: _Planned, name: str, block: int, *, limited: bool, timeout_s: float | None
    ) -> PlannedTrial:
        one = self._candidates[name]
        point = (one.limited if limited else one.unlimited).id
        number, repeat = len(planned), sum(before.point_id == point for before in planned)
        return PlannedTrial(f"{number + 1:04d}", point, block, repeat, None, timeout_s)


def _in_turns(winner: str, number: int) -> tuple[str, str]:
    """Each is first as often as the other."""
    return (PLAIN, winner) if number % 2 == 0 else (winner, PLAIN)
