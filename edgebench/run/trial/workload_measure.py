"""What ``edgebench.measure`` does: one trial of a command or a Python function."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from edgebench.errors import UsageError
from edgebench.records import TrialRecord
from edgebench.run.search.asked_limits import AskedLimits
from edgebench.run.trial.command import measure_command, measure_once
from edgebench.run.trial.function import function_settings
from edgebench.run.trial.output_rate import echo_to
from edgebench.units import parse_duration

_REMEDY = 'give a command, as "python3 train.py" or ["python3", "train.py"], or a function'


def measure_workload(
    workload: str | Sequence[str] | Callable[[], object],
    asked: AskedLimits,
    *,
    timeout: str | float | None,
    interval: str | float | None,
    samples: str | Path | None,
    quiet: bool,
) -> TrialRecord:
    """One trial; for a share of the demand, an unlimited one before it.

    Raises:
        UsageError: neither a command nor a function that can be sent to another process.
        WorkloadError: its demand is unknown, so no share can be taken of it.
        MachineError, CgroupError: as :func:`edgebench.run.trial.command.measure_command` does.
    """
    measured = partial(
        _measured_by(workload),
        timeout_s=None if timeout is None else parse_duration(timeout),
        interval_s=None if interval is None else parse_duration(interval),
        echo=None if quiet else echo_to(sys.stderr),
    )
    limits, files = asked.setting, list[str]()
    if asked.share is not None:
        unlimited = measured(limits=asked.unlimited)
        limits = asked.resolved(unlimited)
        # The share is of a need that counts them.
        files = unlimited.files.paths if unlimited.files else []
    kept = None if samples is None else Path(samples)
    return measured(limits=limits, samples=kept, files=files)


def _measured_by(
    workload: str | Sequence[str] | Callable[[], object],
) -> Callable[..., TrialRecord]:
    if callable(workload):
        return partial(measure_once, partial(function_settings, workload))
    words = shlex.split(workload) if isinstance(workload, str) else [str(w) for w in workload]
    if not words:
        raise UsageError("no command to measure", remedy=_REMEDY)
    return partial(measure_command, words)
