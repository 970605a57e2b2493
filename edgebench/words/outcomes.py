"""What outcomes are called, and why trials did not finish: for terminal, page and figures."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from edgebench.kills import OBSERVER_EFFECT, is_locked, swap_was_free
from edgebench.records import EndedIn, Outcome, TrialRecord
from edgebench.text import joined_words
from edgebench.units import format_size
from edgebench.words.swap_ram import counted_bytes

#: What a trial does that imports its runtime.
IMPORTING = "importing its runtime"
_DOING = {"load": "loading", "first": "executing", "execute": "executing"}
#: Swap in memory frees next to nothing where it takes this share of what lies in it.
_INCOMPRESSIBLE = 0.9
NOTHING_TO_RECLAIM = f"the kernel found nothing it could reclaim; see {OBSERVER_EFFECT}"


class OutcomeWords(NamedTuple):
    """One outcome: in a narrow column, in a list, as what happened to a trial, as what happens."""

    column: str
    brief: str
    past: str
    now: str


_OUTCOMES: dict[Outcome, OutcomeWords] = {
    "ok": OutcomeWords("ok", "finished", "finished", "finishes"),
    "oom-killed": OutcomeWords("oom", "killed", "killed for memory", "is killed"),
    "accelerator-oom": OutcomeWords(
        "acc-oom",
        "accelerator full",
        "out of the accelerator's memory",
        "finds the accelerator's memory full",
    ),
    "timeout": OutcomeWords("time", "out of time", "out of time", "does not end in time"),
    "failed": OutcomeWords("fail", "failed", "failed", "fails"),
    "harness-error": OutcomeWords(
        "error", "not measured", "stopped by an error of edgebench", "is not measured"
    ),
    "interrupted": OutcomeWords("cut", "interrupted", "interrupted", "is interrupted"),
}


def outcome_words(outcome: str) -> OutcomeWords:
    """The words for an outcome; an unknown one is called by its name."""
    known = {str(name): words for name, words in _OUTCOMES.items()}
    return known.get(outcome) or OutcomeWords(*[outcome] * 4)


def outcome_counts(several: Iterable[Mapping[str, int]]) -> str:
    """``2 killed for memory and 1 out of time``: how the trials ended that did not finish."""
    counts: Counter[str] = Counter()
    for outcomes in several:
        counts.update({how: n for how, n in outcomes.items() if how != "ok"})
    return joined_words(f"{n} {outcome_words(how).past}" for how, n in sorted(counts.items()))


def doing_words(ended_in: EndedIn | None) -> str:
    """:data:`IMPORTING`, or ``loading classifier.1``; empty of anything else."""
    if ended_in is None:
        return ""
    if ended_in.phase == "import":
        return IMPORTING
    doing = _DOING.get(ended_in.phase)
    return f"{doing} {ended_in.layer}" if doing and ended_in.layer else ""


def reason_words(record: TrialRecord) -> str:
    """Why the trial did not finish, and how much swap was free if it was killed all the same."""
    reason, kill = record.reason or "", record.kill
    if kill is None or not swap_was_free(kill):
        return reason
    free, allowed = format_size(kill.swap_free_bytes), format_size(kill.swap_allowed_bytes)
    return f"{reason}; killed while {free} of {allowed} of swap were free: {_why_not(record)}"


def brief_reason(record: TrialRecord) -> str | None:
    """The reason of a trial's end without the numbers of that one trial."""
    if record.killed_with_swap_free:
        return f"killed while most of its swap was free: {_why_not(record)}"
    return record.reason


def _why_not(record: TrialRecord) -> str:
    """Why swap did not help."""
    kill, kept = record.kill, record.swap_ram
    if kill is not None and is_locked(kill):
        size = format_size(kill.unevictable_bytes)
        return f"{size} were locked in memory (mlock), which no swap can hold"
    if kept and counted_bytes(record) >= _INCOMPRESSIBLE * (record.swap_peak_bytes or math.inf):
        return f"{kept.kind} takes of the same memory, and its data hardly compress there"
    return NOTHING_TO_RECLAIM
