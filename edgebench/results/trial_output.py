"""What a trial's workload printed, as its log has it."""

from __future__ import annotations

from pathlib import Path

from edgebench.results.layout import LOGS
from edgebench.safe_reading import read_end
from edgebench.text import printable

#: How much of it is read.
_END_BYTES = 4096


def log_of(sweep: Path, trial: str) -> Path:
    """The trial's log, in the sweep's folder."""
    return sweep / LOGS / f"{trial}.log"


def end_of_output(sweep: Path, trial: str) -> str:
    """The end of the trial's output, safe to print; empty if it can't be read."""
    try:
        return printable(read_end(log_of(sweep, trial), _END_BYTES).decode(errors="replace"))
    except OSError:
        return ""
