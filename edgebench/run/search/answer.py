"""What a search for the limit to give found."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from edgebench.answers.give import paste_lines
from edgebench.answers.limits import WorkloadAnswer, needs_words
from edgebench.answers.table import size
from edgebench.results.facts import WorkloadFacts
from edgebench.text import shortened

#: Fields that are no part of what a search took.
_ANSWERS = ("answer", "workload")


@dataclass(frozen=True)
class Minimum:
    """What the search found, and what it took.

    Args:
        answer: what it needs, what to give it, and a row for each limit that was tried.
        folder: the sweep that has its trials.
        trials: how many there were, those without a limit too.
        total_s: what all trials took.
        slowdown: the factor that was asked for, or that the throughput comes to; None: the usual.
        fits: whether the only limit that was tried is enough; None: a search, or it still grew.
        finished: whether all questions were answered; False: it was interrupted or out of time.
        workload: the facts behind the answer.
    """

    answer: WorkloadAnswer
    folder: Path
    trials: int
    total_s: float
    slowdown: float | None
    fits: bool | None
    finished: bool
    workload: WorkloadFacts = field(repr=False)

    @property
    def name(self) -> str:
        """Of the network, or the command."""
        return self.answer.name

    @property
    def needs_bytes(self) -> float:
        """The most that a run without a limit used."""
        return self.answer.needs_bytes[1] if self.answer.needs_bytes else 0.0

    @property
    def give_bytes(self) -> int | None:
        """The least limit at which all trials finished, no slower than allowed; None: at none."""
        return self.answer.give_bytes

    def __repr__(self) -> str:
        """Return what it needs, and what to give it; its fields are in ``vars(found)``."""
        needs, give = needs_words(self.answer), size(self.give_bytes)
        return f"<Minimum: {shortened(self.name)} {needs}, give {give}>"

    def to_json(self) -> dict[str, Any]:
        """Plain data: the answer, and what the search took."""
        took = {name: value for name, value in vars(self).items() if name not in _ANSWERS}
        return {**took, **asdict(self.answer), "paste": paste_lines(self.answer)}
