"""What is said of a test that pytest ran below its memory limit: killed, too slow, ended early."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgebench.need import need_of
from edgebench.units import format_duration, format_limit, format_size, swap_words, times_as_long
from edgebench.words.need import need_words

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


def kill_sentence(run: LimitedRun, unlimited: LimitedRun) -> str:
    """Why the kernel killed it: what it needs, and what of that is not the test's own."""
    need, limit = need_of(unlimited.record), run.record.limit_bytes or 0
    killed = f"killed by the kernel at {limit_words(run)}"
    if run.record.reason and run.finished:
        killed += f" ({run.record.reason})"
    base, module = unlimited.started_bytes, unlimited.collected_bytes
    lines = [killed]
    if need is not None:
        lines = [f"needs {need_words(need)}: {killed}"]
    if need is not None and need.total_bytes <= limit:
        lines.append("without a limit it needed less than that: allow more, or repeat the test")
    if base is not None and module is not None:
        words = f"the interpreter with pytest alone needs {format_size(base)}"
        words += f", with the test's module {format_size(module)}"
        fits = run.started_bytes is not None and run.collected_bytes is not None
        lines.append(words if fits else f"{words}: the test itself did not begin")
    return "\n".join(lines)


def marked_slowdown_sentence(
    runs: Sequence[LimitedRun], unlimited: Sequence[LimitedRun], slowdown: float, allowed: float
) -> str:
    """How much slower it is at the limit than allowed."""
    phases = [
        f"{phase} {format_duration(_median(unlimited, phase))} → "
        f"{format_duration(_median(runs, phase))}"
        for phase in ("setup", "call")
    ]
    return (
        f"takes {times_as_long(slowdown)} at {limit_words(runs[0])} as unlimited; at most "
        f"{allowed} allowed\n{', '.join(phases)} (medians of {len(runs)} runs each)"
    )


def _median(runs: Sequence[LimitedRun], phase: str) -> float:
    return statistics.median(one.seconds.get(phase, 0.0) for one in runs)


def crash_sentence(run: LimitedRun) -> str:
    """Why it did not come to its end, if not for memory."""
    record = run.record
    if record.outcome == "timeout":
        return f"{record.reason}, {_at(run)}"
    if run.problem:
        return f"pytest could not collect it again in its own process, {_at(run)}:\n{run.problem}"
    if not run.found:
        return (
            "not found again in its own process: ids of parametrized tests must be the same in "
            "each process (as for xdist)"
        )
    return (
        f"its process ended early, {_at(run)}: {record.reason or f'exit code {record.exit_code}'}"
    )


def memory_words(run: LimitedRun) -> str:
    """``peak 212.0 MiB of 300.0 MiB; pytest with the test's module 45.0 MiB``."""
    record = run.record
    peak = "peak unknown" if record.peak_bytes is None else f"peak {format_size(record.peak_bytes)}"
    parts = [f"{peak} of {limit_words(run)}"]
    if record.swap_peak_bytes:
        parts.append(f"{format_size(record.swap_peak_bytes)} in swap")
    if run.collected_bytes is not None:
        parts.append(f"pytest with the test's module {format_size(run.collected_bytes)}")
    return "; ".join(parts)


def _at(run: LimitedRun) -> str:
    return "without a limit" if run.record.limit_bytes is None else f"at {limit_words(run)}"
