"""One trial's record as a sentence."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from edgebench.need import need_of
from edgebench.results.unmeasured import unmeasured
from edgebench.text import printable, shortened
from edgebench.units import format_duration, format_size
from edgebench.words.outcomes import outcome_words
from edgebench.words.unmeasured import program_need_words

if TYPE_CHECKING:
    from edgebench.records import TrialRecord


def record_line(record: TrialRecord) -> str:
    """Return its number and how it went: ``<TrialRecord 0001: train.py was killed …>``."""
    return f"<TrialRecord {record.trial}: {_sentence(record)}>"


def _sentence(record: TrialRecord) -> str:
    settings = record.settings
    if isinstance(command := settings.get("command"), list):
        name = shlex.join(map(str, command))
    else:
        networks = "+".join(map(str, settings.get("networks") or ()))
        name = str(settings.get("function") or networks or settings.get("kind"))
    name = shortened(printable(name))
    limit = record.limit_bytes
    at = "without a limit" if limit is None else f"at {format_size(limit)}"
    if record.outcome == "oom-killed":
        by = "for memory" if record.swap_ram and record.swap_ram.ran_out else "by the kernel"
        return f"{name} was killed {by} {at}"
    if record.outcome != "ok":
        return f"{name} {outcome_words(record.outcome).now} {at}: {record.reason}"
    took = format_duration(record.wall_s or 0.0)
    if (need := need_of(record)) is not None:
        return f"{program_need_words(name, need, unmeasured([record]))}; took {took}"
    return f"{name} finished {at} in {took}"
