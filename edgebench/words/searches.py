"""What a search found: a limit that is enough, and the nearest one that is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from edgebench.kills import OBSERVER_EFFECT
from edgebench.units import format_size
from edgebench.words.outcomes import outcome_words

if TYPE_CHECKING:
    from edgebench.run.search import LimitBracket, TriedLimit


def bracket_words(found: LimitBracket, how: Callable[[TriedLimit], str]) -> str:
    """A limit that is enough and one that is not; ``how`` words the trials at a limit."""
    good, bad = found.good, found.bad
    if good is None:
        return f"none up to {_tried(bad, how)}" if bad else "unknown"
    below = f"; not at {_tried(bad, how)}" if bad else "; no smaller limit was tried"
    return _tried(good, how) + below


def limit_end_words(one: TriedLimit) -> str:
    """How the trials at that limit ended; of a kill that a lack of swap can't explain also why."""
    words = outcome_words(one.outcome).past
    if one.outcome == "ok" or one.swap_free_bytes is None:
        return words
    free = format_size(one.swap_free_bytes)
    return f"{words} while {free} of swap were free: see {OBSERVER_EFFECT}"


def limit_slowdown_words(one: TriedLimit) -> str:
    """How much slower it is there, or how its trials ended."""
    return f"x{one.slowdown:.2f}" if one.slowdown is not None else limit_end_words(one)


def _tried(one: TriedLimit, how: Callable[[TriedLimit], str]) -> str:
    times = "once" if one.trials == 1 else f"{one.trials} trials"
    if 0 < one.killed < one.trials:
        times = f"{one.killed} of {times}"
    return f"{format_size(one.limit_bytes)} ({how(one)}, {times})"
