"""Sentences of a report: whether a workload fits, and how slow it is.

Each number was measured: medians of the trials that finished. When two medians count as different
is decided by :mod:`edgebench.results.spread`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from edgebench.kills import OBSERVER_EFFECT
from edgebench.report.slowness import before_end, factor_words, tightest_fast_limit
from edgebench.report.start_sentences import start_sentences
from edgebench.report.workload import WorkloadPoints, limit_label, limit_size, spread_words
from edgebench.results.kill_rate import kill_rate
from edgebench.results.spread import SLIGHT
from edgebench.results.summary import PointSummary
from edgebench.text import joined_words
from edgebench.units import (
    format_size,
    format_times,
    swap_words,
    times_as_long,
)

_OUTCOMES = {
    "oom-killed": "killed for memory",
    "accelerator-oom": "out of the accelerator's memory",
    "timeout": "out of time",
    "harness-error": "stopped by an error of edgebench",
    "interrupted": "interrupted",
}
_PHASES = {
    "load": "loading",
    "first": "first executions",
    "execute": "a warm execution",
    "prefill": "prefill",
    "decode": "a token",
}


def viability_sentences(workload: WorkloadPoints) -> list[str]:
    """Its demand, the limits at which it finished and those at which it did not."""
    lost = [point for point in workload.tried if "ok" not in point.outcomes]
    torn = [point for point in workload.tried if "ok" in point.outcomes and _lost(point)]
    said = [_demand(workload), *_working_set(workload)]
    if not workload.tried:
        return [*said, "No limit was tried, so it is not known whether it fits in less."]
    if workload.finished:
        said.append(_finished(workload))
    said += [
        f"At {limit_label(p)} only {p.outcomes['ok']} of {_made(p)} trials finished "
        f"({_outcomes([p])}{_before_end(workload, [p])}): don't rely on this limit."
        for p in torn
    ]
    if lost:
        where = joined_words(map(limit_label, lost))
        ends = _outcomes(lost) + _before_end(workload, lost)
        said.append(f"No trial finished at {where}: {ends}.")
    killed = any("oom-killed" in point.outcomes for point in lost)
    if killed and workload.limits.swap_kind == "none":
        said.append("It had no swap: with swap it might finish there, slowly.")
    return [*said, *_killed_with_swap_free(workload), *least_limit_sentences(workload)]


def least_limit_sentences(workload: WorkloadPoints) -> list[str]:
    """How certain the least viable limit is, for one trial and for an hour."""
    point = workload.least_viable
    rate = kill_rate(point) if point else None
    # One trial alone shows too little.
    if point is None or rate is None or rate.trials < 2:
        return []
    return [f"At {limit_label(point)}, its least viable limit: {rate.words}; {rate.hour_words}."]


def slowdown_sentences(workload: WorkloadPoints) -> list[str]:
    """Its time unlimited and at the tightest limit, and the limit down to which it is as fast."""
    timed = [point for point in workload.tried if "total" in point.times_s]
    unlimited = workload.unlimited
    if unlimited is not None:
        subject = "it" if unlimited.throughput_per_s else workload.pass_words
        said = [f"Unlimited, {subject} {_pace(unlimited)}."]
        said += start_sentences(workload, unlimited, timed)
    elif any(point.ratios for point in timed):
        said = ["No unlimited trial finished with this swap: another swap's are used instead."]
    else:
        return ["No unlimited trial finished, so there is nothing to compare times with."]
    if timed:
        said.append(_at_tightest(timed[-1], workload.pass_words))
    return [*said, *_down_to(workload, timed)] if len(timed) > 1 else said


def _demand(workload: WorkloadPoints) -> str:
    demand = workload.demand_bytes
    if demand is None:
        return "Its demand is not known: no unlimited trial recorded it."
    unlimited = workload.unlimited
    trials = "one trial" if unlimited and _made(unlimited) == 1 else "median of its trials"
    return f"It needs {format_size(demand)} without a limit ({trials})."


def _working_set(workload: WorkloadPoints) -> list[str]:
    needs = workload.working_set_bytes
    if needs is None:
        return []
    watched = "" if needs.count == 1 else f", median of {needs.count} rounds that were watched"
    of_that = " of that" if workload.demand_bytes is not None else ""
    less = "with less, rounds read memory again"
    if workload.limits.swap_kind == "none":
        less = "without swap what it uses no more stays in memory, too"
    return [
        f"Once running it uses {format_size(needs.median)}{of_that} in each round (its working set"
        f"{watched}): {less}."
    ]


def _finished(workload: WorkloadPoints) -> str:
    finished, viable = workload.finished, workload.viable
    if not viable:
        names = joined_words(map(limit_label, finished))
        return f"Every trial finished at {names}, but not at every wider limit: repeat the sweep."
    tightest = limit_label(viable[-1])
    if len(viable) == len(workload.tried):
        down = f", down to {tightest}" if len(viable) > 1 else f": {tightest}"
        limits = f"all {len(viable)} limits" if len(viable) > 1 else "the one limit"
        words = f"It finished at {limits} tried{down}"
    elif len(viable) == len(finished):
        words = f"The tightest limit at which every trial finished is {tightest}"
    else:
        others = joined_words(map(limit_label, finished[len(viable) :]))
        words = f"Every trial finished down to {tightest} (and at {others}, but not in between)"
    demand, size = workload.demand_bytes, limit_size(viable[-1])
    told = demand and size and size < demand and not viable[-1].limits.label.endswith("%")
    share = f", {size / demand:.0%} of its demand" if told and demand and size else ""
    swap = workload.limits
    if swap.swap_kind == "none":
        return f"{words}{share}, without swap."
    return f"{words}{share}, with {swap_words(swap.swap_kind, swap.swap_bytes)}."


def _before_end(workload: WorkloadPoints, lost: Sequence[PointSummary]) -> str:
    """What trials were doing when the widest of these limits ended them, and how slow they were."""
    words = before_end(workload, lost[0])
    of_all = {point.ended_in for point in lost} == {words.removeprefix(" while ")}
    if of_all or len(lost) == 1 or not words:
        return words
    return f", at {limit_label(lost[0])}{words.removeprefix(',')}"


def _killed_with_swap_free(workload: WorkloadPoints) -> list[str]:
    """Limits at which trials were killed although swap was free."""
    marked = [(p, p.swap_free_bytes) for p in workload.points if p.swap_free_bytes]
    said = [
        f"At {limit_label(p)} {free.count} of {_made(p)} trials "
        f"{'was' if free.count == 1 else 'were'} killed while at least {format_size(free.low)} of "
        "swap were free: the kernel found nothing it could reclaim. Another trial may finish there."
        for p, free in marked
    ]
    return [*said, f"See {OBSERVER_EFFECT}."] if said else []


def _at_tightest(point: PointSummary, pass_words: str) -> str:
    who = "any trial" if _lost(point) else "it"
    subject = "it" if point.throughput_per_s else pass_words
    words = f"At {limit_label(point)}, the tightest limit at which {who} finished, {subject} "
    words += _pace(point)
    ratio = point.ratio
    if ratio is None:
        return f"{words}."
    # The phases that are surely slower.
    phases = [
        f"{name} {format_times(point.ratios[phase].median)}"
        for phase, name in _PHASES.items()
        if phase in point.ratios and point.ratios[phase].is_more
    ]
    slower = f" ({', '.join(phases)})" if phases else ""
    return f"{words}: {factor_words(ratio, slower)}."


def _down_to(workload: WorkloadPoints, timed: Sequence[PointSummary]) -> list[str]:
    """The limit down to which it is at most 10 % slower, and the next one if that is unclear."""
    found = tightest_fast_limit(workload)
    if found is not None and found is workload.tried[-1]:
        return ["No limit tried slowed it by more than 10 %."]
    said = []
    if found is not None:
        said.append(f"Down to {limit_label(found)} it is at most 10 % slower.")
    following = workload.tried[workload.tried.index(found) + 1 if found else 0]
    ratio = following.ratio
    if ratio is None or following is timed[-1]:
        return said
    where = limit_label(following)
    if ratio.low is not None and ratio.low > SLIGHT:
        already = f"it already takes {times_as_long(ratio.median)}"
        return said or [f"At {where}, the widest limit tried, {already}."]
    return [
        *said,
        f"At {where} ({times_as_long(ratio.median)}) can't tell whether it is slower by more than "
        f"10 %: {ratio.why_unsure}.",
    ]


def _pace(point: PointSummary) -> str:
    """``takes 3.2 s (3 trials, 3.1 s to 3.3 s)``, or ``does 41.2 tokens/s (…)``."""
    rate = point.throughput_per_s
    if rate is None:
        # Of a limit that one walk visited, rounds are the repeats.
        times = point.times_s["total"]
        return f"takes {spread_words(times, 'rounds' if times.count > _made(point) else 'trials')}"
    words = f"does {point.throughput_words}"
    if rate.count < 2:
        return f"{words} (one trial)"
    return f"{words} ({rate.count} trials, {rate.low:.3g} to {rate.high:.3g})"


def _lost(point: PointSummary) -> bool:
    return set(point.outcomes) != {"ok"}


def _made(point: PointSummary) -> int:
    return sum(point.outcomes.values())


def _outcomes(points: Sequence[PointSummary]) -> str:
    counts: Counter[str] = Counter()
    for point in points:
        counts.update({k: n for k, n in point.outcomes.items() if k != "ok"})
    return joined_words(
        f"{count} {_OUTCOMES.get(how, how)}" for how, count in sorted(counts.items())
    )
