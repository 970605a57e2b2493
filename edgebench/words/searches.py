"""What a search found: a limit, or a batch, that is enough, and the nearest one that is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from edgebench.kills import OBSERVER_EFFECT
from edgebench.units import format_size
from edgebench.words.outcomes import outcome_words

if TYPE_CHECKING:
    from edgebench.run.search import LargestBatch, LimitBracket, TriedLimit


def bracket_words(found: LimitBracket, how: Callable[[TriedLimit], str]) -> str:
    """A limit that is enough and one that is not; ``how`` words the trials at a limit."""
    good, bad = found.good, found.bad
    if good is None:
        return f"none up to {_tried(bad, how)}" if bad else "unknown"
    below = f"; not at {_tried(bad, how)}" if bad else "; no smaller limit was tried"
    return _tried(good, how) + below


def limit_end_words(one: TriedLimit) -> str:
    """How the trials at that limit ended."""
    return _end_words(one.outcome, one.swap_free_bytes)


def limit_slowdown_words(one: TriedLimit) -> str:
    """How much slower it is there, or how its trials ended."""
    return f"x{one.slowdown:.2f}" if one.slowdown is not None else limit_end_words(one)


def largest_batch_sentence(found: LargestBatch, network: str, memory: str) -> str:
    """``lenet trains with a batch of up to 64 at 1G; a batch of 66 is too large``."""
    fits, too_large = found.fits, found.too_large
    if fits is None:
        return f"{network} trains with no batch at {memory}: even the smallest is too large."
    words = f"{network} trains with a batch of up to {fits.batch} at {memory}"
    if too_large is None:
        return f"{words}; no larger batch was tried: give a larger --most."
    return f"{words}; a batch of {too_large.batch} is too large."


def largest_batch_rows(found: LargestBatch) -> list[tuple[str, str]]:
    """The trials behind that sentence: a name and its words for each batch."""
    rows = []
    if (fits := found.fits) is not None:
        peak = f"peak {format_size(fits.peak_bytes)}, " if fits.peak_bytes else ""
        rows.append(("largest batch", f"{fits.batch} ({peak}finished, {_times(fits.trials)})"))
    if (one := found.too_large) is not None:
        end = _end_words(one.outcome, one.swap_free_bytes)
        rows.append(("too large", f"{one.batch} ({end}, {_times(one.trials)})"))
    return rows


def least_memory_sentence(found: LimitBracket, network: str, batch: int) -> str:
    """``The least limit at which lenet trains with a batch of 8: 96.0 MiB (finished, …); …``."""
    words = bracket_words(found, limit_end_words)
    return f"The least limit at which {network} trains with a batch of {batch}: {words}."


def _tried(one: TriedLimit, how: Callable[[TriedLimit], str]) -> str:
    return f"{format_size(one.limit_bytes)} ({how(one)}, {_times(one.trials)})"


def _times(trials: int) -> str:
    return "once" if trials == 1 else f"{trials} trials"


def _end_words(outcome: str, swap_free_bytes: int | None) -> str:
    """How trials ended; of a kill that a lack of swap can't explain also why."""
    words = outcome_words(outcome).past
    if outcome == "ok" or swap_free_bytes is None:
        return words
    return f"{words} while {format_size(swap_free_bytes)} of swap were free: see {OBSERVER_EFFECT}"
