"""What a workload's trials mean, in sentences: whether it fits, and how slow it is.

Each number in a sentence was measured; medians of the trials that finished. A difference is only
told where the repeats of both sides don't overlap.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from edgebench.report.workload import Workload, limit_size, limit_words
from edgebench.results.summary import PointSummary, Spread
from edgebench.units import format_duration, format_size

#: A round that is slower by no more than this is hardly slowed.
HARDLY = 1.1
_OUTCOMES = {
    "oom-killed": "killed for memory",
    "timeout": "out of time",
    "failed": "failed",
    "harness-error": "lost to an error of the harness",
    "interrupted": "interrupted",
}
_PHASES = {"load": "loading", "first": "first executions", "execute": "a warm execution"}


def fits_said(workload: Workload) -> list[str]:
    """Does it fit? What it needs, where it finished, where it did not."""
    lost = [point for point in workload.tried if "ok" not in point.outcomes]
    torn = [point for point in workload.tried if "ok" in point.outcomes and _lost(point)]
    said = [_demand(workload)]
    if not workload.tried:
        return [*said, "No limit was tried, so whether it fits in less is not known."]
    if workload.finished:
        said.append(_finished(workload))
    said += [
        f"At {limit_words(p)} only {p.outcomes['ok']} of {_made(p)} trials finished "
        f"({_outcomes([p])}): too little to rely on."
        for p in torn
    ]
    if lost:
        said.append(f"At {listed(map(limit_words, lost))} no trial finished: {_outcomes(lost)}.")
    if lost and workload.limits.swap_kind == "none":
        said.append("It had no swap; with some it might finish there, slowly.")
    return said


def slow_said(workload: Workload) -> list[str]:
    """How slow will it be? Unlimited, at the tightest limit it finished at, and from where on."""
    unlimited = workload.unlimited
    if unlimited is None:
        return ["No unlimited trial finished, so there is nothing that slower could be told from."]
    free = unlimited.times_s["total"]
    said = [f"Unlimited, {workload.pass_words} takes {_spread(free)}."]
    timed = [point for point in workload.tried if "total" in point.times_s]
    if not timed:
        return said
    said.append(_at_tightest(timed[-1], free))
    if len(timed) > 1:
        said += _hardly(workload, timed)
    return said


def slower(one: Spread, other: Spread) -> bool:
    """Whether even the fastest repeat of one is slower than the slowest of the other."""
    return one.low > other.high


def listed(words: Iterable[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    *first, last = list(words)
    return f"{', '.join(first)} and {last}" if first else last


def hardly_slowed(workload: Workload) -> PointSummary | None:
    """The tightest limit down to which no limit slowed it by more than :data:`HARDLY`.

    A limit whose repeats overlap with the unlimited ones is not told to have slowed it.
    """
    found = None
    for point in workload.tried:
        if "total" not in point.slowdowns or _lost(point) or _slowed(workload, point):
            break
        found = point
    return found


def _slowed(workload: Workload, point: PointSummary) -> bool:
    free = workload.unlimited
    beyond = point.slowdowns["total"] > HARDLY
    return beyond and free is not None and slower(point.times_s["total"], free.times_s["total"])


def _demand(workload: Workload) -> str:
    demand = workload.demand_bytes
    if demand is None:
        return "What it needs when nothing limits it is not known: no unlimited trial told."
    trials = workload.unlimited.outcomes.get("ok", 0) if workload.unlimited else 0
    told = f" (median of {trials} unlimited trials)" if trials > 1 else ""
    return f"It needs {format_size(demand)} when nothing limits it{told}."


def _finished(workload: Workload) -> str:
    finished = workload.finished
    tightest = limit_words(finished[-1])
    if len(finished) == len(workload.tried):
        down = f", down to {tightest}" if len(finished) > 1 else f": {tightest}"
        limits = f"all {len(finished)} limits" if len(finished) > 1 else "the one limit"
        words = f"It finished at {limits} tried{down}"
    else:
        words = f"The tightest limit at which every trial finished is {tightest}"
    demand, size = workload.demand_bytes, limit_size(finished[-1])
    told = demand and size and size < demand and not finished[-1].limits.label.endswith("%")
    share = f", {size / demand:.0%} of that" if told and demand and size else ""
    swap = workload.limits
    if swap.swap_kind == "none":
        return f"{words}{share}, without swap."
    amount = f"{format_size(swap.swap_bytes)} of " if swap.swap_bytes is not None else ""
    kind = "the machine's own swap" if swap.swap_kind == "system" else f"swap ({swap.swap_kind})"
    return f"{words}{share}, with {amount}{kind} beside it."


def _at_tightest(point: PointSummary, free: Spread) -> str:
    time = point.times_s["total"]
    words = f"At {limit_words(point)}, the tightest at which it finished, it takes {_spread(time)}"
    factor = time.median / free.median
    if not slower(time, free):
        return f"{words}: that can't be told from unlimited."
    phases = [
        f"{name} ×{point.slowdowns[phase]:.3g}"
        for phase, name in _PHASES.items()
        if phase in point.slowdowns
    ]
    parts = f" ({', '.join(phases)})" if phases else ""
    return f"{words}: ×{factor:.3g}{parts}."


def _hardly(workload: Workload, timed: Sequence[PointSummary]) -> list[str]:
    point = hardly_slowed(workload)
    if point is None:
        widest = timed[0]
        words = f"Already at {limit_words(widest)}, the widest limit tried, it is "
        factor = f"×{widest.slowdowns['total']:.3g}."
        return [words + factor] if _slowed(workload, widest) else []
    above = timed[: timed.index(point) + 1]
    noisy = any(one.slowdowns["total"] > HARDLY for one in above)
    told = ", as far as repeats can tell" if noisy else ""
    if point is timed[-1]:
        return [f"No limit tried slowed it by more than 10 %{told}."]
    return [f"Down to {limit_words(point)} it is slower by no more than 10 %{told}."]


def _spread(times: Spread) -> str:
    words = format_duration(times.median)
    if times.count < 2:
        return f"{words} (one trial)"
    low, high = format_duration(times.low), format_duration(times.high)
    return f"{words} ({times.count} trials, {low} to {high})"


def _lost(point: PointSummary) -> bool:
    return set(point.outcomes) != {"ok"}


def _made(point: PointSummary) -> int:
    return sum(point.outcomes.values())


def _outcomes(points: Sequence[PointSummary]) -> str:
    counts: Counter[str] = Counter()
    for point in points:
        counts.update({k: n for k, n in point.outcomes.items() if k != "ok"})
    return listed(f"{count} {_OUTCOMES[outcome]}" for outcome, count in sorted(counts.items()))
