"""One strategy's figure of one trial, as a ledger begins or ends with it."""

from __future__ import annotations

from edgebench.measures.ledger import Figure
from edgebench.measures.strategy import ErrorBar
from edgebench.reconciling.observed import Observed, SpanKey

_READ = ErrorBar(None, "read at the boundaries of spans")


def peak(trial: Observed, strategy: str) -> Figure | None:
    """The whole trial's peak as the strategy told it; None if it did not."""
    reading = trial.readings.get(strategy)
    if reading is None or reading.peak_bytes is None:
        return None
    return Figure(strategy, reading.peak_bytes, trial.record.trial, "peak", reading.error)


def at_moment(trial: Observed, strategy: str, size_bytes: int, where: str) -> Figure:
    """A figure read inside the trial."""
    reading = trial.readings.get(strategy)
    error = reading.span_error if reading else _READ
    return Figure(strategy, size_bytes, trial.record.trial, where, error)


def at_end(trial: Observed, strategy: str, key: SpanKey, end: bool = True) -> int | None:
    """What the strategy saw at the end of a span, or at its start."""
    reading = trial.span_reading(strategy, key)
    if reading is None:
        return None
    return reading.after_bytes if end else reading.before_bytes
