"""Whether a workload stayed in its cgroup and below its limit, seen from outside.

A workload that runs as the user whom the cgroup belongs to (root, or the owner of a delegated
cgroup) may leave the cgroup, lift its limit or reset its peak. Nothing prevents that; it is noticed
and said. What comes and goes between two looks is not seen.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

from edgebench.cgroups.interface import MEMORY_SIZES, Cgroup, Limits
from edgebench.errors import CgroupError
from edgebench.records import Doubt
from edgebench.units import MIB

#: The kernel charges 64 pages ahead on each CPU: a reading may lie so much above a limit or a mark.
SLACK_BYTES = max(2 * MIB, 64 * os.sysconf("SC_PAGESIZE") * (os.cpu_count() or 1))
#: Of a fork bomb, no more are looked at.
_MOST_PROCESSES = 64
_PROC = Path("/proc")


class Confinement:
    """Looks after one trial's processes. A context manager, which ends what left the cgroup.

    Args:
        cgroup: the trial's.
        can_leave: whether the workload's user may write to its files; if not, nothing is looked at.
    """

    def __init__(self, cgroup: Cgroup, *, can_leave: bool) -> None:
        self._cgroup, self._can_leave = cgroup, can_leave
        #: Process that left → a descriptor of it.
        self._left: dict[int, int] = {}

    def __enter__(self) -> Confinement:
        """Begin."""
        return self

    def __exit__(self, *_: object) -> None:
        """Kill what left the cgroup and still lives."""
        for fd in self._left.values():
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(fd, signal.SIGKILL)
            os.close(fd)

    @property
    def has_left(self) -> bool:
        """Whether a process was seen outside."""
        return bool(self._left)

    def look(self, pid: int) -> None:
        """Look at what the process started; once it has ended, at what is left of its session."""
        if not self._can_leave:
            return
        # While anything of its session lives, no other process gets its number.
        lives = (_PROC / str(pid)).exists()
        for one in _descendants(pid) if lives else _of_session(pid):
            # The process itself joins the cgroup before it starts anything.
            if one not in self._left and len(self._left) < _MOST_PROCESSES and self._is_out(one):
                with contextlib.suppress(OSError):
                    self._left[one] = os.pidfd_open(one)

    def _is_out(self, pid: int) -> bool:
        try:
            lines = (_PROC / str(pid) / "cgroup").read_text().splitlines()
            size = (_PROC / str(pid) / "statm").read_text().split()[0]
        except OSError:
            return False
        if size == "0":
            # It is ending: the kernel takes its memory first, then puts it into the root cgroup.
            return False
        paths = {of: path for _, of, path in (line.split(":", 2) for line in lines)}
        memory = (path for of, path in paths.items() if "memory" in of.split(","))
        path = next(memory, paths.get("", ""))
        return self._cgroup.path.name not in path.split("/")

    def broken(
        self, applied: Limits, *, is_moved: bool, sampled_peak_bytes: int | None
    ) -> list[Doubt]:
        """What of its limits did not hold.

        Args:
            applied: the limits as they were set last.
            is_moved: whether memory's was moved while it ran: more may have been used before.
            sampled_peak_bytes: the most that it was seen to use.
        """
        told = [Doubt("left_cgroup")] if self._left else []
        try:
            now = self._cgroup.read_limits(applied)
        except (CgroupError, OSError):
            return [*told, Doubt("cgroup_gone")]
        # Where memory's is moved, the others are not looked at.
        for name in ("memory_bytes",) if is_moved else (*MEMORY_SIZES, "swap_bytes"):
            asked, found = getattr(applied, name), getattr(now, name)
            if asked != found:
                sizes = {"from_bytes": asked, "to_bytes": found}
                known = {key: float(size) for key, size in sizes.items() if size is not None}
                return [*told, Doubt("limit_changed", known, [name.removesuffix("_bytes")])]
        limit, used = applied.memory_bytes, sampled_peak_bytes or 0
        if limit is not None and not is_moved and used > limit + SLACK_BYTES:
            told.append(Doubt("limit_lifted", {"used_bytes": used, "limit_bytes": limit}))
        return told


def _descendants(pid: int) -> Iterator[int]:
    left, seen = [pid], 0
    while left and seen < _MOST_PROCESSES:
        # It may end at any moment: then also the list of its threads can't be read.
        with contextlib.suppress(OSError):
            for file in (_PROC / str(left.pop())).glob("task/*/children"):
                with contextlib.suppress(OSError):
                    children = [int(word) for word in file.read_text().split()]
                    left += children
                    seen += len(children)
                    yield from children


def _of_session(session: int) -> Iterator[int]:
    for folder in _PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError):
            # After the name, which may hold anything: state, parent, group, session.
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            if fields[3] == str(session):
                yield int(folder.name)
