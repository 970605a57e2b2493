"""The kernel log's lines about processes that it killed for lack of memory.

They have what no file of the cgroup has afterwards: the sizes of the lists from which the kernel
tried to reclaim, and how much swap was in use. Some kills leave no lines: the kernel prints at most
ten in five seconds.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

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
