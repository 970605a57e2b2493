"""The search for the largest batch, against limits made up: few trials, both ends confirmed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from edgebench.records import LimitSetting, TrialRecord
from edgebench.run.batch import candidates
from edgebench.run.search import BatchSearch, LargestBatch
from edgebench.scenario.points import PlannedTrial, Point

LIMIT = LimitSetting("1G", 1 << 30)


def searched(
    fits: Callable[[int, int], bool], most: int = 1024
) -> tuple[LargestBatch, list[PlannedTrial]]:
    """What is found where a batch's trial (its number from 0) fits so, and all that was planned."""
    made = [Point(f"p{n}", {"batch": n}, LIMIT) for n in candidates(most)]
    planner = BatchSearch(made)
    planned, records = planner.first(), dict[str, TrialRecord]()
    new = planned
    while new:
        for one in new:
            batch = int(one.point_id[1:])
            outcome = "ok" if fits(batch, one.repeat) else "oom-killed"
            records[one.trial] = TrialRecord(
                *(one.trial, one.point_id, one.block, one.repeat, {"batch": batch}, LIMIT),
                outcome,
                "2026-01-01T00:00:00Z",
            )
        assert len(planned) < 60
        new = planner.further(planned, records)
        planned = [*planned, *new]
    return planner.found(planned, records), planned


@pytest.mark.parametrize("largest", [1, 2, 7, 8, 9, 37, 63, 64])
def test_it_finds_the_largest_batch(largest: int):
    """Exactly, up to 64, with both ends seen twice."""
    found, planned = searched(lambda batch, _: batch <= largest)
    assert found.fits
    assert found.too_large
    assert (found.fits.batch, found.fits.trials) == (largest, 2)
    assert found.too_large.batch - largest <= 2
    assert found.too_large.trials == 2
    assert len(planned) <= 16


def test_larger_ones_are_found_within_three_percent():
    """Above 64 the two ends lie that close."""
    found, _ = searched(lambda batch, _: batch <= 500)
    assert found.fits
    assert found.too_large
    assert found.fits.batch <= 500 < found.too_large.batch <= 1.035 * found.fits.batch


def test_none_fits_and_all_fit():
    """Then one end is missing, and the other confirmed."""
    none, _ = searched(lambda batch, _: False)
    every, _ = searched(lambda batch, _: True, most=100)
    assert none.fits is None
    assert none.too_large
    assert none.too_large.batch == 1
    assert every.too_large is None
    assert every.fits
    assert (every.fits.batch, every.fits.trials) == (max(candidates(100)), 2)


def test_a_batch_that_fits_only_sometimes_does_not_fit():
    """When its second trial is killed, the answer is a smaller one."""
    found, _ = searched(lambda batch, repeat: batch <= 20 or (batch <= 23 and repeat == 0))
    assert found.fits
    assert found.fits.batch == 20
