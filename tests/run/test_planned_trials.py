"""The plan in a sweep's folder is data: it leads to nothing that the scenario does not have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edgebench.errors import ResultsError
from edgebench.run.sweep.sweep import planned_trials

WHOLE = {"trial": "0001", "point_id": "p001", "block": 0, "repeat": 0}


def read(plan: object) -> Any:
    return planned_trials(plan, Path("sweep"), {"p001"}, ["massif"])


def test_a_plan_of_the_scenario_is_read():
    timed, own = read([WHOLE, {**WHOLE, "trial": "0002", "strategy": "massif", "timeout_s": 9}])
    assert (timed.strategy, timed.walk, own.strategy, own.timeout_s) == (None, False, "massif", 9)


@pytest.mark.promise("Nothing in a results folder leads a resumed sweep to run anything else.")
@pytest.mark.parametrize(
    "plan",
    [
        *(None, {}, "x", [1], [{}]),
        *([{**WHOLE, "block": "x"}], [{**WHOLE, "timeout_s": "x"}], [{**WHOLE, "trial": 1}]),
        [{**WHOLE, "point_id": "p002"}],
        [{**WHOLE, "strategy": "tcmalloc"}],
    ],
)
def test_another_plan_is_refused_in_words(plan: object):
    """Damaged, of other points, or with a strategy, a program to run, that was not asked for."""
    with pytest.raises(ResultsError, match="not of this scenario"):
        read(plan)
