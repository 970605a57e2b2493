"""What outcomes are called: a table that terminal, page, figures and sentences share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from edgebench.records import Outcome
from edgebench.text import joined_words


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
