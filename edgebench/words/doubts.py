"""Sentences on what puts the numbers of a point in doubt."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from edgebench.results.point_facts import PointFacts
from edgebench.units import format_duration


def collection_notes(points: Iterable[PointFacts]) -> list[str]:
    """A line for each workload whose rounds the garbage collector ran in."""
    taken: dict[str, list[float]] = {}
    for point in points:
        taken.setdefault(point.workload, []).extend(point.collections_s)
    return [f"{name}: {collection_note(seconds)}" for name, seconds in taken.items() if seconds]


def collection_note(seconds: Sequence[float]) -> str:
    """What garbage collections took of the rounds of these trials, in words."""
    trials = "1 trial" if len(seconds) == 1 else f"{len(seconds)} trials"
    most = format_duration(max(seconds))
    return (
        f"garbage collections took up to {most} of the rounds of {trials}; "
        'gc = "frozen" keeps them out'
    )
