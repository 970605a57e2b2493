"""What a test printed below its memory limit: killed, too slow, ended early; and what it used."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgebench.answers.table import GAP, factor, seconds, size
from edgebench.need import need_of
from edgebench.units import format_limit, swap_words

if TYPE_CHECKING:
    from edgebench.pytest_plugin.limited_test import LimitedRun


def limit_words(run: LimitedRun) -> str:
    """``300.0 MiB``, with its share of the demand and its swap, if any."""
    limits = run.record.limits
    label = limits.label if limits.label.endswith("%") else ""
    words = format_limit(label, run.record.limit_bytes)
    if limits.swap_kind == "none":
        return words
    return f"{words} with {swap_words(limits.swap_kind, limits.swap_bytes)}"


def kill_lines(run: LimitedRun, unlimited: LimitedRun) -> str:
    """Return that the kernel killed it, its need, and what of that is not the test's own."""
    need, limit = need_of(unlimited.record), run.record.limit_bytes or 0
    lines = [f"killed by the kernel at {limit_words(run)}"]
    if run.record.reason and run.finished:
        lines.append(f"  reason  {run.record.reason}")
    if need is not None:
        less = "   without a limit: allow more" if need.total_bytes <= limit else ""
        lines.append(f"  needs   {size(need.total_bytes)}{less}")
    base, module = unlimited.started_bytes, unlimited.collected_bytes
    if base is not None and module is not None:
        began = run.started_bytes is not None and run.collected_bytes is not None
        more = "" if began else "   the test itself did not begin"
        lines += [f"  pytest  {size(base)}", f"  module  {size(module)} with pytest{more}"]
    return "\n".join(lines)


def slowdown_lines(
    runs: Sequence[LimitedRun], unlimited: Sequence[LimitedRun], slowdown: float, allowed: float
) -> str:
    """How much slower it is at the limit than allowed."""
    lines = [f"{factor(slowdown)} at {limit_words(runs[0])}, {factor(allowed)} allowed"]
    for phase in ("setup", "call"):
        free, limited = _median(unlimited, phase), _median(runs, phase)
        lines.append(f"  {phase:<6}{seconds(free)} to {seconds(limited)}   {len(runs)} runs each")
    return "\n".join(lines)


def _median(runs: Sequence[LimitedRun], phase: str) -> float:
    return statistics.median(run.seconds.get(phase, 0.0) for run in runs)


def crash_words(run: LimitedRun) -> str:
    """Why it did not come to its end, if not for memory."""
    record = run.record
    at = "without a limit" if record.limit_bytes is None else f"at {limit_words(run)}"
    if record.outcome == "timeout":
        return f"{record.reason}, {at}"
    if run.problem:
        return f"pytest could not collect it again in its own process, {at}:\n{run.problem}"
    if not run.found:
        return (
            "not found again in its own process: ids of parametrized tests must be the same in "
            "each process (as for xdist)"
        )
    return f"its process ended early, {at}: {record.reason or f'exit code {record.exit_code}'}"


def memory_words(run: LimitedRun) -> str:
    """``peak 212 MiB of 300.0 MiB   pytest with the module 45.0 MiB``."""
    record = run.record
    parts = [f"peak {size(record.peak_bytes)} of {limit_words(run)}"]
    if record.swap_peak_bytes:
        parts.append(f"swap {size(record.swap_peak_bytes)}")
    if run.collected_bytes is not None:
        parts.append(f"pytest with the module {size(run.collected_bytes)}")
    return GAP.join(parts)
