"""What the trials of a sweep in progress have shown so far: each workload's slowdown by limit."""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from edgebench.results.rounds import trial_times
from edgebench.results.workload_key import (
    WorkloadKey,
    brief_names,
    other_limits_label,
    workload_label,
)
from edgebench.text import printable
from edgebench.units import parse_share
from edgebench.words.outcomes import outcome_words

if TYPE_CHECKING:
    from edgebench.records import LimitSetting, TrialRecord
    from edgebench.run.trial_record import TrialRequest

UNLIMITED = "max"
#: A name longer than this is cut: a command may be a whole program.
_LONGEST_NAME = 40


@dataclass
class PointSoFar:
    """One point: its limit, the seconds of its finished trials, how often others ended how.

    ``stopped_s``: how long trials ran that reached their time limit.
    """

    limits: LimitSetting
    limit_bytes: int | None = None
    times_s: list[float] = field(default_factory=list)
    stopped_s: list[float] = field(default_factory=list)
    lost: Counter[str] = field(default_factory=Counter)

    @property
    def lost_word(self) -> str | None:
        """``killed`` or the like, where no trial has finished."""
        if self.times_s or not self.lost:
            return None
        outcome = self.lost.most_common(1)[0][0]
        return outcome_words(outcome).brief


@dataclass
class WorkloadSoFar:
    """One workload with its points by the limits' labels; ``key``: what it executes."""

    label: str
    key: WorkloadKey
    points: dict[str, PointSoFar] = field(default_factory=dict)


class KnownSlowdowns:
    """Every workload whose trials have started, in the order of their first ones."""

    def __init__(self) -> None:
        self._workloads: dict[str, WorkloadSoFar] = {}
        self.names: dict[str, str] = {}

    def point(self, request: TrialRequest) -> PointSoFar:
        """The point of a trial; a new one is added."""
        label = workload_name(request)
        if label not in self._workloads:
            settings = {**request.settings, "version": request.version}
            key = WorkloadKey.of(settings, request.limits).any_swap
            self._workloads[label] = WorkloadSoFar(label, key)
            self.names = brief_names(self._workloads)
        points = self._workloads[label].points
        return points.setdefault(request.limits.label, PointSoFar(request.limits))

    def add(self, request: TrialRequest, record: TrialRecord) -> None:
        """Count a trial that has ended. A strategy's own says nothing of time."""
        if request.strategy is not None:
            return
        point = self.point(request)
        point.limit_bytes = record.limit_bytes or request.limits.memory_bytes
        total = trial_times(record).get("total")
        if total is not None:
            point.times_s.append(total)
        else:
            point.lost[record.outcome] += 1
            if record.outcome == "timeout" and record.wall_s:
                point.stopped_s.append(record.wall_s)

    @property
    def workloads(self) -> list[WorkloadSoFar]:
        """In the order in which they began."""
        return list(self._workloads.values())

    def unlimited_s(self, workload: WorkloadSoFar) -> float | None:
        """Its median time without a limit, with another swap if need be; None: not known yet."""
        alike = [one for one in self._workloads.values() if one.key == workload.key]
        for one in (workload, *alike):
            free = one.points.get(UNLIMITED)
            if free and free.times_s:
                return statistics.median(free.times_s)
        return None

    def slowdown(self, workload: WorkloadSoFar, label: str) -> float | None:
        """The median time at a limit ÷ the unlimited one; None: not known yet, or none finished."""
        point, base = workload.points.get(label), self.unlimited_s(workload)
        if point is None or not point.times_s or not base:
            return None
        return statistics.median(point.times_s) / base

    def worst(self) -> WorkloadSoFar | None:
        """The workload slowed most so far, which has the most to show; None: nothing is known."""

        def most(one: WorkloadSoFar) -> float:
            known = [self.slowdown(one, label) for label in one.points if label != UNLIMITED]
            return max((factor for factor in known if factor is not None), default=0.0)

        found = max(self._workloads.values(), key=most, default=None)
        return found if found and most(found) else None

    def limits(self) -> list[str]:
        """The labels of all limits, shares first, each from the widest to the tightest."""
        found = {
            label: point.limits.memory_bytes
            for one in self._workloads.values()
            for label, point in one.points.items()
            if label != UNLIMITED
        }
        return sorted(found, key=lambda label: _order(label, found[label]))


def _order(label: str, memory_bytes: int | None) -> tuple[bool, float]:
    share = parse_share(label)
    return share is None, -(share if share is not None else float(memory_bytes or 0))


def workload_name(request: TrialRequest) -> str:
    """What a trial runs and under which limits other than memory: safe to print, on one line."""
    words = f"{workload_label(request.settings)}{other_limits_label(request.limits)}"
    words += f" · {request.version}" if request.version else ""
    return " · ".join(_cut(" ".join(printable(part).split())) for part in words.split(" · "))


def _cut(words: str) -> str:
    return words if len(words) <= _LONGEST_NAME else f"{words[: _LONGEST_NAME - 1]}…"
