"""Judge how a trial ended: its outcome and why, and the swap and page lists at a kill.

What a kill in a record means is in :mod:`edgebench.need`.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal as signals
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from edgebench.cgroups.interface import Counters
from edgebench.records import EndedIn, KillReport, Outcome
from edgebench.run.trial.process import ProcessEnd
from edgebench.run.trial.readers import Finished, Reader
from edgebench.spans import unfinished_span
from edgebench.text import printable

LOG = Path("/dev/kmsg")
#: More than the longest line, of which each read gives one.
_LINE_BYTES = 8192
_BEGIN = " invoked oom-killer:"
_VICTIM = "oom-kill:"
_USAGE = re.compile(r"(memory|memory\+swap|swap): usage (\d{1,19})kB, limit (\d{1,19})kB")
_STAT = re.compile(r"(\w+) (\d{1,19})")
#: From here on a limit is none: the kernel prints its largest number.
_UNLIMITED = 1 << 62


@dataclass(frozen=True)
class LoggedKill:
    """One time the kernel killed for memory, as its log tells it. Sizes in bytes.

    No file of the cgroup has afterwards what the log has: the sizes of the lists from which the
    kernel tried to reclaim, and how much swap was in use. Some kills leave no lines: the kernel
    prints at most ten in five seconds.

    Args:
        at_s: the log's own time, seconds since boot; near ``CLOCK_MONOTONIC``.
        victim: path of the cgroup whose process was killed.
        struck: path of the cgroup whose limit was met; None: the machine's memory ran out.
        usage: ``memory``, and ``swap`` (v2) or ``memory+swap`` (v1) → used, and the limit.
        stat: ``memory.stat`` of the cgroup whose limit was met, those below it counted in.
    """

    at_s: float
    victim: str
    struck: str | None
    usage: dict[str, tuple[int, int | None]] = field(default_factory=dict)
    stat: dict[str, int] = field(default_factory=dict)

    def size_of(self, name: str) -> int | None:
        """Return a value of ``memory.stat``, on version 1 with those of the cgroups below."""
        return self.stat.get(f"total_{name}", self.stat.get(name))

    @property
    def swap_taken_bytes(self) -> int | None:
        """Space it held in swap, also for pages that lie in memory as well."""
        if "swap" in self.usage:
            return self.usage["swap"][0]
        if "memory+swap" not in self.usage or "memory" not in self.usage:
            return None
        # Version 1 doesn't bill a cgroup for what lies in both.
        out = max(0, self.usage["memory+swap"][0] - self.usage["memory"][0])
        return out + (self.size_of("swapcached") or 0)

    @property
    def swap_left_bytes(self) -> int | None:
        """How much more swap its limit let it use; None if it had no such limit."""
        if "swap" in self.usage:
            used, limit = self.usage["swap"]
            return None if limit is None else max(0, limit - used)
        used, limit = self.usage.get("memory+swap", (0, None))
        memory = self.usage.get("memory", (0, None))[1]
        if limit is None or memory is None:
            return None
        return max(0, min(limit - used, limit - memory))


class KillLog:
    """The kernel's log from now on. ``reason`` says why it can't be read; None if it can."""

    def __init__(self, log: Path | None = None) -> None:
        self.reason: str | None = None
        self._fd = -1
        try:
            self._fd = os.open(log or LOG, os.O_RDONLY | os.O_NONBLOCK)
            os.lseek(self._fd, 0, os.SEEK_END)
        except OSError as error:
            self.reason = f"the kernel's log ({log or LOG}) can't be read: {error.strerror}"
            self.close()

    def kills_in(self, cgroup: str) -> list[LoggedKill]:
        """List kills since it was opened of processes in the cgroup of that name, or below it."""
        lines: list[bytes] = []
        while self._fd >= 0:
            try:
                line = os.read(self._fd, _LINE_BYTES)
            except BrokenPipeError:
                # Lines were overwritten before they were read; the next read goes on after them.
                continue
            except OSError:
                break
            if not line:
                break
            lines.append(line)
        return [kill for kill in parse_kills(lines) if is_in(kill.victim, cgroup)]

    def close(self) -> None:
        """Close it. Safe to call twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def is_in(path: str, cgroup: str) -> bool:
    """Return whether a cgroup's path, as the kernel prints it, has that name or is below it.

    The kernel prints the whole path, of which a container sees only the end.
    """
    return cgroup in PurePosixPath(path).parts


def parse_kills(lines: Iterable[bytes]) -> Iterator[LoggedKill]:
    """Parse the kills in lines of ``/dev/kmsg``; leave out what is cut off at the beginning."""
    kill: LoggedKill | None = None
    for line in lines:
        about, _, rest = line.decode(errors="replace").partition(";")
        text = rest.partition("\n")[0].strip()
        if _BEGIN in text:
            at_s = 0.0
            # `priority,number,microseconds,flags`
            with contextlib.suppress(IndexError, ValueError):
                at_s = int(about.split(",")[2]) / 1e6
            kill = LoggedKill(at_s, "", None)
        elif kill and text.startswith(_VICTIM):
            named: dict[str, str] = {}
            for word in text.removeprefix(_VICTIM).split(","):
                key, _, value = word.partition("=")
                # The first one counts: a process may call itself anything, and its name comes last.
                named.setdefault(key, value)
            victim, struck = named.get("task_memcg", ""), named.get("oom_memcg")
            yield replace(kill, victim=victim, struck=struck)
            kill = None
        elif kill and (usage := _USAGE.match(text)):
            limit = int(usage[3]) << 10
            used = int(usage[2]) << 10
            kill.usage[usage[1]] = used, None if limit >= _UNLIMITED else limit
        elif kill and (stat := _STAT.fullmatch(text)):
            kill.stat[stat[1]] = int(stat[2])


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
SWAP_FILLED_LIMIT = "ended by edgebench: with what its swap takes of the same memory, none was left"
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


def judge_end(
    ended: ProcessEnd,
    counters: Counters,
    events: Sequence[dict[str, Any]],
    output: str,
    *,
    swap_filled_limit: bool = False,
) -> TrialEnd:
    """Judge how a trial ended. The kernel's kills come first: it had too little memory.

    Args:
        ended: how its first process ended.
        counters: the cgroup's when its processes were gone.
        events: the worker's.
        output: what it printed.
        swap_filled_limit: edgebench ended it, since it and the RAM of its swap filled the limit.
    """
    code = ended.returncode
    exit_code = None if code < 0 else code
    # A shell and GNU time pass a signal on as 128 + its number.
    passed_on = _SIGNAL_BASE < code < _SIGNAL_BASE + signals.NSIG
    signal = -code if code < 0 else code - _SIGNAL_BASE if passed_on else None
    ended_in, where = _open_span(events)
    if kills := counters.oom_kills:
        if ended.timed_out:
            rest = f"what was left ran past its time limit after {ended.wall_s:.1f} s"
            reason = _some_killed(kills, rest) + where
            return TrialEnd("oom-killed", reason, None, signal, ended_in)
        if signal == signals.SIGKILL or exit_code is None:
            reason = f"killed by the kernel{where}"
            return TrialEnd("oom-killed", reason, exit_code, signal, ended_in)
        # The command itself went on: only other processes of the trial were killed.
        reason = _some_killed(kills, f"the command itself ended with {exit_code}")
        return TrialEnd("oom-killed", reason, exit_code, signal)
    if swap_filled_limit:
        return TrialEnd("oom-killed", SWAP_FILLED_LIMIT + where, None, signal, ended_in)
    if ended.timed_out:
        reason = f"ran past its time limit after {ended.wall_s:.1f} s{where}"
        return TrialEnd("timeout", reason, None, signal, ended_in)
    if ended.stopped:
        return TrialEnd("ok", None, None, None)
    if exit_code == 0:
        return TrialEnd("ok", None, 0, None)

    # What the worker noted says more than what it printed, and that more than a bare number.
    notes = [event.get("data") for event in reversed(events) if event.get("event") == "note"]
    noted = [note.get("error") for note in notes if isinstance(note, dict)]
    errors = [error for error in noted if isinstance(error, dict)]
    accelerator_full = any(error.get("outcome") == "accelerator-oom" for error in errors)
    outcome: Outcome = "accelerator-oom" if accelerator_full else "failed"
    reasons = [str(error["what"]) for error in errors if isinstance(error.get("what"), str)]
    reason = reasons[0] if reasons else _printed_error(output, exit_code, signal)
    return TrialEnd(outcome, reason, exit_code, signal)


def _some_killed(kills: int, rest: str) -> str:
    return f"the kernel killed {kills} process{'es' if kills > 1 else ''} of it; {rest}"


def _open_span(events: Sequence[dict[str, Any]]) -> tuple[EndedIn | None, str]:
    """Return the span that was open at the end, also as ``in load of alexnet's layer 16 (fc)``."""
    span = unfinished_span(events)
    if span is None:
        return None, ""
    phase, network, name = (span.get(key) for key in ("phase", "network", "name"))
    has_layer = span.get("layer") is not None
    layer = f"'s layer {span['layer']} ({name})" if has_layer else ""
    of = f" of {network}{layer}" if network else ""
    ended_in = EndedIn(
        str(phase), network and str(network), str(name) if has_layer and name else None
    )
    return ended_in, f" in {phase}{of}"


def _printed_error(output: str, exit_code: int | None, signal: int | None) -> str:
    """Find the line with the error, else the signal, else the last line, else the exit code."""
    lines = [line.strip() for line in output.splitlines() if line.strip()][-_LAST_LINES:]
    refused = next((line for line in lines if _REFUSED.search(line)), None)
    if refused is not None:
        return printable(refused)
    if signal:
        return f"ended by signal {signal} ({signals.strsignal(signal)})"
    errors = [line for line in lines if _ERROR.search(line)]
    last = (errors or lines)[-1:]
    return printable(last[0]) if last else f"exit code {exit_code}"


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


@dataclass(frozen=True)
class KillReadings:
    """The machine's swap before and after a trial, and the kills in it that the kernel logged.

    ``unlogged`` says why there may be none.
    """

    before: SystemSwap
    after: SystemSwap
    kills: Sequence[LoggedKill]
    unlogged: str = _NOT_LOGGED


class KillReader(Reader[KillReadings]):
    """Reads swap and the kernel's log before and after a trial in the cgroup of that name."""

    keys = ("kill",)

    def __init__(self, cgroup: str) -> None:
        self._cgroup = cgroup
        self._log: KillLog | None = None

    def start(self) -> None:
        """Go to the log's end."""
        self._log = KillLog()
        self._before = SystemSwap.now()

    def stop(self, finished: Finished) -> KillReadings:
        """Read what was logged since."""
        assert self._log
        kills = self._log.kills_in(self._cgroup)
        return KillReadings(self._before, SystemSwap.now(), kills, self._log.reason or _NOT_LOGGED)

    def close(self) -> None:
        """Close the log."""
        if self._log:
            self._log.close()


def kill_report(
    readings: KillReadings | None,
    cgroup: str,
    allowed_bytes: int | None,
    kills: int | None,
    swap_peak_bytes: int | None,
) -> tuple[KillReport | None, dict[str, str]]:
    """Find swap and page lists at the first kill, and why something is missing.

    Args:
        readings: swap and the log; None: they could not be read.
        cgroup: the trial's, by its name.
        allowed_bytes: how much swap its limit let it use; None: all there is.
        kills: how many processes the kernel killed in it.
        swap_peak_bytes: the most swap it was seen to use.

    Returns:
        None where nothing was killed, or not at the trial's own limit.
    """
    if not kills or not readings:
        return None, {}
    missing = {}
    first = readings.kills[0] if readings.kills else None
    if first is None:
        missing = {"kill_lists": readings.unlogged}
        used, left = swap_peak_bytes, None
    elif first.struck and is_in(first.struck, cgroup):
        used, left = first.swap_taken_bytes, first.swap_left_bytes
    else:
        return None, {"kill": _ABOVE.format(struck=first.struck) if first.struck else _MACHINE}
    if left is None and used is not None and allowed_bytes is not None:
        left = allowed_bytes - used
    if left is not None and allowed_bytes is not None:
        left = min(max(0, left), allowed_bytes)
    # The kill gave back what the trial held: what is free without it, less what it held then.
    free = min(readings.before.free_bytes, readings.after.free_bytes)
    system = None if used is None else max(0, free - used)
    total = readings.before.total_bytes
    rooms = [room for room in (left, system) if room is not None]
    lists = {f"{name}_bytes": first.size_of(name) for name in _LISTS} if first else {}
    report = KillReport(
        logged_s=first.at_s if first else None,
        swap_allowed_bytes=total if allowed_bytes is None else min(allowed_bytes, total),
        swap_free_bytes=min(rooms) if used is not None else None,
        group_swap_free_bytes=left,
        system_swap_free_bytes=system,
        **lists,
    )
    return report, missing
