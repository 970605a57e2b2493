"""A kept sweep played back: its trials shown again, faster than they were measured."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from edgebench import results
from edgebench.records import TrialRecord
from edgebench.results.folder import ResultsFolder
from edgebench.results.sweep_reader import Sweep
from edgebench.run.trial_loop import Progress
from edgebench.run.trial_record import TrialRequest

#: The sweep that the package brings along, without its samples.
SHIPPED = Path(results.__file__).parent / "replayed"


def replay(sweep: Sweep, progress: Progress, seconds: float) -> None:
    """Show each trial in its turn, all of them in so many seconds; nothing runs."""
    records = list(sweep.records)
    progress.begin(sweep.path, len(records), 0)
    for record, pause_s in _paced(records, seconds):
        progress.trial(_request_of(record))
        time.sleep(pause_s)
        progress.finished(record)


def replay_into(sweep: Sweep, root: Path, seconds: float) -> Path:
    """Write the sweep again below ``root``, record by record, for a page that follows it.

    Returns:
        The new sweep's folder.

    Raises:
        ResultsError: the root can't be written.
    """
    about = sweep.environment
    scenario = "replayed"
    with ResultsFolder.create(root, sweep.device, scenario, "", sweep.resolved, about) as folder:
        for record, pause_s in _paced(list(sweep.records), seconds):
            time.sleep(pause_s)
            folder.append(record)
        folder.finish({"trials": len(sweep.records)})
        return folder.path


def measured_s(sweep: Sweep) -> float:
    """How long the trials took when they were measured."""
    return sum(map(_took_s, sweep.records))


def _paced(records: Sequence[TrialRecord], seconds: float) -> Iterator[tuple[TrialRecord, float]]:
    """Each record, and how long its trial is shown: its share of the whole."""
    whole = sum(map(_took_s, records)) or 1.0
    for record in records:
        yield record, seconds * _took_s(record) / whole


def _took_s(record: TrialRecord) -> float:
    return (record.wall_s or 0.0) + (record.harness_s or 0.0)


def _request_of(record: TrialRecord) -> TrialRequest:
    return TrialRequest(
        *(record.trial, record.point, record.block, record.repeat, record.settings, record.limits),
        strategy=record.strategy,
    )
