"""Sentences of a report: the time that more memory saves, between the limits that were tried.

When two limits' times count as different is decided by :mod:`edgebench.results.spread`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from edgebench.kills import LOST
from edgebench.report.slowness import tightest_fast_limit
from edgebench.report.workload import WorkloadPoints, limit_label, limit_size
from edgebench.results.spread import SLIGHT, Ratio, ratio_of
from edgebench.results.summary import PointSummary
from edgebench.units import format_duration, format_size


@dataclass(frozen=True)
class MemoryStep:
    """One step to the next wider limit: how much more memory, how much less time."""

    tight: PointSummary
    wide: PointSummary
    more_bytes: float
    saved_s: float
    saved_share: float

    @property
    def rate(self) -> float:
        """Seconds saved a byte."""
        return self.saved_s / self.more_bytes


def more_memory_sentences(workload: WorkloadPoints) -> list[str]:
    """The step up from the tightest limit, the best step, and the limit above which none helps."""
    timed = _timed(workload)
    if any(point.throughput_per_s for point in timed):
        return [*_made_to_run(workload), *_enough_throughput(workload, timed)]
    found = faster_steps(timed)
    said = _made_to_run(workload)
    if not timed:
        return said or ["No trial finished below a limit, so there is no step to compare."]
    next_up = next((one for one in found if one.tight is timed[-1]), None)
    if next_up:
        said.append(f"The next step up: {_step(next_up, workload)}.")
    elif len(timed) > 1:
        said.append(_no_step(timed[-1], timed[-2]))
    best = max(found, key=lambda one: one.rate, default=None)
    if best and best is not next_up:
        said.append(f"The step that saves most per MiB: {_step(best, workload)}.")
    said += _enough(workload, timed)
    return said


def largest_saving(workload: WorkloadPoints) -> str:
    """The step that saves most per byte, in one sentence; empty where none surely saves time."""
    timed = _timed(workload)
    if any(point.throughput_per_s for point in timed):
        return ""
    best = max(faster_steps(timed), key=lambda one: one.rate, default=None)
    if best is None:
        return ""
    return (
        f"{format_size(best.more_bytes)} more than {limit_label(best.tight)} save "
        f"{format_duration(best.saved_s)} ({best.saved_share:.0%}) of {workload.pass_words}."
    )


def _timed(workload: WorkloadPoints) -> list[PointSummary]:
    """The points below a limit with a time, the widest limit first."""
    return [p for p in workload.points if "total" in p.times_s and p.limits.label != "max"]


def faster_steps(timed: Sequence[PointSummary]) -> list[MemoryStep]:
    """The steps from a limit to the next wider one that surely save time, tightest first."""
    found = []
    for wide, tight in list(pairwise(timed))[::-1]:
        sizes = limit_size(wide), limit_size(tight)
        ratio = _time_ratio(tight, wide)
        if None not in sizes and sizes[0] != sizes[1] and ratio.is_more:
            more = (sizes[0] or 0) - (sizes[1] or 0)
            share = 1 - 1 / ratio.median
            saved = tight.times_s["total"].median * share
            found.append(MemoryStep(tight, wide, more, saved, share))
    return found


def _time_ratio(tight: PointSummary, wide: PointSummary) -> Ratio:
    """How much longer the tighter takes: by a walk's own rounds, where both were walked."""
    if tight.steady_relative and wide.steady_relative:
        return ratio_of(tight.steady_relative, wide.steady_relative)
    return ratio_of(tight.times_s["total"], wide.times_s["total"])


def _made_to_run(workload: WorkloadPoints) -> list[str]:
    """The step from a limit at which nothing finished to the next, at which all trials did."""
    viable = workload.viable
    below = workload.tried[len(viable) :]
    if viable and below and not any("ok" in point.outcomes for point in below):
        wide, tight = viable[-1], below[0]
        sizes = limit_size(wide), limit_size(tight)
        if None not in sizes and LOST.keys() & set(tight.outcomes):
            more = format_size((sizes[0] or 0) - (sizes[1] or 0))
            return [
                f"From {limit_label(tight)} to {limit_label(wide)}, {more} more, "
                "trials start to finish."
            ]
    return []


def _step(one: MemoryStep, workload: WorkloadPoints) -> str:
    mib = one.more_bytes / 2**20
    each = format_duration(one.saved_s / mib)
    return (
        f"from {limit_label(one.tight)} to {limit_label(one.wide)}, "
        f"{format_size(one.more_bytes)} more save {format_duration(one.saved_s)} "
        f"({one.saved_share:.0%}) of {workload.pass_words}, {each} per MiB"
    )


def _no_step(tight: PointSummary, wide: PointSummary) -> str:
    """The sentence for a step that does not surely save time."""
    step = f"the next step up, from {limit_label(tight)} to {limit_label(wide)},"
    ratio = _time_ratio(tight, wide)
    if ratio.is_less:
        return f"{step[0].upper()}{step[1:]} saves no time: it is slower there."
    if ratio.is_within(SLIGHT):
        return f"{step[0].upper()}{step[1:]} saves no more than 10 % of the time."
    return f"Can't tell whether {step} saves time: {ratio.why_unsure}."


def _enough_throughput(workload: WorkloadPoints, timed: Sequence[PointSummary]) -> list[str]:
    """The same of a workload that counts what it does in a second, whatever its time."""
    enough, free = tightest_fast_limit(workload), workload.unlimited
    if enough is not None:
        return [f"More than {limit_label(enough)} raises throughput by no more than 10 %."]
    ratio = timed[0].ratio
    if free is None or ratio is None or not ratio.is_more:
        return []
    return [
        f"Without a limit it does {free.throughput_words}, and {timed[0].throughput_words} at "
        f"{limit_label(timed[0])}, the widest limit at which it finished."
    ]


def _enough(workload: WorkloadPoints, timed: Sequence[PointSummary]) -> list[str]:
    """The limit above which more memory saves at most 10 %; else what removing the limit saves."""
    ratios = [p.ratios["total"] for p in timed if "total" in p.ratios]
    if workload.unlimited is None or not ratios:
        return []
    free, enough = workload.unlimited.times_s["total"], tightest_fast_limit(workload)
    if enough is not None:
        return [f"More than {limit_label(enough)} saves no more than 10 % of the time."]
    widest, where = ratios[0], limit_label(timed[0])
    if widest.is_more:
        # By the ratio that proves it: a walk's own, where medians also differ by process.
        saved = free.median * (widest.median - 1)
        return [
            f"Without a limit {workload.pass_words} takes {format_duration(saved)} less than at "
            f"{where}, the widest limit at which it finished."
        ]
    if widest.is_less:
        return [f"Without a limit it takes no less time than at {where}."]
    return [f"Can't tell whether more than {where} saves time: {widest.why_unsure}."]
