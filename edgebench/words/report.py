"""Sentences that a report says of its sweep: its state, its machine, what it leaves out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgebench.errors import EdgebenchError

if TYPE_CHECKING:
    from edgebench.results.sweep_reader import Sweep

_MOST_WARNINGS = 40


def no_layers_words(error: EdgebenchError) -> str:
    """Why there are no layer times."""
    return f"no layer times: {error.what}"


def no_fit_words(error: EdgebenchError) -> str:
    """Why nothing is fitted."""
    return f"no fit: {error.what}"


def sweep_title(sweep: Sweep) -> str:
    """``quickstart-232ea1 on vm-2core-24g``."""
    return f"{sweep.name} on {sweep.device}"


def state_sentences(sweep: Sweep) -> list[str]:
    """Its state, when its trials began, and its machine."""
    state = "running" if sweep.running else "complete" if sweep.complete else "unfinished"
    planned = sweep.planned or "an unknown number"
    said = [f"The sweep is {state}: {len(sweep.records)} of {planned} trials are recorded."]
    started = [record.started_utc for record in sweep.records]
    if started:
        first, last = _minute(min(started)), _minute(max(started))
        when = f"at {first}" if first == last else f"from {first} to {last}"
        said.append(f"Trials began {when} UTC.")
    machine = sweep.environment
    words = [machine.get(key) for key in ("board", "cpu_model", "os", "kernel")]
    if told := ", ".join(str(word) for word in words if word):
        said.append(f"The machine: {told}.")
    return said


def _minute(started_utc: str) -> str:
    return started_utc[:16].replace("T", " ")


def capped_warnings(warnings: Sequence[str]) -> list[str]:
    """The first of them, and how many more there are."""
    left = len(warnings) - _MOST_WARNINGS
    more = [f"… and {left} more: edgebench show --json lists all"] if left > 0 else []
    return [*warnings[:_MOST_WARNINGS], *more]


def footer_sentence(sweep: Sweep) -> str:
    """Which versions measured and reported."""
    from edgebench import __version__

    made = sweep.environment.get("edgebench") or "an unknown version"
    return f"Measured by edgebench {made}, reported by edgebench {__version__}."
