"""Short words for how trials ended."""

from __future__ import annotations

import math
from collections.abc import Mapping

from edgebench.kills import OBSERVER_EFFECT, is_locked, swap_was_free
from edgebench.records import EndedIn, TrialRecord

#: Swap in memory frees next to nothing where it takes this share of what lies in it.
_INCOMPRESSIBLE = 0.9
NOTHING_TO_RECLAIM = f"nothing could be reclaimed ({OBSERVER_EFFECT})"

_ENDS = {
    "ok": "finished",
    "oom-killed": "killed",
    "accelerator-oom": "accelerator full",
    "timeout": "stopped",
    "harness-error": "not measured",
}


def end_word(outcome: str) -> str:
    """``killed``; an outcome without another word is called by its name."""
    return _ENDS.get(outcome, outcome)


def end_words(outcomes: Mapping[str, int], ended_in: EndedIn | None = None) -> str:
    """``killed in features.8``, ``killed, stopped``: how trials ended that did not finish."""
    words = ", ".join(end_word(outcome) for outcome in outcomes if outcome != "ok")
    place = (ended_in.layer or ended_in.phase) if words and ended_in else None
    return f"{words} in {place}" if place else words


def reason_words(record: TrialRecord) -> str:
    """Why a trial did not finish; of a kill while most of its swap was free, why swap was no help.

    Without numbers of that one trial.
    """
    if not swap_was_free(record.kill):
        return record.reason or ""
    ram = record.swap_ram
    taken = ram.peak_bytes if ram and ram.limit_least_bytes is not None else 0
    why = NOTHING_TO_RECLAIM
    if record.kill and is_locked(record.kill):
        why = "it is locked in memory (mlock), which no swap can hold"
    elif ram and taken >= _INCOMPRESSIBLE * (record.swap_peak_bytes or math.inf):
        why = f"{ram.kind} takes of the same memory, and its data hardly compress there"
    return f"killed while most of its swap was free: {why}"
