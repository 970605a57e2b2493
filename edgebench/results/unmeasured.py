"""What of a program's memory its trials do not tell: typed, from their records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgebench.records import GrowthReport, OutsideReport, TrialRecord
from edgebench.units import MIB

#: A program that ends sooner has only begun: that its memory rises says nothing.
_LEAST_ENDED_S = 5.0
#: What stays in memory counts from here on.
_LEAST_BYTES = MIB
#: A command that lasts longer, with less memory and a smaller share of a CPU, does next to nothing.
_IDLE_S, _IDLE_BYTES, _IDLE_SHARE = 2.0, 5 * MIB, 0.05


@dataclass(frozen=True)
class Unmeasured:
    """What some trials of a program leave open.

    Args:
        processes, names: what outlived the command, at most, and was ended.
        left_bytes: shared memory that stayed, at most.
        is_idle: whether it did next to nothing itself, in each trial.
        growth: of the trial whose memory grew fastest at its end; None: none grew.
        is_stopped: whether that one was stopped; else it ended by itself.
        level: of the stopped trial that was level last; None: none was seen to be.
    """

    processes: int = 0
    names: tuple[str, ...] = ()
    left_bytes: int = 0
    is_idle: bool = False
    growth: GrowthReport | None = None
    is_stopped: bool = False
    level: GrowthReport | None = None

    @property
    def hides_need(self) -> bool:
        """Whether the trials can tell no need."""
        return self.growth is not None and self.is_stopped

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
    most = max(reports, key=lambda one: one.processes, default=OutsideReport())
    left_bytes = max((one.left_bytes or 0 for one in reports), default=0)
    growing = [record for record in seen if _grows(record)]
    fastest = max(growing, key=_pace, default=None)
    return Unmeasured(
        processes=most.processes,
        names=tuple(most.names),
        left_bytes=left_bytes if left_bytes >= _LEAST_BYTES else 0,
        is_idle=bool(seen) and all(map(_is_idle, seen)),
        growth=fastest.growth if fastest else None,
        is_stopped=fastest is not None and is_stopped(fastest),
        level=_last_level(seen),
    )


def is_stopped(record: TrialRecord) -> bool:
    """Whether it was ended from outside: at its time limit, or when it had run for long enough."""
    return record.outcome == "timeout" or (record.outcome == "ok" and record.exit_code is None)


def _is_idle(record: TrialRecord) -> bool:
    wall_s, cpu_s, demand = record.wall_s, record.cpu_s, record.demand_bytes
    if wall_s is None or cpu_s is None or demand is None:
        return False
    return wall_s > _IDLE_S and demand < _IDLE_BYTES and cpu_s < _IDLE_SHARE * wall_s


def _last_level(records: Sequence[TrialRecord]) -> GrowthReport | None:
    found = [one.growth for one in records if one.growth and is_stopped(one)]
    if any(one.grows for one in found):
        return None
    return max(found, key=lambda one: one.level_s or 0.0, default=None)


def _grows(record: TrialRecord) -> bool:
    """Whether it still grew when it was stopped, or ended by itself after some time."""
    if record.growth is None or not record.growth.grows:
        return False
    return is_stopped(record) or (record.growth.lasted_s or 0.0) >= _LEAST_ENDED_S


def _pace(record: TrialRecord) -> float:
    return record.growth.bytes_per_s if record.growth else 0.0
