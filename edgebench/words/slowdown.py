"""How slow is it? Sentences on rounds and on the start, without a limit and with one.

Each number was measured: medians of the trials that finished. A walk imports without a limit, so
only fresh trials show what an import below one takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from edgebench.results.facts import WorkloadFacts
from edgebench.results.point_facts import PointFacts
from edgebench.results.rounds import IMPORT, START
from edgebench.results.spread import SLIGHT
from edgebench.units import format_duration, format_times, times_as_long
from edgebench.words.claims import factor_words, one_trial_words, why_unsure
from edgebench.words.labels import limit_label, pass_words, spread_words, throughput_of

_PHASES = {
    "load": "loading",
    "first": "first executions",
    "execute": "a warm execution",
    "prefill": "prefill",
    "decode": "a token",
}


def slowdown_sentences(workload: WorkloadFacts) -> list[str]:
    """Its time unlimited and at the tightest limit, and the limit down to which it is as fast."""
    timed = [point for point in workload.tried if "total" in point.times_s]
    unlimited = workload.unlimited
    if unlimited is not None:
        subject = "it" if unlimited.throughput_per_s else pass_words(workload)
        said = [f"Unlimited, {subject} {_pace(unlimited)}."]
        said += _start(workload, unlimited, timed)
    elif any(point.ratios for point in timed):
        said = ["No unlimited trial finished with this swap: another swap's are used instead."]
    else:
        return ["No unlimited trial finished, so there is nothing to compare times with."]
    if timed:
        said.append(_at_tightest(timed[-1], pass_words(workload)))
    return [*said, *_down_to(workload, timed)] if len(timed) > 1 else said


def later_start_words(workload: WorkloadFacts) -> Iterator[str]:
    """How much longer import and first round take, each at the tightest limit that delays it."""
    imported = _tightest_import(workload)
    delayed = [point for point in workload.tried if _is_delayed(point)]
    started = delayed[-1] if workload.has_steady and workload.unlimited and delayed else None
    both = imported is not None and imported is started
    if imported:
        where = f"at {limit_label(imported)}"
        words = f"{where} importing its runtime takes {_longer(workload, imported, IMPORT)} longer"
        if both:
            words += f", and its first round {_longer(workload, imported, START)} longer"
        yield words + (one_trial_words(imported, START) if both else "")
    if started and not both:
        longer, once = _longer(workload, started, START), one_trial_words(started, START)
        yield f"its first round takes {longer} longer at {limit_label(started)}{once}"


def _is_delayed(point: PointFacts) -> bool:
    start = point.ratios.get(START)
    return start is not None and start.is_surely_more


def _at_tightest(point: PointFacts, pass_words: str) -> str:
    who = "any trial" if not point.finished else "it"
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
    each = f"each of the {point.unit or 'units'} takes " if point.throughput_per_s else ""
    return f"{words}: {each}{factor_words(ratio, slower)}."


def _down_to(workload: WorkloadFacts, timed: Sequence[PointFacts]) -> list[str]:
    """The limit down to which it is at most 10 % slower, and the next one if that is unclear."""
    found = workload.fast
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
    takes = f" it takes {times_as_long(ratio.median)}" if ratio.low is None else ""
    return [*said, f"At {where}{takes}: {why_unsure(ratio)}."]


def _pace(point: PointFacts) -> str:
    """``takes 3.2 s (3 trials, 3.1 s to 3.3 s)``, or ``does 41.2 tokens/s (…)``."""
    rate = point.throughput_per_s
    if rate is None:
        # Of a limit that one walk visited, rounds are the repeats.
        times = point.times_s["total"]
        return f"takes {spread_words(times, 'rounds' if times.count > point.made else 'trials')}"
    words = f"does {throughput_of(point)}"
    if rate.count < 2:
        return f"{words} (one trial)"
    return f"{words} ({rate.count} trials, {rate.low:.3g} to {rate.high:.3g})"


def _start(
    workload: WorkloadFacts, unlimited: PointFacts, timed: Sequence[PointFacts]
) -> list[str]:
    """The import where a limit surely slows it, and the first round if there are others."""
    return [*_import(workload, unlimited), *_first_round(workload, unlimited, timed)]


def _import(workload: WorkloadFacts, unlimited: PointFacts) -> Iterator[str]:
    slowest = _tightest_import(workload)
    if slowest:
        free, spread = (spread_words(one.times_s[IMPORT]) for one in (unlimited, slowest))
        yield (
            f"Importing its runtime takes {free}; at {limit_label(slowest)} {spread}: "
            f"{times_as_long(slowest.ratios[IMPORT].median)}."
        )


def _first_round(
    workload: WorkloadFacts, unlimited: PointFacts, timed: Sequence[PointFacts]
) -> list[str]:
    """The first round, where it is not the only one; and what the tightest limit does to it."""
    if not workload.has_rounds:
        return []
    if not workload.has_steady:
        return ["Only one round was run, so nothing is known of steady rounds."]
    words = spread_words(unlimited.times_s[START])
    said = [f"Its start, the first round after the import, takes {words}."]
    ratio = timed[-1].ratios.get(START) if timed else None
    if ratio is None:
        return said
    spread, where = spread_words(timed[-1].times_s[START]), limit_label(timed[-1])
    return [*said, f"At {where} the start takes {spread}: {factor_words(ratio)}."]


def _tightest_import(workload: WorkloadFacts) -> PointFacts | None:
    """The tightest limit at which the import surely takes longer, by more than a little."""
    ratios = [(point, point.ratios.get(IMPORT)) for point in workload.tried]
    found = [p for p, ratio in ratios if ratio and ratio.is_more and ratio.median > SLIGHT]
    return found[-1] if found and workload.unlimited else None


def _longer(workload: WorkloadFacts, point: PointFacts, what: str) -> str:
    assert workload.unlimited
    return format_duration(point.times_s[what].median - workload.unlimited.times_s[what].median)
