"""The answer of a single trial: how it ended, and what it used, as names and values."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

from edgebench.answers.ends import reason_words
from edgebench.answers.table import GAP, seconds, size
from edgebench.boards.storage import AS_IS
from edgebench.need import need_of
from edgebench.records import TrialRecord
from edgebench.results.unmeasured import is_stopped, unmeasured
from edgebench.text import printable, shortened
from edgebench.units import swap_words


def trial_name(record: TrialRecord) -> str:
    """Return what was run: a command, a function, networks or a kind of workload."""
    settings = record.settings
    if isinstance(command := settings.get("command"), list):
        name = shlex.join(map(str, command))
    else:
        networks = "+".join(map(str, settings.get("networks") or ()))
        name = str(settings.get("function") or networks or settings.get("kind"))
    return shortened(printable(name))


def trial_headline(record: TrialRecord) -> str:
    """``./fill under 120 MiB, no swap``."""
    swap = swap_words(record.limits.swap_kind, record.limits.swap_bytes)
    if record.limit_bytes is None:
        return f"{trial_name(record)} without a limit"
    return f"{trial_name(record)} under {size(record.limit_bytes)}, {swap}"


def trial_fields(record: TrialRecord, *, verbose: bool = False) -> Iterator[tuple[str, str]]:
    """Names and values: how it ended, its peak and need, its time; ``verbose``: other peaks."""
    yield "result", end_of_trial(record)
    reason = reason_words(record)
    if record.outcome != "ok" and reason != "killed by the kernel":
        yield "reason", reason
    of_limit = "" if record.limit_bytes is None else f" of {size(record.limit_bytes)}"
    yield "peak", _joined(_or_reason(record, "peak_bytes", size) + of_limit, _need_words(record))
    if record.swap_peak_bytes:
        ram = record.swap_ram
        takes = f"{ram.kind} takes {size(ram.peak_bytes)} of RAM" if ram else ""
        yield "swap", _joined(size(record.swap_peak_bytes), takes)
    faults = "" if record.major_faults is None else f"major faults {record.major_faults:,}"
    yield "cpu", _joined(_or_reason(record, "cpu_s", seconds), faults)
    if record.limits.storage != AS_IS and record.storage:
        disks = ", ".join(disk["name"] for disk in record.storage.disks)
        yield "storage", f"{disks} held to {record.limits.storage}"
    if board := _board(record):
        yield "board", board
    if verbose:
        yield "sampled", _or_reason(record, "sampled_peak_bytes", size)
        yield "GNU time", _or_reason(record, "gnu_time_maxrss_bytes", size)
        sampler = record.sampler
        if sampler and sampler.achieved_s and sampler.largest_gap_s:
            each, gap = seconds(sampler.achieved_s), seconds(sampler.largest_gap_s)
            yield "samples", f"{sampler.samples}, every {each}, largest gap {gap}"


def end_of_trial(record: TrialRecord) -> str:
    """``finished after 1.2 s``, ``killed for memory after 0.34 s``."""
    ends = {
        "ok": "stopped" if is_stopped(record) else "finished",
        "oom-killed": "killed for memory",
        "accelerator-oom": "accelerator's memory full",
        "timeout": "stopped at its time limit",
    }
    failed = record.outcome == "failed" and not record.signal
    code = f" (exit code {record.exit_code})" if failed else ""
    return f"{ends.get(record.outcome, record.outcome)}{code} after {seconds(record.wall_s)}"


def _need_words(record: TrialRecord) -> str:
    """``needs 150 MiB``, ``needs 375 MiB, 320 MiB of it files``, ``needs more than 120 MiB``."""
    if record.outcome == "oom-killed" and record.limit_bytes is not None:
        return f"needs more than {size(record.limit_bytes)}"
    need = need_of(record)
    if need is None or unmeasured([record]).growth:
        return "may need more" if record.saturated else ""
    files = f", {size(need.files_bytes)} of it files" if need.files_bytes else ""
    return f"needs {size(need.total_bytes)}{files}"


def _board(record: TrialRecord) -> str:
    # Where the limit was reached, what of it could be dropped is not known.
    unknown = record.saturated and record.library_bytes
    if record.limits.board is None or record.outcome != "ok" or unknown:
        return ""
    from edgebench.answers.boards import board_line

    return board_line(record.limits.board, record.peak_bytes, None, record.library_bytes)


def _joined(*parts: str) -> str:
    return GAP.join(filter(None, parts))


def _or_reason(record: TrialRecord, key: str, form: Any) -> str:
    value = getattr(record, key)
    return f"?   {record.missing.get(key, '')}".rstrip() if value is None else form(value)
