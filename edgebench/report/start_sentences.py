"""Sentences on what happens once in a process: the import of its runtime, and its first round.

A walk imports without a limit, so only fresh trials show what an import below one takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from edgebench.report.slowness import factor_words, is_surely_more, one_trial_words
from edgebench.report.workload import WorkloadPoints, limit_label, spread_words
from edgebench.results.spread import SLIGHT
from edgebench.results.stages import START
from edgebench.results.summary import PointSummary
from edgebench.results.trial_lines import IMPORT
from edgebench.units import format_duration, times_as_long


def later_start_words(workload: WorkloadPoints) -> Iterator[str]:
    """How much longer import and first round take, each at the tightest limit that delays it."""
    imported = _tightest_import(workload)
    delayed = [point for point in workload.tried if is_surely_more(point.ratios.get(START))]
    started = delayed[-1] if workload.has_steady and workload.unlimited and delayed else None
    both = imported is not None and imported is started
    if imported:
        words = f"importing its runtime takes {_longer(workload, imported, IMPORT)}"
        if both:
            words += f" and its first round {_longer(workload, imported, START)}"
        once = one_trial_words(imported, START) if both else ""
        yield f"{words} longer at {limit_label(imported)}{once}"
    if started and not both:
        longer, once = _longer(workload, started, START), one_trial_words(started, START)
        yield f"its first round takes {longer} longer at {limit_label(started)}{once}"


def start_sentences(
    workload: WorkloadPoints, unlimited: PointSummary, timed: Sequence[PointSummary]
) -> list[str]:
    """The import where a limit surely slows it, and the first round if there are others."""
    return [*_import(workload, unlimited), *_first_round(workload, unlimited, timed)]


def _import(workload: WorkloadPoints, unlimited: PointSummary) -> Iterator[str]:
    slowest = _tightest_import(workload)
    if slowest:
        free, spread = (spread_words(one.times_s[IMPORT]) for one in (unlimited, slowest))
        yield (
            f"Importing its runtime takes {free}; at {limit_label(slowest)} {spread}: "
            f"{times_as_long(slowest.ratios[IMPORT].median)}."
        )


def _first_round(
    workload: WorkloadPoints, unlimited: PointSummary, timed: Sequence[PointSummary]
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


def _tightest_import(workload: WorkloadPoints) -> PointSummary | None:
    """The tightest limit at which the import surely takes longer, by more than a little."""
    ratios = [(point, point.ratios.get(IMPORT)) for point in workload.tried]
    found = [p for p, ratio in ratios if ratio and ratio.is_more and ratio.median > SLIGHT]
    return found[-1] if found and workload.unlimited else None


def _longer(workload: WorkloadPoints, point: PointSummary, what: str) -> str:
    assert workload.unlimited
    return format_duration(point.times_s[what].median - workload.unlimited.times_s[what].median)
