"""docs/explanation/kernel-report.md."""

from __future__ import annotations

from collections.abc import Iterator

from claims.kept import figures
from claims.pages.observer_effect import (
    EMULATED,
    HERE,
    V2,
    Row,
    code,
    count,
    numbers,
    rows,
    side_by_side,
    tries,
)
from claims.texts import Claim, says, table

PAGE = "docs/explanation/kernel-report.md"


def claims() -> Iterator[Claim]:
    """Kills by interval; the one kill, where both kinds of lists are empty but one."""
    by_interval = rows(HERE, "interval"), rows(V2, "interval")
    whats = [row["what"] for row in by_interval[0]]
    yield table("by how often the file is read:", side_by_side(*by_interval, whats))
    seldom = figures(HERE)["seldom"]
    yield says(
        "killed unread (under {} MiB, {} tries each",
        f"{seldom['limit_mib']:.0f}",
        tries(seldom["rows"]),
    )
    yield table("Fisher's exact test against", [_by_chance(row) for row in seldom["rows"]])
    (two_lists,) = (row for row in rows(EMULATED, "kinds") if row["what"] == "two lists")
    yield says(
        "the reproducer was killed in {} of {} tries, in an emulated",
        *numbers([two_lists]),
    )
    (kill,) = rows(HERE, "lists")
    lists, events = kill["printed"], kill["events"]
    assert not lists["inactive_anon"] + lists["active_file"] + lists["inactive_file"]
    assert not events["scans of an inactive list"] + events["scans of an active list"]
    yield says("Trace of one kill: {} attempts at reclaim", events["attempts at reclaim"])


def _by_chance(row: Row) -> list[str]:
    """What was read, kills, and how probable such a difference from nothing is by chance."""
    return [code(row["what"]), count(row), f"{row['p']:.2g}" if "p" in row else "-"]
