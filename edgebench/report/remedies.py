"""The remedies that a search tried, ranked: a table for the report and the page."""

from __future__ import annotations

from edgebench.report.content import ReportTable
from edgebench.results.advice_file import KeptAdvice, TriedRemedy
from edgebench.units import format_duration
from edgebench.words.outcomes import outcome_words

#: Ends of a remedy that mean something else here than of a trial.
_ENDS = {"timeout": "slower", "changed": "other results"}
_NOTHING = "–"


def remedies_table(advice: KeptAdvice) -> ReportTable:
    """One row for each that was tried, the fastest first; below it what to type."""
    columns = ("remedy", "time", "90 % interval", "trials", "may change")
    typed = "; ".join(advice.typed)
    note = "Time with the remedy as a part of the plain time, under the limit."
    return ReportTable(
        "Remedies",
        columns,
        [_remedy_row(one) for one in advice.tried],
        frozenset({1, 3}),
        f"{note} To type or write: {typed}" if typed else note,
    )


def _remedy_row(one: TriedRemedy) -> list[str]:
    known = one.end == "ok" and one.low is not None and one.high is not None
    between = f"{one.low:.2f} to {one.high:.2f}" if known else _NOTHING
    return [one.name, remedy_time(one), between, str(one.trials), one.changes or _NOTHING]


def remedy_time(one: TriedRemedy) -> str:
    """``×0.30`` of the plain time; seconds where plain has none; or how it ended."""
    if one.end != "ok":
        return _ENDS.get(one.end) or outcome_words(one.end).brief
    if one.ratio is not None:
        return f"×{one.ratio:.2f}"
    return format_duration(one.seconds) if one.seconds is not None else "finished"
