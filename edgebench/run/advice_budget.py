"""How a search of ``advise`` divides its time: trying remedies, and measuring the winner anew."""

from __future__ import annotations

from dataclasses import dataclass

from edgebench.run.advice_candidates import PLAIN
from edgebench.run.advice_trials import MEASURING, SCREENING, UNLIMITED, AdviceTrials

#: Pairs in which the winner is measured anew: under the limit, and without it.
MEASURED_PAIRS, UNLIMITED_PAIRS = 5, 2
#: A plain trial that is killed makes no pair: so many blocks in all, if some are killed.
_MOST_BLOCKS = 8
#: The part of the budget in which remedies are tried at least.
_TRYING_SHARE = 0.5


@dataclass(frozen=True)
class AdviceBudget:
    """What all trials of a search may take, seconds.

    A workload whose trials are slow takes longer: remedies are tried for half of it at least, and
    the winner is measured in any case.
    """

    seconds: float

    def is_spent(self, seen: AdviceTrials) -> bool:
        """Whether one more trial of a remedy would take time that the winner's measurement needs.

        One is tried in any case.
        """
        if not any(seen.records(name, SCREENING, MEASURING) for name in seen.remedies):
            return False
        limited, free = (seen.trial_s(PLAIN, limited=limited) or 0.0 for limited in (True, False))
        fine = (name for name in seen.remedies if seen.end(name, SCREENING, MEASURING) == "ok")
        helped = min((s for name in fine if (s := seen.trial_s(name))), default=limited)
        reserved_s = MEASURED_PAIRS * (limited + helped) + 2 * UNLIMITED_PAIRS * free
        left_s = self.seconds - seen.took_s(0, SCREENING) - reserved_s
        tried_s = seen.took_s(SCREENING)
        return tried_s + limited > left_s and tried_s > _TRYING_SHARE * self.seconds

    def blocks(self, seen: AdviceTrials, winner: str) -> int:
        """In how many blocks the winner is measured: as many more as plain trials were killed.

        Only where some of them finish, and while the budget lasts.
        """
        plain = seen.records(PLAIN, MEASURING, UNLIMITED).values()
        lost = sum(record.outcome != "ok" for record in plain)
        if lost in (0, len(plain)):
            return MEASURED_PAIRS
        both_s = sum(seen.trial_s(name) or 0.0 for name in (PLAIN, winner))
        free_s = 2 * UNLIMITED_PAIRS * (seen.trial_s(PLAIN, limited=False) or 0.0)
        # Blocks that began count as before, so that a search goes on as it would have.
        begun = max(len(seen.records(name, MEASURING, UNLIMITED)) for name in (PLAIN, winner))
        spent_s = seen.took_s(0, UNLIMITED) + free_s
        more = max(0, int((self.seconds - spent_s) / both_s)) if both_s else 0
        return min(MEASURED_PAIRS + lost, _MOST_BLOCKS, max(MEASURED_PAIRS, begun + more))
