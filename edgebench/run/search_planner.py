"""What a search for least limits plans its trials with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from edgebench.records import TrialRecord
from edgebench.run.limit_bracket import TriedLimit
from edgebench.run.limit_trials import Pace
from edgebench.scenario.planner import Planner
from edgebench.scenario.points import PlannedTrial


class SearchPlanner(Planner, Protocol):
    """Chooses limits to try, and says what the trials at them came to."""

    pace: Pace

    def open_question(
        self, planned: Sequence[PlannedTrial], records: Mapping[str, TrialRecord]
    ) -> list[PlannedTrial]:
        """The next trial, whatever time is left; empty once the answers are known.

        The same as :meth:`further` of a search that takes all the time that it needs.
        """
        return self.further(planned, records)

    def tried(
        self, planned: Sequence[PlannedTrial], records: Mapping[str, TrialRecord]
    ) -> list[TriedLimit]:
        """What was tried below a limit."""
