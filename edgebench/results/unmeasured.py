"""What of a program's memory its trials do not tell: typed, from their records.

A need that leaves such memory out, or of a program that never stops growing, is no need.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

from edgebench.records import GrowthReport, LeftFile, OutsideReport, TrialRecord
from edgebench.units import MIB

#: Programs that only ask another one to work, often in another cgroup or on another machine.
CLIENTS = frozenset(
    (
        *("docker", "podman", "nerdctl", "ctr", "kubectl", "oc", "ollama", "lxc", "incus"),
        *("systemd-run", "systemctl", "machinectl", "ssh", "mosh", "srun", "sbatch"),
    )
)
#: Subcommands of them that work themselves.
_WORKING = ("serve", "start-server")
_WRAPPERS = frozenset(("sudo", "env", "nice", "ionice", "time", "timeout", "nohup", "stdbuf"))
_SHELLS = frozenset(("sh", "bash", "dash", "zsh"))
#: A client holds at most so much itself, and computes for at most this share of its time.
_CLIENT_BYTES, _CLIENT_SHARE = 96 * MIB, 0.5
#: Where a cgroup that was there before grew beside an unknown program, it may be by chance: so it
#: counts only beside one that does next to nothing.
_IDLE_BYTES, _IDLE_SHARE, _BESIDE_BYTES = 16 * MIB, 0.1, 64 * MIB
#: Another cgroup grew if it did by so much, and by so many times what the trial itself needed.
_GROWN_BYTES, _GROWN_TIMES = 32 * MIB, 2.0
#: A program that ends sooner has only begun: that its memory rises says nothing.
_LEAST_ENDED_S = 5.0
#: What stays in memory, or is locked there, counts from here on.
_LEAST_BYTES = MIB


@dataclass(frozen=True)
class Elsewhere:
    """Work that seems to be done outside the trial's cgroup.

    Args:
        client: the known client that asks for it; None: the program is no known one.
        cgroup: the cgroup that grew meanwhile; None: none did.
        grown_bytes: by how much.
        is_sure: whether the need is certainly not the program's: it is a known client, or the
            cgroup was made meanwhile.
    """

    client: str | None
    cgroup: str | None
    grown_bytes: int
    is_sure: bool


@dataclass(frozen=True)
class Unmeasured:
    """What some trials of a program leave open.

    Args:
        processes, names: what outlived the command, at most, and was ended.
        left_bytes, files: what stayed in memory.
        leaves_others: whether another run left something of another name.
        elsewhere: what others seem to do for it.
        locked_bytes: what it had locked in memory, which no swap can hold.
        growth: of the trial whose memory grew fastest at its end; None: none grew.
        is_stopped: whether that one was stopped; else it ended by itself.
        level: of the stopped trial that was level last; None: none was seen to be.
    """

    processes: int = 0
    names: tuple[str, ...] = ()
    left_bytes: int = 0
    files: tuple[LeftFile, ...] = ()
    leaves_others: bool = False
    elsewhere: Elsewhere | None = None
    locked_bytes: int = 0
    growth: GrowthReport | None = None
    is_stopped: bool = False
    level: GrowthReport | None = None

    @property
    def stays(self) -> tuple[LeftFile, ...]:
        """Those of the files that were not removed after the trial."""
        return tuple(one for one in self.files if not one.removed)

    @property
    def hides_need(self) -> bool:
        """Whether the trials can tell no need."""
        endless = self.growth is not None and self.is_stopped
        return endless or (self.elsewhere is not None and self.elsewhere.is_sure)

    def reaches_s(self, size_bytes: float) -> float | None:
        """After how many seconds of running it reaches a size; None: not known to reach it."""
        if self.growth is None or self.growth.lasted_s is None:
            return None
        left = max(0.0, size_bytes - self.growth.end_bytes)
        return self.growth.lasted_s + left / self.growth.bytes_per_s


def unmeasured(records: Sequence[TrialRecord]) -> Unmeasured:
    """What trials of one program leave open, those with the same limits together."""
    seen = [record for record in records if record.outside is not None]
    reports = [record.outside for record in seen if record.outside is not None]
    if not reports:
        return Unmeasured()
    most = max(reports, key=lambda one: one.processes)
    left = max(reports, key=lambda one: one.left_bytes or 0)
    left_bytes = left.left_bytes or 0
    growing = [record for record in seen if _grows(record)]
    fastest = max(growing, key=_pace, default=None)
    return Unmeasured(
        processes=most.processes,
        names=tuple(most.names),
        left_bytes=left_bytes if left_bytes >= _LEAST_BYTES else 0,
        files=tuple(left.files),
        leaves_others=len({one.files[0].path for one in reports if one.files}) > 1,
        elsewhere=_elsewhere(seen),
        locked_bytes=_at_least(max(one.locked_bytes or 0 for one in reports)),
        growth=fastest.growth if fastest else None,
        is_stopped=fastest is not None and is_stopped(fastest),
        level=_last_level(seen),
    )


def is_stopped(record: TrialRecord) -> bool:
    """Whether it was ended from outside: at its time limit, or when it had run for long enough."""
    return record.outcome == "timeout" or (record.outcome == "ok" and record.exit_code is None)


def client_name(command: Sequence[str]) -> str | None:
    """Which known client a command calls, also through ``sudo`` or ``sh -c``; None: none."""
    words = list(command)
    while words:
        name, *words = words
        name = PurePath(name).name
        if name in _SHELLS and words[:1] == ["-c"]:
            try:
                return client_name(shlex.split(words[1]))
            except (ValueError, IndexError):
                return None
        if not name:
            return None
        if name in CLIENTS:
            return None if set(words[:1]) & set(_WORKING) else name
        # Options of a wrapper, variables of env, and the number that timeout and nice take.
        if name not in _WRAPPERS and "=" not in name and not name[:1].isdigit() and name[0] != "-":
            return None
    return None


def _last_level(records: Sequence[TrialRecord]) -> GrowthReport | None:
    found = [one.growth for one in records if one.growth and is_stopped(one)]
    if any(one.grows for one in found):
        return None
    return max(found, key=lambda one: one.level_s or 0.0, default=None)


def _at_least(size_bytes: int) -> int:
    return size_bytes if size_bytes >= _LEAST_BYTES else 0


def _grows(record: TrialRecord) -> bool:
    """Whether it still grew when it was stopped, or ended by itself after some time."""
    if record.growth is None or not record.growth.grows:
        return False
    return is_stopped(record) or (record.growth.lasted_s or 0.0) >= _LEAST_ENDED_S


def _pace(record: TrialRecord) -> float:
    return record.growth.bytes_per_s if record.growth else 0.0


def _elsewhere(records: Sequence[TrialRecord]) -> Elsewhere | None:
    """What all the trials show: beside one of them another program may have grown by chance."""
    found = [_elsewhere_in(record) for record in records]
    known = [one for one in found if one is not None]
    same = len({one.cgroup for one in known if not one.is_sure}) < 2
    if len(known) < len(found) or not same:
        return None
    return max(known, key=lambda one: (one.is_sure, one.grown_bytes), default=None)


def _elsewhere_in(record: TrialRecord) -> Elsewhere | None:
    report = record.outside
    needed = record.demand_bytes or record.peak_bytes or 0
    command = record.settings.get("command")
    name = client_name(list(map(str, command))) if isinstance(command, (list, tuple)) else None
    if report is None or needed > _CLIENT_BYTES or not _waits(record):
        return None
    grown = _grown(report, needed)
    if grown is None and name is None:
        return None
    is_sure = name is not None or report.grown_is_new
    is_idle = needed <= _IDLE_BYTES and _waits(record, _IDLE_SHARE)
    if not is_sure and not (is_idle and (grown or 0) >= _BESIDE_BYTES):
        return None
    return Elsewhere(name, report.grown_cgroup if grown else None, grown or 0, is_sure)


def _waits(record: TrialRecord, most_share: float = _CLIENT_SHARE) -> bool:
    if record.cpu_s is None or not record.wall_s:
        return True
    return record.cpu_s <= most_share * record.wall_s


def _grown(report: OutsideReport, needed_bytes: int) -> int | None:
    grown = report.grown_bytes or 0
    least = max(_GROWN_BYTES, _GROWN_TIMES * needed_bytes)
    return grown if grown >= least else None
