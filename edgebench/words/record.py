"""One trial's record as a sentence, and as a notebook shows it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

from edgebench.measures.machine.noise import trial_doubts
from edgebench.need import need_of
from edgebench.results.unmeasured import unmeasured
from edgebench.text import printable, shortened
from edgebench.units import format_duration, format_energy, format_size
from edgebench.words.doubts import doubt_sentences
from edgebench.words.outcomes import outcome_words, reason_words
from edgebench.words.unmeasured import program_need_words

if TYPE_CHECKING:
    from edgebench.records import TrialRecord


def record_sentence(record: TrialRecord) -> str:
    """``train.py needs 412.0 MiB; took 2.5 s`` or ``… was killed by the kernel at 300.0 MiB``."""
    return _sentence(_name(record), record)


def _sentence(name: str, record: TrialRecord) -> str:
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


def record_line(record: TrialRecord) -> str:
    """Its number and the sentence, in which a command is cut: ``<TrialRecord 0001: …>``."""
    return f"<TrialRecord {record.trial}: {_sentence(shortened(_name(record)), record)}>"


def record_html(record: TrialRecord) -> str:
    """The sentence and the figures behind it, everything in them escaped."""
    rows = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in _rows(record)
    )
    doubts = doubt_sentences(trial_doubts(record))
    warnings = "".join(f"<p>warning: {escape(printable(text))}</p>" for text in doubts)
    sentence = escape(record_sentence(record))
    return f"<p><b>{sentence}</b></p><table><tbody>{rows}</tbody></table>{warnings}"


def _name(record: TrialRecord) -> str:
    settings = record.settings
    if isinstance(command := settings.get("command"), list):
        return printable(shlex.join(map(str, command)))
    networks = "+".join(map(str, settings.get("networks") or ()))
    return printable(str(settings.get("function") or networks or settings.get("kind")))


def _rows(record: TrialRecord) -> Iterator[tuple[str, str]]:
    reason = f": {printable(words)}" if (words := reason_words(record)) else ""
    yield "outcome", f"{record.outcome}{reason}"
    reached = " (the limit was reached: it may need more)" if record.saturated else ""
    yield "limit", "none" if record.limit_bytes is None else format_size(record.limit_bytes)
    yield "time", format_duration(record.wall_s or 0.0)
    sizes = {
        f"peak ({record.peak_source}'s)": (
            "peak_bytes",
            "" if record.limit_bytes is None else reached,
        ),
        "swap peak": ("swap_peak_bytes", ""),
    }
    for name, (key, words) in sizes.items():
        value = getattr(record, key)
        why = f"unknown: {record.missing.get(key, 'not recorded')}"
        yield name, why if value is None else format_size(value) + words
    if record.cpu_s is not None:
        yield "CPU time", format_duration(record.cpu_s)
    if record.energy and record.energy.j is not None:
        joules = format_energy(record.energy.j, record.energy.error_j)
        yield "energy", f"{joules} of the {record.energy_domain}"
    if record.major_faults is not None:
        yield "major faults", f"{record.major_faults:,}"
