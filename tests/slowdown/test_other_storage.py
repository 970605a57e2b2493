"""Predictions for a storage on which nothing was run, where no bytes were counted."""

from __future__ import annotations

from pathlib import Path

import pytest
from verb_making import calibration, run

from edgebench.boards.storage import StorageSpeed
from edgebench.cli.predict import predict
from edgebench.errors import ResultsError
from edgebench.slowdown.answer import PhaseTime
from edgebench.slowdown.context import Context, DeviceData
from edgebench.slowdown.other_storage import WIDER, data_at
from edgebench.slowdown.prediction_source import PredictionSource, at_storage, source_of
from edgebench.slowdown.query import workload_query

QUERY = workload_query("resnet18", "bulk")
SLOW, FAST = (StorageSpeed(read_bps=speed * 1_000_000) for speed in (5, 250))


@pytest.fixture(scope="module")
def source(root: Path) -> PredictionSource:
    """What is known of the measured device."""
    return source_of(root, QUERY)


def total(source: PredictionSource, limit: str, storage: StorageSpeed) -> PhaseTime:
    """The whole round at one limit, with that storage."""
    (one,) = at_storage(source, storage).predict(QUERY, [limit])
    return next(time for time in one.at[0].phases if time.phase == "total")


@pytest.mark.heavy
def test_slower_storage_is_slower(source: PredictionSource):
    """Unlimited times are those that were measured."""
    slow, fast = (total(source, "90M", storage) for storage in (SLOW, FAST))
    assert slow.slowdown > 2 * fast.slowdown > 2
    assert slow.unlimited_s == fast.unlimited_s


def test_the_interval_is_wider_than_here(source: PredictionSource):
    """Where nothing is slowed it is the measured storage's reach, so many times as wide."""
    there = total(source, "400M", FAST)
    assert there.low_s is not None
    assert there.high_s is not None
    assert there.high_s / there.low_s > WIDER
    assert there.low_s < there.seconds < there.high_s


def test_a_speed_declared_here_is_not_the_others():
    """Constants of trials whose storage was held are those of the disk, not of the holding."""
    held = calibration().held_to(StorageSpeed(read_bps=20_000_000))
    here = DeviceData("jetson-nano", "file", (), Context({}, held))
    there = data_at(here, SLOW).context.calibration
    assert there is not None
    assert there.held is not None
    assert there.held.storage == SLOW.label


def test_without_constants_it_says_what_to_type():
    """No calibration, and no trial that tells the runtime's footprint."""
    with pytest.raises(ResultsError, match="edgebench calibrate"):
        data_at(DeviceData("jetson-nano", "file", (), Context({})), SLOW)


@pytest.mark.heavy
def test_nothing_was_run_there_and_that_is_said(root: Path):
    """Beside the answer, and in it."""
    words = ("resnet18", "--schedule", "bulk", "--memory", "90M", "--storage", SLOW.label)
    told = " ".join(run(predict, "--results", root, *words).split())
    assert "at storage read=5MB/s, where nothing was run" in told
    assert "nothing was run at that speed" in told
