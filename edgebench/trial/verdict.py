"""How a trial ended, told from its exit, the kernel's counters and its last events."""

from __future__ import annotations

import signal as signals
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgebench.cgroups.interface import Counters
from edgebench.printable import printable
from edgebench.process import Ended
from edgebench.records.phases import unfinished_span
from edgebench.records.records import Outcome

#: What a shell, and GNU time, add to a signal's number to make an exit code of it.
_SIGNAL_BASE = 128


@dataclass(frozen=True)
class Verdict:
    """The outcome and, unless it is ``ok``, why."""

    outcome: Outcome
    reason: str | None
    exit_code: int | None
    signal: int | None


def judge(
    ended: Ended, counters: Counters, events: Sequence[dict[str, Any]], output: str
) -> Verdict:
    """Tell the outcome. A process that exits 0 is ``ok`` even if a child of it was killed."""
    exit_code, signal = _exit(ended.returncode)
    if ended.timed_out:
        reason = f"ran past its time limit after {ended.wall_s:.1f} s{_where(events)}"
        return Verdict("timeout", reason, None, signal)
    if exit_code == 0:
        return Verdict("ok", None, 0, None)
    if counters.oom_kills:
        return Verdict("oom-killed", f"killed by the kernel{_where(events)}", exit_code, signal)
    return Verdict("failed", _own_words(events, output, exit_code, signal), exit_code, signal)


def _exit(returncode: int) -> tuple[int | None, int | None]:
    """Exit code and signal, also of a signal that GNU time passed on as 128 + n."""
    if returncode < 0:
        return None, -returncode
    if _SIGNAL_BASE < returncode < _SIGNAL_BASE + signals.NSIG:
        return returncode, returncode - _SIGNAL_BASE
    return returncode, None


def _where(events: Sequence[dict[str, Any]]) -> str:
    """`` in load of alexnet's layer 16 (classifier.1)`` for the span that was open at the end."""
    span = unfinished_span(events)
    if span is None:
        return ""
    layer = (
        f"'s layer {span['layer']} ({span.get('name')})" if span.get("layer") is not None else ""
    )
    network = f" of {span['network']}{layer}" if span.get("network") else ""
    return f" in {span.get('phase')}{network}"


def _own_words(
    events: Sequence[dict[str, Any]], output: str, exit_code: int | None, signal: int | None
) -> str:
    """The workload's own error, else the last line it printed, else its exit."""
    for event in reversed(events):
        error = event.get("data", {}).get("error") if event.get("event") == "note" else None
        if isinstance(error, dict) and isinstance(error.get("what"), str):
            return str(error["what"])
    lines = [line for line in output.splitlines() if line.strip()]
    if signal:
        return f"ended by signal {signal} ({signals.strsignal(signal)})"
    return printable(lines[-1].strip()) if lines else f"exit code {exit_code}"
