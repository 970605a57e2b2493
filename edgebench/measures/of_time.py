"""Strategies that tell time, not memory: they look from inside, in trials of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from edgebench.measures.strategy import ErrorBar, Reading, Strategy

#: Between the words of a part's name: phase, then what it is of.
SEPARATOR = "|"


class OfTime(Strategy):
    """A strategy whose parts are counts and nanoseconds by phase."""

    own_trial = True
    tells_memory = False
    inside_worker = True
    #: How the times were told.
    method: ClassVar[str]

    def of_parts(self, parts: Mapping[str, int]) -> Reading:
        """The reading that has these parts and no peak."""
        return Reading(
            strategy=self.name,
            peak_bytes=None,
            method=self.method,
            error=ErrorBar(None, "it tells no memory"),
            parts=dict(parts),
            missing={"peak_bytes": "it tells time, not memory"},
        )
