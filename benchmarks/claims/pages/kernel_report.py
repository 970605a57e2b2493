"""docs/explanation/kernel-report.md."""

from __future__ import annotations

from collections.abc import Iterator

from claims.pages.observer_effect import HERE, V2, killed, rows
from claims.texts import Claim, says, table

PAGE = "docs/explanation/kernel-report.md"


def claims() -> Iterator[Claim]:
    """Kills by interval; the one kill, where both kinds of lists are empty but one."""
    yield table("by how often the file is read:", killed(rows(HERE, "interval")))
    often = {row["what"]: row for row in rows(HERE, "rounds")}
    told = [
        often[what] for what in ("nothing", "memory.stat every 10 ms", "memory.stat every 100 ms")
    ]
    yield says(
        "killed in {} of {} tries unread, {} of {} with every 10 ms, {} of {} with every 100 ms",
        *(number for row in told for number in (row["killed"], row["tries"])),
    )
    (two_lists,) = (row for row in rows(V2, "kinds") if row["what"] == "two lists")
    yield says(
        "the reproducer was killed in {} of {} tries, in an emulated",
        *(two_lists["killed"], two_lists["tries"]),
    )
    (kill,) = rows(HERE, "lists")
    lists, events = kill["printed"], kill["events"]
    assert not lists["inactive_anon"] + lists["active_file"] + lists["inactive_file"]
    assert not events["scans of an inactive list"] + events["scans of an active list"]
    yield says("Trace of one kill: {} attempts at reclaim", events["attempts at reclaim"])
