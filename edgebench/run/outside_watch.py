"""Sees what a program leaves behind: processes that outlive its command, and shared memory."""

from __future__ import annotations

import time
from pathlib import Path

from msgspec.structs import replace

from edgebench.cgroups.interface import Cgroup, Counters
from edgebench.records import OutsideReport, TrialRecord
from edgebench.text import printable

#: So long a process may outlive the command: helpers end a moment after it.
_GRACE_S, _PAUSE_S = 0.1, 0.005
_PROC = Path("/proc")


class OutsideWatch:
    """Looks at a trial's end; then :meth:`told` completes the trial's record.

    Args:
        cgroup: the trial's.
        wanted: whether to look at all.
    """

    def __init__(self, cgroup: Cgroup, *, wanted: bool) -> None:
        self._cgroup, self._wanted = cgroup, wanted
        #: The command's process, once it was seen.
        self.command: int | None = None
        self._left: list[str] = []

    def running(self) -> list[str]:
        """Return the names of the trial's processes that still run."""
        return [_comm(pid) for pid in self._cgroup.pids() if _is_running(pid)]

    def look_at_end(self) -> None:
        """Before all is ended: what outlived the command? Nothing, where it runs itself."""
        if not self._wanted or self.command is None or _is_running(self.command):
            return
        deadline = time.monotonic() + _GRACE_S
        while (alive := self.running()) and time.monotonic() < deadline:
            time.sleep(_PAUSE_S)
        self._left = alive

    def told(self, record: TrialRecord, counters: Counters) -> TrialRecord:
        """Return the record with what was seen.

        ``counters`` are of when its processes were gone.
        """
        if not self._wanted:
            return record
        report = OutsideReport(len(self._left), sorted(set(self._left)), counters.shmem_bytes)
        return replace(record, outside=report)


def _comm(pid: int) -> str:
    try:
        name = (_PROC / str(pid) / "comm").read_bytes()
    except OSError:
        return "unknown"
    return printable(name.decode(errors="replace").strip())


def _is_running(pid: int) -> bool:
    """Whether it exists, and is neither dead nor about to be: it still has memory."""
    try:
        return (_PROC / str(pid) / "statm").read_text(errors="replace").split()[0] != "0"
    except (OSError, IndexError):
        return False
