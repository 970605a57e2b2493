"""A few cases of what :mod:`tests.trust.hostile` tries by the hundred."""

from __future__ import annotations

import pytest

from edgebench.run.sweep import trials
from edgebench.run.trial import command
from edgebench.serve import app
from tests.results.damaged_records import VERBS
from tests.trust import hostile


@pytest.mark.quick
@pytest.mark.process
@pytest.mark.promise(
    "Scenarios, results, heap dumps, calibrations and cgroup files with any content are read, "
    "or refused with a message."
)
@pytest.mark.parametrize(("kind", "cases"), [("results", 2), ("scenarios", 8), ("commands", 6)])
def test_what_is_hostile_ends_in_words(
    monkeypatch: pytest.MonkeyPatch, kind: str, cases: int
) -> None:
    """No traceback, no case over a minute of CPU, none over 500 MiB; what draws is left out."""
    light = {verb: words for verb, words in VERBS.items() if verb not in ("plot", "report")}
    monkeypatch.setattr(hostile, "VERBS", light)
    for module, name in (
        (command, "open_session"),
        (trials, "open_session"),
        (app, "make_server"),
    ):
        monkeypatch.setattr(module, name, hostile.refuse)
    assert hostile.faults(getattr(hostile, kind), 0, cases) == []
