"""What watching does, as a table: kills with intervals, and ratios in pairs of one block."""

from __future__ import annotations

import contextlib
import json
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import report
from observer.watched_process import NOTHING, Row
from pairing import interval

from edgebench.text import format_size


def jeffreys(killed: int, of: int) -> tuple[float, float]:
    """95 % of the beta distribution with a prior of (½, ½)."""
    from scipy import stats

    low, high = stats.beta.ppf([0.025, 0.975], killed + 0.5, of - killed + 0.5)
    return (0.0 if killed == 0 else float(low)), (1.0 if killed == of else float(high))


def rate_ratio(mine: tuple[int, int], none: tuple[int, int]) -> str:
    """Killed of so many ÷ killed of so many unwatched: 95 % of draws from both rates' betas."""
    import numpy as np

    rng = np.random.default_rng(1)
    draws = [rng.beta(k + 0.5, n - k + 0.5, 100_000) for k, n in (mine, none)]
    low, high = np.quantile(draws[0] / draws[1], [0.025, 0.975])
    return f"{low:.2f} to {high:.2f}"


def seconds_of(row: Row) -> float | None:
    """Of one round, the mean; of a workload that tells none, of the whole process."""
    if row["outcome"] != "ok":
        return None
    return statistics.fmean(row["round_s"]) if row.get("round_s") else float(row["wall_s"])


def ratios(rows: Sequence[Row], limit: int, arm: str, of: Callable[[Row], Any]) -> list[float]:
    """A figure of an arm ÷ the same with nothing watched, of each block where both tell it."""
    found = {(row["block"], row["arm"]): of(row) for row in rows if row["limit_bytes"] == limit}
    pairs = [(found.get((b, arm)), found.get((b, NOTHING))) for b in sorted({b for b, _ in found})]
    return [mine / none for mine, none in pairs if mine and none]


def _ratio(values: list[float]) -> str:
    if len(values) < 2:
        return "–"
    low, high = interval(values)
    return f"{statistics.median(values):.3f} ({low:.3f} to {high:.3f}; {len(values)})"


def _survivor(key: str) -> Callable[[Row], Any]:
    return lambda row: row[key] if row["outcome"] == "ok" else None


def _killed(rows: Sequence[Row], limit: int, arm: str) -> tuple[int, int]:
    """How many of how many were killed; what timed out or failed is no answer."""
    own = [r["outcome"] for r in rows if (r["limit_bytes"], r["arm"]) == (limit, arm)]
    return own.count("killed"), own.count("killed") + own.count("ok")


def table(rows: Sequence[Row], arms: Sequence[str]) -> tuple[list[str], list[list[Any]]]:
    """A row for each limit and arm."""
    header = ["limit", "watched by", "killed", "rate", "95 % (Jeffreys)", "÷ unwatched (95 %)"]
    header += ["timed out, failed"]
    header += ["seconds a round ÷ unwatched (95 %; pairs)", "major faults ÷", "refaults ÷"]
    made: list[list[Any]] = []
    for limit in sorted({row["limit_bytes"] for row in rows}):
        none = _killed(rows, limit, NOTHING)
        for arm in arms:
            own = [r for r in rows if (r["limit_bytes"], r["arm"]) == (limit, arm)]
            killed, judged = _killed(rows, limit, arm)
            if not judged:
                continue
            low, high = jeffreys(killed, judged)
            figures = [seconds_of, _survivor("major_faults"), _survivor("refault_anon")]
            ratio = rate_ratio((killed, judged), none) if none[1] else "–"
            ratio = "1" if arm == NOTHING else ratio
            figures = [seconds_of, _survivor("major_faults"), _survivor("refault_anon")]
            made.append([
                format_size(limit), arm, f"{killed} of {judged}", f"{killed / judged:.2f}",
                f"{low:.2f} to {high:.2f}", ratio, len(own) - judged,
                *("1" if arm == NOTHING else _ratio(ratios(rows, limit, arm, f)) for f in figures),
            ])  # fmt: skip
    return header, made


class Kept:
    """The rows of a benchmark, on the disk after each process.

    Raises:
        SystemExit: rows of other options are there.
    """

    def __init__(self, path: Path, about: dict[str, Any]) -> None:
        self._path, self._about = path, json.loads(json.dumps(about))
        self.rows: list[Row] = []
        if path.exists():
            kept = json.loads(path.read_text())["data"]
            if kept["about"] != self._about:
                sys.exit(f"{path} is of other options: {kept['about']}; name another: --name")
            self.rows = kept["rows"]

    def add(self, row: Row, arms: Sequence[str]) -> None:
        """Keep one row more, and the table of all."""
        self.rows.append(row)
        self.write(arms)

    def write(self, arms: Sequence[str]) -> None:
        """Write all of it."""
        header, made = table(self.rows, arms)
        says = (
            f"Processes of {self._about['workload']} killed under a limit, by how they were "
            "watched; seconds, faults and refaults of those that were not, in pairs of one block."
        )
        with contextlib.redirect_stdout(None):
            report.write(
                self._path.stem, says, header, made, {"about": self._about, "rows": self.rows}
            )
