"""docs/explanation/kernel-report.md."""

from __future__ import annotations

from collections.abc import Iterator

from claims.pages.observer_effect import HERE, rows
from claims.texts import Claim, says

PAGE = "docs/explanation/kernel-report.md"


def claims() -> Iterator[Claim]:
    """The one kill; both kinds of lists are empty but one."""
    (kill,) = rows(HERE, "lists")
    lists, events = kill["printed"], kill["events"]
    assert not lists["inactive_anon"] + lists["active_file"] + lists["inactive_file"]
    assert not events["scans of an inactive list"] + events["scans of an active list"]
    yield says("Trace of one kill: {} attempts at reclaim", events["attempts at reclaim"])
