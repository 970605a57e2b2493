"""What of a program's memory its trials do not tell: typed, from their records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgebench.records import GrowthReport, OutsideReport, TrialRecord
from edgebench.text import MIB

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
        growth: of the stopped trial whose memory grew fastest, so that no need can be told; None:
            none grew.
    """

    processes: int = 0
    names: tuple[str, ...] = ()
    left_bytes: int = 0
    is_idle: bool = False
    growth: GrowthReport | None = None


def unmeasured(records: Sequence[TrialRecord]) -> Unmeasured:
    """Return what trials of one program leave open, those with the same limits together."""
    seen = [record for record in records if record.outside is not None]
    reports = [record.outside for record in seen if record.outside is not None]
    most = max(reports, key=lambda one: one.processes, default=OutsideReport())
    left_bytes = max((one.left_bytes or 0 for one in reports), default=0)
    judged = [record.growth for record in seen if record.growth is not None]
    growing = [one for one in judged if one.grows]
    return Unmeasured(
        processes=most.processes,
        names=tuple(most.names),
        left_bytes=left_bytes if left_bytes >= _LEAST_BYTES else 0,
        is_idle=bool(seen) and all(map(_is_idle, seen)),
        growth=max(growing, key=lambda one: one.bytes_per_s, default=None),
    )


def is_stopped(record: TrialRecord) -> bool:
    """Whether it was ended from outside: at its time limit, or when it had run for long enough."""
    return record.outcome == "timeout" or (record.outcome == "ok" and record.exit_code is None)


def _is_idle(record: TrialRecord) -> bool:
    wall_s, cpu_s, demand = record.wall_s, record.cpu_s, record.demand_bytes
    if wall_s is None or cpu_s is None or demand is None:
        return False
    return wall_s > _IDLE_S and demand < _IDLE_BYTES and cpu_s < _IDLE_SHARE * wall_s
