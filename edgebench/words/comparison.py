"""Sentences on how two sweeps, or several devices, compare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from edgebench.results.watched import Watched
from edgebench.results.workload_key import brief_names
from edgebench.text import as_sentence
from edgebench.units import format_duration

if TYPE_CHECKING:
    from edgebench.analysis.comparison import (
        OverallComparison,
        PointComparison,
        SweepComparison,
    )
    from edgebench.analysis.devices import DevicesRow, EnoughAnswer

#: How the sentence about all times ends.
_OVERALL = {"same": "no change above the threshold", "unsure": "too uncertain to call a change"}
#: More points of one sweep alone are counted.
_MOST_POINTS = 4
#: The smallest changes that users usually want to detect.
WANTED = (0.1, 0.05)


def comparison_sentences(compared: SweepComparison) -> list[str]:
    """The answer over all times, where there is one, and that of single ones."""
    first = [] if compared.overall is None else [overall_sentence(compared.overall)]
    return [*first, _answer(compared)]


def overall_sentence(overall: OverallComparison) -> str:
    """How many times as long b takes as a whole, with the interval."""
    verdict = _OVERALL.get(overall.verdict, overall.verdict)
    return (
        f"Over all {overall.times} times compared, b takes {overall.ratio:.2f} times as long as "
        f"a ({overall.ratio_low:.2f} to {overall.ratio_high:.2f}): {verdict}."
    )


def regression_words(compared: SweepComparison) -> str:
    """Why b is refused: how many comparisons got worse, or all times together."""
    if compared.overall is not None and not compared.regressions:
        return overall_sentence(compared.overall).rstrip(".")
    return f"{len(compared.regressions)} of {len(compared.rows)} comparisons are regressions"


def _answer(compared: SweepComparison) -> str:
    """What got worse and the worst of it; else that nothing did, and how much can't be told."""
    counts = Counter(row.verdict for row in compared.rows)
    total, worse = len(compared.rows), compared.regressions
    if worse:
        found = max(worse, key=lambda row: row.factor)
        factor = f", {found.ratio:.3g}×" if found.ratio else ""
        name = brief_names(row.workload for row in compared.rows)[found.workload]
        what = f"{quantity_word(found, compared.rows)} {found.verdict}"
        where = f"{name} at {found.limits.label}: {what}{factor}"
        return f"b is worse than a in {len(worse)} of {total} comparisons; most: {where}."
    unsure = f"; {counts['unsure']} can't be told: repeats differ too much"
    better = total - counts["same"] - counts["unsure"]
    nothing = "no single one got worse" if compared.is_slower_overall else "nothing got worse"
    words = f"{nothing} in {total} comparisons: {counts['same']} same, {better} better"
    words += unsure if counts["unsure"] else ""
    return as_sentence(words)


def quantity_word(row: PointComparison, among: Sequence[PointComparison]) -> str:
    """``total`` as ``steady`` where there is a start beside it."""
    starts = {(one.workload, one.limits) for one in among if one.quantity == "start"}
    is_steady = row.quantity == "total" and (row.workload, row.limits) in starts
    return "steady" if is_steady else row.quantity


def comparison_notes(compared: SweepComparison, verbose: bool) -> list[str]:
    """What stands below the tables: counts, what is in one sweep alone, how machines differ."""
    counts = Counter(row.verdict for row in compared.rows)
    lines = ["", ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))]
    if counts["unsure"]:
        lines.append("unsure: the repeats differ too much to tell; raise `repeats` in the scenario")
    if verbose:
        lines += _smallest_change(compared)
    for name, points in (("a", compared.only_a), ("b", compared.only_b)):
        if points and (verbose or len(points) <= _MOST_POINTS):
            lines.append(f"only in {name}: {'; '.join(points)}")
        elif points:
            lines.append(f"only in {name}: {len(points)} points (--verbose lists them)")
    return lines + [f"the machines differ: {words}" for words in compared.machine]


def _smallest_change(compared: SweepComparison) -> list[str]:
    """The smallest change that these repeats can show, so that "same" isn't overrated."""
    lines, overall = [], compared.overall
    if overall is not None:
        lines.append(
            f"with these repeats, all times together would show a change of "
            f"{overall.least_ratio - 1:.0%}"
        )
        lines += _needed(" of all times", overall.least_ratio, compared.repeats_for_all)
    if (least := compared.least_times_ratio) is not None:
        lines.append(
            f"with these repeats, half of the times would show a change of {least - 1:.0%}"
        )
        lines += _needed("", least, compared.repeats_for)
    return lines


def _needed(of: str, least: float, repeats_for: Callable[[float], int | None]) -> Iterator[str]:
    """How many repeats it takes to find the smallest changes that users want to detect."""
    for wanted in WANTED:
        if least > 1 + wanted:
            repeats = repeats_for(1 + wanted)
            yield f"to show a change{of} of {wanted:.0%}, about {repeats} repeats are needed"


def watched_differently_sentence(a: Watched, b: Watched) -> str:
    """That two sweeps were watched differently, which changes kills."""
    return (
        f"trials under a limit were watched differently (a: {a}, b: {b}): reading memory.stat "
        "while a trial runs can prevent kills, so least viable limits may differ by it"
    )


def device_sentences(
    rows: Sequence[DevicesRow], answers: Sequence[EnoughAnswer], within_s: float | None
) -> list[str]:
    """Which devices are fast enough for each workload; without a time, how much is compared."""
    if within_s is None:
        devices = len({point.device for row in rows for point in row.points})
        return [f"{devices} devices, {len(rows)} points that at least two of them have."]
    sentences = []
    for workload in dict.fromkeys(one.workload for one in answers):
        fast = [one for one in answers if one.workload == workload and one.seconds is not None]
        words = f"within {format_duration(within_s)}"
        names = ", ".join(one.device for one in fast)
        enough = (
            f"fast enough ({words}): {names}" if fast else f"no device is fast enough ({words})"
        )
        sentences.append(f"{workload}: {enough}.")
    return sentences
