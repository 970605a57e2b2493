"""Which limit to give, whether one was met, and what trials leave open of a need.

These are the rules of searches and of all tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Annotated

from msgspec import Meta

from edgebench.records import GrowthReport, LimitSetting, OutsideReport, TrialRecord
from edgebench.results.times import SLIGHT, Ratio
from edgebench.text import MIB

#: Without a slowdown that is asked for, a program that is timed as a whole may take so much longer.
USUAL_LATER_S = 0.1
#: A huge page: where memory comes in these, a limit that is no multiple may kill at any size.
HUGE_PAGE = 2 * MIB
#: The slowdown of a limit that was not met: whatever the clock says.
NOT_MET = Ratio(1.0, 1.0, 1.0, 0.0)
#: A program that used less than this share of its unlimited peak behaved differently, not noisily.
ADAPTED = 0.9


@dataclass(frozen=True)
class AskedPace:
    """How slow a workload may be at the limit to give; a search keeps it with its sweep.

    Args:
        slowdown: the factor that it may be slower by; None: the usual one.
        throughput: the least that it must get done in a second, instead of a slowdown.
    """

    slowdown: Annotated[float, Meta(gt=0)] | None = None
    throughput: Annotated[float, Meta(gt=0)] | None = None

    def factor(self, unlimited_pace: float | None) -> float | None:
        """Return the slowdown that is asked for.

        Below 1: even the unlimited trials are too slow.
        """
        if self.throughput is not None:
            return 1 / unlimited_pace / self.throughput if unlimited_pace else None
        return self.slowdown


@dataclass(frozen=True)
class TriedLimit:
    """What the trials at one limit came to.

    Args:
        limit_bytes: the limit.
        trials, finished: how many there were, and how many of them finished.
        killed: whether one was killed for memory.
        slowdown: the median time over that without a limit; None: not known.
        later_s: how much longer the program takes; None: rounds or a throughput are compared.
    """

    limit_bytes: float
    trials: int
    finished: int
    killed: bool = False
    slowdown: float | None = None
    later_s: float | None = None

    @property
    def ok(self) -> bool:
        """Whether there is a trial, and all finished."""
        return 0 < self.trials == self.finished

    @property
    def huge_multiple(self) -> int | None:
        """The multiple of a huge page below a kill at a limit that is none; None: no such kill."""
        below = int(self.limit_bytes // HUGE_PAGE) * HUGE_PAGE
        return below if self.killed and 0 < below < self.limit_bytes else None

    def is_fast(self, most_slowdown: float | None = None) -> bool:
        """Whether it finished and was no slower; None: than 1.1 times, or a moment."""
        if not self.ok or self.slowdown is None:
            return False
        if most_slowdown is not None:
            return self.slowdown <= most_slowdown
        is_short = self.later_s is not None and self.later_s < USUAL_LATER_S
        return self.slowdown <= SLIGHT or is_short


@dataclass(frozen=True)
class LimitBracket:
    """The least limit that is enough, and the largest that is not; None: there is none."""

    good: TriedLimit | None
    bad: TriedLimit | None

    def is_known_to(self, ratio: float) -> bool:
        """Whether both are known and differ by at most this ratio."""
        if self.good is None or self.bad is None:
            return False
        return self.good.limit_bytes / self.bad.limit_bytes <= ratio


def given_bracket(
    tried: Sequence[TriedLimit], most_slowdown: float | None = None, least_bytes: float = 0
) -> LimitBracket:
    """Bracket the limit to give: at it and all larger ones trials finished, and were fast enough.

    Args:
        tried: all limits with a trial.
        most_slowdown: what was asked for; None: the usual.
        least_bytes: no smaller limit is given.
    """
    return _bracket(
        tried, lambda limit: limit.limit_bytes >= least_bytes and limit.is_fast(most_slowdown)
    )


def viable_bracket(tried: Sequence[TriedLimit]) -> LimitBracket:
    """Bracket the least limit at which, and above which, all trials finished."""
    return _bracket(tried, lambda limit: limit.ok)


def _bracket(tried: Sequence[TriedLimit], is_good: Callable[[TriedLimit], bool]) -> LimitBracket:
    """Leave out kills at limits below which a multiple of a huge page finished."""
    size = attrgetter("limit_bytes")
    finished = {limit.limit_bytes for limit in tried if limit.ok}
    tried = [limit for limit in tried if limit.huge_multiple not in finished]
    bad = max((limit for limit in tried if not is_good(limit)), key=size, default=None)
    good = [limit for limit in tried if bad is None or limit.limit_bytes > bad.limit_bytes]
    return LimitBracket(min(good, key=size, default=None), bad)


def is_limit_met(limits: LimitSetting, trials: int, hits: Iterable[float | None]) -> bool:
    """Return whether usage reached the limit in one of a point's trials, as far as it is known.

    Without that the kernel reclaims nothing, so that pages which are read from a disk all the same
    are those that no trial had in memory. A walk's hits are not counted at each limit: it is met.

    Args:
        limits: the point's.
        trials: how many it has.
        hits: ``limit_hits`` of each trial where it is known.
    """
    known = [count for count in hits if count is not None]
    lowered = limits.memory_high is not None or limits.memory_high_bytes is not None
    return lowered or not trials or len(known) < trials or any(known)


def adapts(most_bytes: float | None, least_unlimited_bytes: float | None) -> bool:
    """Return whether the peaks of trials show that a limit changed what the program took.

    A JVM sizes its heap from the limit: that makes it slower, though the limit is never met.

    Args:
        most_bytes: the largest peak at the limit.
        least_unlimited_bytes: the smallest peak without one.
    """
    if not most_bytes or not least_unlimited_bytes:
        return False
    return most_bytes < ADAPTED * least_unlimited_bytes


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
    watched = [record for record in records if record.outside is not None]
    reports = [record.outside for record in watched if record.outside is not None]
    most = max(reports, key=lambda report: report.processes, default=OutsideReport())
    left_bytes = max((report.left_bytes or 0 for report in reports), default=0)
    growths = [record.growth for record in watched if record.growth and record.growth.grows]
    return Unmeasured(
        processes=most.processes,
        names=tuple(most.names),
        left_bytes=left_bytes if left_bytes >= _LEAST_BYTES else 0,
        is_idle=bool(watched) and all(map(_is_idle, watched)),
        growth=max(growths, key=lambda growth: growth.bytes_per_s, default=None),
    )


def is_stopped(record: TrialRecord) -> bool:
    """Whether it was ended from outside: at its time limit, or when it had run for long enough."""
    return record.outcome == "timeout" or (record.outcome == "ok" and record.exit_code is None)


def _is_idle(record: TrialRecord) -> bool:
    wall_s, cpu_s, demand = record.wall_s, record.cpu_s, record.demand_bytes
    if wall_s is None or cpu_s is None or demand is None:
        return False
    return wall_s > _IDLE_S and demand < _IDLE_BYTES and cpu_s < _IDLE_SHARE * wall_s
