"""What helps under a limit: a headline, a row for each remedy that was tried, and what to type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgebench.answers.table import (
    Table,
    factor,
    filled_table,
    headline,
    seconds,
    size,
    time_cells,
)
from edgebench.answers.trials import end_word
from edgebench.text import printable, shortened

if TYPE_CHECKING:
    from edgebench.results.derived import KeptAdvice
    from edgebench.run.advise.advice import Advice

_ENDS = {"timeout": "stopped", "changed": "other results"}


def advice_headline(found: Advice | KeptAdvice) -> str:
    """``python3 train.py at 250 MiB   56 s as it is (1.30x)   7 trials, 6 min 42 s``."""
    plain = end_word(found.plain_end)
    if found.plain_s is not None:
        slower = f" ({factor(found.slowdown)})" if found.slowdown else ""
        plain = f"{seconds(found.plain_s)} as it is{slower}"
    took = f"{found.trials} trials, {seconds(found.total_s)}"
    name = shortened(printable(found.name))
    idle = "" if found.pressed else "the limit costs nothing: no remedy was tried"
    return headline(f"{name} at {size(found.limit_bytes)}", plain, idle, took)


def advice_table(found: Advice | KeptAdvice) -> Table:
    """Make the table of remedies, the fastest first; the one that is advised is marked."""
    best = found.best if found.best and found.best.confirmed else None
    times = time_cells([one.seconds or one.stopped_s for one in found.tried])
    rows = []
    for one, time in zip(found.tried, times, strict=True):
        is_best = best is not None and one.name == best.name
        ratio = best.ratio if is_best and best and best.ratio else one.ratio
        counted = best if is_best and best else one
        ended = "" if one.end == "ok" else _ENDS.get(one.end) or end_word(one.end)
        change = f"may change {one.changes}" if one.changes else ""
        mark = "<- " + "; ".join(best.typed) if is_best and best else ended or change
        ok, late = f"{counted.finished}/{counted.trials}", ">" * bool(one.stopped_s)
        rows.append([one.name, late + time, f"{ratio:.2f}x" if ratio else "", ok, mark])
    return filled_table(("remedy", "time", "of that", "ok", ""), rows, "remedy", "")
