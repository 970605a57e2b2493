"""How a trial ended: its outcome and why, and the swap and page lists when the kernel killed it.

What is said of kills, also of those in old records, is in :mod:`edgebench.kills`.
"""

from __future__ import annotations

import re
import signal as signals
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgebench.cgroups.interface import Counters
from edgebench.cgroups.kill_log import KillLog, LoggedKill, is_in
from edgebench.kills import is_killed, killed_words
from edgebench.records import EndedIn, KillReport, Outcome
from edgebench.run.trial.process import ProcessEnd
from edgebench.spans import unfinished_span
from edgebench.text import printable

#: What a shell, and GNU time, add to a signal's number to make an exit code of it.
_SIGNAL_BASE = 128
_MEMINFO = Path("/proc/meminfo")
_LISTS = (
    *("active_anon", "inactive_anon", "active_file", "inactive_file", "unevictable"),
    "swapcached",
)
#: So many of the last lines that a program printed are looked at for its error.
_LAST_LINES = 200
#: Memory that a program was refused, as runtimes and libraries say it; and any other error.
_REFUSED = re.compile(
    r"OutOfMemory|heap out of memory|out of memory|MemoryError|std::bad_alloc|"
    r"Cannot allocate memory|memory exhausted",
    re.IGNORECASE,
)
_ERROR = re.compile(
    r"(?:Error|Exception)\b(?::|$)|^(?:\w+: )?(?:fatal|error|panic)\b", re.IGNORECASE
)
_NOT_LOGGED = "the kernel's log has no line of it: of many kills at once it prints some"
RAN_OUT = "ended by edgebench: with what its swap takes of the same memory, none was left"
_ABOVE = "killed for a limit above the trial's own: {struck}"
_MACHINE = "killed because the machine's memory ran out, not at the trial's own limit"


@dataclass(frozen=True)
class TrialEnd:
    """The outcome and, unless it is ``ok``, why; where the kernel or its time limit ended it."""

    outcome: Outcome
    reason: str | None
    exit_code: int | None
    signal: int | None
    ended_in: EndedIn | None = None


def trial_end(
    ended: ProcessEnd,
    counters: Counters,
    events: Sequence[dict[str, Any]],
    output: str,
    *,
    ran_out: bool = False,
) -> TrialEnd:
    """Return the outcome: ``oom-killed`` wherever the kernel killed a process for memory.

    ``ran_out``: the harness did, since the trial and the RAM of its swap had filled the limit.
    """
    exit_code, signal = _exit(ended.returncode)
    if counters.oom_kills:
        return _killed(counters.oom_kills, ended, events)
    if ran_out:
        doing, where = _where(events)
        return TrialEnd("oom-killed", RAN_OUT + where, None, signal, doing)
    if ended.stopped:
        return TrialEnd("ok", None, None, None)
    if ended.timed_out:
        doing, where = _where(events)
        reason = f"ran past its time limit after {ended.wall_s:.1f} s{where}"
        return TrialEnd("timeout", reason, None, signal, doing)
    if exit_code == 0:
        return TrialEnd("ok", None, 0, None)
    outcome: Outcome = "accelerator-oom" if _accelerator_was_full(events) else "failed"
    return TrialEnd(outcome, _own_words(events, output, exit_code, signal), exit_code, signal)


def _killed(kills: int, ended: ProcessEnd, events: Sequence[dict[str, Any]]) -> TrialEnd:
    """Return the end of a trial of which the kernel killed the first process, or others."""
    exit_code, signal = _exit(ended.returncode)
    doing, where = _where(events)
    if ended.timed_out:
        words = killed_words(kills, None, ended.wall_s)
        return TrialEnd("oom-killed", words + where, None, signal, doing)
    if is_killed(exit_code, signal):
        return TrialEnd("oom-killed", f"killed by the kernel{where}", exit_code, signal, doing)
    return TrialEnd("oom-killed", killed_words(kills, exit_code), exit_code, signal)


def _exit(returncode: int) -> tuple[int | None, int | None]:
    """Exit code and signal, also of a signal that GNU time passed on as 128 + n."""
    if returncode < 0:
        return None, -returncode
    if _SIGNAL_BASE < returncode < _SIGNAL_BASE + signals.NSIG:
        return returncode, returncode - _SIGNAL_BASE
    return returncode, None


def _where(events: Sequence[dict[str, Any]]) -> tuple[EndedIn | None, str]:
    """Return the span that was open at the end, also as ``in load of alexnet's layer 16 (fc)``."""
    span = unfinished_span(events)
    if span is None:
        return None, ""
    phase, network, name = (span.get(key) for key in ("phase", "network", "name"))
    has_layer = span.get("layer") is not None
    layer = f"'s layer {span['layer']} ({name})" if has_layer else ""
    of = f" of {network}{layer}" if network else ""
    kept = EndedIn(str(phase), network and str(network), str(name) if has_layer and name else None)
    return kept, f" in {phase}{of}"


def _accelerator_was_full(events: Sequence[dict[str, Any]]) -> bool:
    """Whether the worker's own error says so."""
    return any(error.get("outcome") == "accelerator-oom" for error in _errors(events))


def _errors(events: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the errors that the worker noted, the last one first."""
    for event in reversed(events):
        note = event.get("data") if event.get("event") == "note" else None
        error = note.get("error") if isinstance(note, dict) else None
        if isinstance(error, dict):
            yield error


def _own_words(
    events: Sequence[dict[str, Any]], output: str, exit_code: int | None, signal: int | None
) -> str:
    """Return the workload's own error, else the line that has it, else its last, else its exit."""
    for error in _errors(events):
        if isinstance(error.get("what"), str):
            return str(error["what"])
    lines = [line.strip() for line in output.splitlines() if line.strip()][-_LAST_LINES:]
    refused = next((line for line in lines if _REFUSED.search(line)), None)
    if signal and refused is None:
        return f"ended by signal {signal} ({signals.strsignal(signal)})"
    errors = [line for line in lines if _ERROR.search(line)]
    told = [refused] if refused else (errors or lines)[-1:]
    return printable(told[0]) if told else f"exit code {exit_code}"


@dataclass(frozen=True)
class SystemSwap:
    """The machine's swap, in bytes."""

    total_bytes: int
    free_bytes: int

    @classmethod
    def now(cls) -> SystemSwap:
        """As it is now; reading it flushes no cgroup's statistics."""
        words = (line.split() for line in _MEMINFO.read_text(errors="replace").splitlines())
        kib = {name: int(value) for name, value, *_ in words}
        return cls(kib.get("SwapTotal:", 0) << 10, kib.get("SwapFree:", 0) << 10)


class KillWatch:
    """What swap and the kernel's log were before a trial, compared with both after it."""

    def __init__(self) -> None:
        self._log = KillLog()
        self._before = self._after = SystemSwap.now()
        self._kills: list[LoggedKill] = []

    def stop(self, cgroup: str) -> None:
        """Stop: the processes of the cgroup of that name are gone. Safe to call twice."""
        self._after = SystemSwap.now()
        self._kills += self._log.kills_in(cgroup)
        self._log.close()

    def report(
        self, cgroup: str, swap_bytes: int | None, kills: int | None, swap_peak_bytes: int | None
    ) -> tuple[KillReport | None, dict[str, str]]:
        """Swap and page lists at the first kill in the cgroup, and why something is missing.

        Args:
            cgroup: its name.
            swap_bytes: how much swap its limit let it use; None: all there is.
            kills: how many processes the kernel killed in it.
            swap_peak_bytes: the most swap it was seen to use.

        Returns:
            None where nothing was killed, or not at the trial's own limit.
        """
        if not kills:
            return None, {}
        if not self._kills:
            why = {"kill_lists": self._log.reason or _NOT_LOGGED}
            return self._told(None, swap_bytes, None, swap_peak_bytes), why
        first = self._kills[0]
        if not (first.struck and is_in(first.struck, cgroup)):
            where = _ABOVE.format(struck=first.struck) if first.struck else _MACHINE
            return None, {"kill": where}
        left = first.swap_left_bytes
        return self._told(first, swap_bytes, left, first.swap_taken_bytes), {}

    def _told(
        self, logged: LoggedKill | None, own: int | None, left: int | None, used: int | None
    ) -> KillReport:
        """``own`` is the trial's limit of swap, ``left`` of it at the kill; ``used`` its space."""
        if left is None and used is not None:
            left = None if own is None else own - used
        if left is not None and own is not None:
            left = min(max(0, left), own)
        # The kill gave back what the trial held: what is free without it, less what it held then.
        free = min(self._before.free_bytes, self._after.free_bytes)
        system = None if used is None else max(0, free - used)
        total = self._before.total_bytes
        rooms = [room for room in (left, system) if room is not None]
        lists = {f"{name}_bytes": logged.size_of(name) for name in _LISTS} if logged else {}
        return KillReport(
            logged_s=logged.at_s if logged else None,
            swap_allowed_bytes=total if own is None else min(own, total),
            swap_free_bytes=min(rooms) if used is not None else None,
            group_swap_free_bytes=left,
            system_swap_free_bytes=system,
            **lists,
        )
