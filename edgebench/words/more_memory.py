"""Sentences of a report: the time that more memory saves, between the limits that were tried.

When two limits' times count as different is decided by :mod:`edgebench.results.spread`.
"""

from __future__ import annotations

from collections.abc import Sequence

from edgebench.results.facts import MemoryStep, WorkloadFacts, more_bytes
from edgebench.results.point_facts import PointFacts
from edgebench.results.spread import SLIGHT
from edgebench.units import format_duration, format_size
from edgebench.words.claims import why_unsure
from edgebench.words.labels import limit_label, pass_words, throughput_of

_UNSURE = "Can't tell"


def more_memory_sentences(workload: WorkloadFacts) -> list[str]:
    """The step up from the tightest limit, the best step, and the limit above which none helps."""
    timed = workload.timed
    if any(point.throughput_per_s for point in timed):
        return [*_made_to_run(workload), *_enough_throughput(workload, timed)]
    found = workload.steps
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
    enough = _enough(workload, timed)
    # Where neither is known, one reason is enough.
    if enough and said and said[-1].startswith(_UNSURE) and enough[0].startswith(_UNSURE):
        return said
    return [*said, *enough]


def largest_saving(workload: WorkloadFacts) -> str:
    """The step that saves most per byte, in one sentence; empty where none surely saves time."""
    timed = workload.timed
    if any(point.throughput_per_s for point in timed):
        return ""
    best = max(workload.steps, key=lambda one: one.rate, default=None)
    if best is None:
        return ""
    return (
        f"{format_size(best.more_bytes)} more than {limit_label(best.tight)} save "
        f"{format_duration(best.saved_s)} ({best.saved_share:.0%}) of {pass_words(workload)}."
    )


def _made_to_run(workload: WorkloadFacts) -> list[str]:
    step = workload.step_to_run
    more = more_bytes(*step) if step else None
    if not step or not more:
        return []
    tight, wide = map(limit_label, step)
    return [f"From {tight} to {wide}, {format_size(more)} more, trials start to finish."]


def _step(one: MemoryStep, workload: WorkloadFacts) -> str:
    mib = one.more_bytes / 2**20
    each = format_duration(one.saved_s / mib)
    return (
        f"from {limit_label(one.tight)} to {limit_label(one.wide)}, "
        f"{format_size(one.more_bytes)} more save {format_duration(one.saved_s)} "
        f"({one.saved_share:.0%}) of {pass_words(workload)}, {each} per MiB"
    )


def _no_step(tight: PointFacts, wide: PointFacts) -> str:
    """The sentence for a step that does not surely save time."""
    step = f"the next step up, from {limit_label(tight)} to {limit_label(wide)},"
    ratio = tight.time_ratio(wide)
    if ratio.is_less:
        return f"{step[0].upper()}{step[1:]} saves no time: it is slower there."
    if ratio.is_within(SLIGHT):
        return f"{step[0].upper()}{step[1:]} saves no more than 10 % of the time."
    return f"{_UNSURE} whether {step} saves time: {why_unsure(ratio)}."


def _enough_throughput(workload: WorkloadFacts, timed: Sequence[PointFacts]) -> list[str]:
    """The same of a workload that counts what it does in a second, whatever its time."""
    enough, free = workload.fast, workload.unlimited
    if enough is not None:
        return [f"More than {limit_label(enough)} raises throughput by no more than 10 %."]
    ratio = timed[0].ratio
    if free is None or ratio is None or not ratio.is_more:
        return []
    return [
        f"Without a limit it does {throughput_of(free)}, and {throughput_of(timed[0])} at "
        f"{limit_label(timed[0])}, the widest limit at which it finished."
    ]


def _enough(workload: WorkloadFacts, timed: Sequence[PointFacts]) -> list[str]:
    """The limit above which more memory saves at most 10 %; else what removing the limit saves."""
    ratios = [p.ratios["total"] for p in timed if "total" in p.ratios]
    if workload.unlimited is None or not ratios:
        return []
    free, enough = workload.unlimited.times_s["total"], workload.fast
    if enough is not None:
        return [f"More than {limit_label(enough)} saves no more than 10 % of the time."]
    widest, where = ratios[0], limit_label(timed[0])
    if widest.is_more:
        # By the ratio that proves it: a walk's own, where medians also differ by process.
        saved = free.median * (widest.median - 1)
        return [
            f"Without a limit {pass_words(workload)} takes {format_duration(saved)} less than at "
            f"{where}, the widest limit at which it finished."
        ]
    if widest.is_less:
        return [f"Without a limit it takes no less time than at {where}."]
    return [f"{_UNSURE} whether more than {where} saves time: {why_unsure(widest)}."]
