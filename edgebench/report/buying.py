"""What would a little more memory buy? Steps between the limits that were tried, in sentences.

A step is only told where the repeats of both limits don't overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from edgebench.report.sentences import slower
from edgebench.report.workload import Workload, limit_size, limit_words
from edgebench.results.summary import PointSummary
from edgebench.units import format_duration, format_size


@dataclass(frozen=True)
class Bargain:
    """What one step to the next wider limit buys: seconds less for bytes more."""

    tight: PointSummary
    wide: PointSummary
    more_bytes: float
    saved_s: float
    saved_share: float

    @property
    def rate(self) -> float:
        """Seconds saved a byte."""
        return self.saved_s / self.more_bytes


def bought_said(workload: Workload) -> list[str]:
    """What would a little more memory buy? The next step, the best one, where it ends."""
    timed = [p for p in workload.points if "total" in p.times_s and p.limits.label != "max"]
    found = bargains(timed)
    said = _made_to_run(workload)
    if not timed:
        return said or ["No trial finished below a limit, so there is no step to compare."]
    next_up = next((one for one in found if one.tight is timed[-1]), None)
    if next_up:
        said.append(f"The next step up: {_bargain(next_up, workload)}.")
    elif len(timed) > 1:
        said.append(
            f"The next step up, from {limit_words(timed[-1])} to {limit_words(timed[-2])}, "
            "changed no time beyond what repeats differ by."
        )
    best = max(found, key=lambda one: one.rate, default=None)
    if best and best is not next_up:
        said.append(f"The most for each MiB: {_bargain(best, workload)}.")
    said += _enough(workload, timed)
    return said


def bargains(timed: Sequence[PointSummary]) -> list[Bargain]:
    """The steps between neighbouring limits that can be told from noise, tightest first."""
    found = []
    for wide, tight in list(pairwise(timed))[::-1]:
        sizes = limit_size(wide), limit_size(tight)
        before, after = tight.times_s["total"], wide.times_s["total"]
        if None not in sizes and sizes[0] != sizes[1] and slower(before, after):
            more = (sizes[0] or 0) - (sizes[1] or 0)
            saved = before.median - after.median
            found.append(Bargain(tight, wide, more, saved, saved / before.median))
    return found


def _made_to_run(workload: Workload) -> list[str]:
    """The step from a limit where nothing finished to the next at which all did."""
    for wide, tight in pairwise(workload.tried):
        sizes = limit_size(wide), limit_size(tight)
        if set(wide.outcomes) == {"ok"} and "ok" not in tight.outcomes and None not in sizes:
            more = format_size((sizes[0] or 0) - (sizes[1] or 0))
            return [
                f"From {limit_words(tight)} to {limit_words(wide)}, {more} more, "
                "it begins to finish at all."
            ]
    return []


def _bargain(one: Bargain, workload: Workload) -> str:
    mib = one.more_bytes / 2**20
    each = format_duration(one.saved_s / mib)
    return (
        f"from {limit_words(one.tight)} to {limit_words(one.wide)}, "
        f"{format_size(one.more_bytes)} more save {format_duration(one.saved_s)} "
        f"({one.saved_share:.0%}) of {workload.pass_words}, {each} for each MiB"
    )


def _enough(workload: Workload, timed: Sequence[PointSummary]) -> list[str]:
    """Above which limit nothing is bought that these trials can tell; else what no limit buys."""
    if workload.unlimited is None:
        return []
    free, enough = workload.unlimited.times_s["total"], None
    for point in timed:
        if slower(point.times_s["total"], free):
            break
        enough = point
    if enough is None:
        saved = timed[0].times_s["total"].median - free.median
        return [
            f"Without a limit {workload.pass_words} takes {format_duration(saved)} less than at "
            f"{limit_words(timed[0])}, the widest limit tried."
        ]
    return [f"More than {limit_words(enough)} buys no time that these trials can tell."]
