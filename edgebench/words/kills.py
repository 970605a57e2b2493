"""Sentences on kills: how trials were watched."""

from __future__ import annotations

from edgebench.results.sweep_reader import Sweep
from edgebench.results.watched import how_watched

#: What a reader of such a sweep should know.
MAY_HAVE_SAVED = (
    "memory.stat was read while trials under a limit ran, which can prevent kills: "
    "without it some limits may be too tight"
)


def watching_warnings(sweep: Sweep) -> list[str]:
    """The warning about kills that reading memory.stat may have prevented, if it was read."""
    return [] if how_watched(sweep) in (None, "without memory.stat") else [MAY_HAVE_SAVED]
