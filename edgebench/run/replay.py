"""A kept sweep played back: its trials shown again, faster than they were measured."""

from __future__ import annotations

import time
from pathlib import Path

from edgebench import results
from edgebench.records import TrialRecord
from edgebench.results.sweep_reader import Sweep
from edgebench.run.trial_loop import Progress
from edgebench.run.trial_record import TrialRequest

#: The sweep that the package brings along, without its samples.
SHIPPED = Path(results.__file__).parent / "replayed"


def replay(sweep: Sweep, progress: Progress, seconds: float) -> None:
    """Show each trial in its turn, all of them in so many seconds; nothing runs."""
    records = list(sweep.records)
    whole = sum(map(_took_s, records)) or 1.0
    progress.begin(sweep.path, len(records), 0)
    for record in records:
        progress.trial(_request_of(record))
        # Each trial is shown for its share of the whole.
        time.sleep(seconds * _took_s(record) / whole)
        progress.finished(record)


def measured_s(sweep: Sweep) -> float:
    """How long the trials took when they were measured."""
    return sum(map(_took_s, sweep.records))


def _took_s(record: TrialRecord) -> float:
    return (record.wall_s or 0.0) + (record.harness_s or 0.0)


def _request_of(record: TrialRecord) -> TrialRequest:
    return TrialRequest(
        *(record.trial, record.point, record.block, record.repeat, record.settings, record.limits),
        strategy=record.strategy,
    )
