"""What ``edgebench measure`` answers: how one trial ended, how long it took and what it needs."""

from __future__ import annotations

from edgebench.need import need_of
from edgebench.records import TrialRecord
from edgebench.results.unmeasured import is_stopped, unmeasured
from edgebench.units import format_duration, format_size
from edgebench.words.need import need_words
from edgebench.words.swap_ram import more_than_words, with_swap_words
from edgebench.words.unmeasured import growth_words


def measure_sentence(record: TrialRecord) -> str:
    """How it ended, how long it took and what it needs."""
    took = format_duration(record.wall_s or 0.0)
    limit = format_size(record.limit_bytes)
    if record.outcome == "oom-killed" and record.limit_bytes is None:
        return f"Killed for memory after {took}, without a limit."
    if record.outcome == "oom-killed":
        return f"Killed for memory after {took}: it needs more than {more_than_words(record)}."
    ends = {
        "ok": f"It took {took}",
        "timeout": f"Stopped at its time limit, after {took}",
        "accelerator-oom": f"It ran out of the accelerator's memory after {took}",
        "interrupted": f"Interrupted after {took}",
    }
    if record.outcome == "ok" and is_stopped(record):
        ends["ok"] = f"Stopped after {took}"
    how = ends.get(record.outcome, f"It {_failed(record)} after {took}")
    found, need = unmeasured([record]), need_of(record)
    if found.growth:
        held = format_size(need.total_bytes if need else record.peak_bytes or 0)
        return f"{how}; it held {held} of memory and is {growth_words(found.growth)}."
    if need is not None:
        of_memory = "" if need.files_bytes else " of memory"
        itself = " itself" if found.processes else ""
        return f"{how} and needed {need_words(need)}{of_memory}{itself}."
    if record.peak_bytes is None:
        return f"{how}; its need of memory is unknown."
    peak = format_size(record.peak_bytes)
    if record.limit_bytes is None:
        return f"{how} and used {peak} of memory."
    if record.saturated:
        words = f"{how} with {limit} of memory{with_swap_words(record)}"
        return f"{words}; it used all, and may need more."
    return f"{how} and used {peak} of the {limit} that it was allowed."


def _failed(record: TrialRecord) -> str:
    """A program that a signal ended, or GNU time before it, has no exit code."""
    if record.exit_code is not None and not record.signal:
        return f"failed with exit code {record.exit_code}"
    if not record.signal:
        return "failed"
    return f"was {record.reason}"


def not_held_sentences(record: TrialRecord) -> list[str]:
    """What the declared storage speed does not hold."""
    reasons = record.storage.not_held if record.storage else {}
    return [f"the storage speed does not hold {what}: {why}" for what, why in reasons.items()]
