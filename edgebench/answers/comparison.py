"""How two sweeps compare: a headline over all times, and a row for each point and quantity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgebench.answers.table import Table, factor, filled_table, headline, seconds, share, size
from edgebench.results.workload_key import brief_names
from edgebench.text import THROUGHPUT, throughput_words

if TYPE_CHECKING:
    from edgebench.analysis.comparison import PointComparison, SweepComparison

#: What is compared, where a reader knows it by another word.
_WHAT = {"total": "", "demand": "needs", "viable": "finished"}
#: The smallest changes that users usually want to detect.
_WANTED = (0.1, 0.05)


def comparison_headline(compared: SweepComparison) -> str:
    """``1.02x over 40 times (0.99 to 1.04), same   38 same, 2 slower``."""
    counts = Counter(row.verdict for row in compared.rows)
    listed = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
    return headline(_overall(compared), listed)


def _overall(compared: SweepComparison) -> str:
    if (overall := compared.overall) is None:
        return ""
    between = f"{overall.ratio_low:.2f} to {overall.ratio_high:.2f}"
    times = f"{factor(overall.ratio)} over {overall.times} times ({between})"
    return f"{times}, {overall.verdict}"


def regression_words(compared: SweepComparison) -> str:
    """Why the new sweep is refused: all times together, or how many comparisons got worse."""
    if compared.overall is not None and not compared.regressions:
        return _overall(compared)
    return f"{len(compared.regressions)} of {len(compared.rows)} comparisons are regressions"


def comparison_table(rows: Sequence[PointComparison], among: Sequence[PointComparison]) -> Table:
    """Make the table of some comparisons among all."""
    names = brief_names(row.workload for row in among)
    cells, swaps = [], {row.limits.swap_kind for row in among}
    for row in rows:
        what = f" {_WHAT.get(row.quantity, row.quantity)}".rstrip()
        swap = f" {row.limits.swap_kind}" if len(swaps) > 1 else ""
        limit = "none" if row.limits.label == "max" else row.limits.label
        old, new, ratio = _values(row)
        chance = "" if row.p is None else f"{row.p:.2g}"
        point = f"{names[row.workload]} {limit}{swap}{what}"
        cells.append([point, old, new, ratio, row.verdict, chance])
    return filled_table(("point", "old", "new", "ratio", "verdict", "p"), cells, "point", "verdict")


def _values(row: PointComparison) -> tuple[str, str, str]:
    if row.quantity == "viable":
        old, new = (
            f"{part * count:.0f}/{count}"
            for part, count in ((row.a, row.repeats_a), (row.b, row.repeats_b))
        )
        return old, new, ""
    if row.quantity == THROUGHPUT:
        old, new = (throughput_words(number, row.unit) for number in (row.a, row.b))
    else:
        form = size if row.quantity == "demand" else seconds
        old, new = form(row.a), form(row.b)
    return old, new, factor(row.ratio)


def least_changes(compared: SweepComparison) -> list[str]:
    """Return the smallest change that these repeats show, and how many show a usual one."""
    lines = []
    overall = compared.overall.least_ratio if compared.overall else None
    known = ("of all times", overall), ("of half of the times", compared.least_times_ratio)
    for what, least in known:
        if least is not None:
            wanted = {p: compared.repeats_for(1 + p, least) for p in _WANTED if least > 1 + p}
            more = [f", {share(part)} with {repeats} repeats" for part, repeats in wanted.items()]
            lines.append(f"least change shown {what}: {share(least - 1)}{''.join(more)}")
    return lines
