"""What a run on a fleet shows while it goes on: lines on stderr."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from edgebench.text import printable
from edgebench.units import format_duration

if TYPE_CHECKING:
    from edgebench.fleet.groups import MachineGroup
    from edgebench.records import TrialRecord

#: How often the counts are printed.
_EVERY_S = 10.0


class FleetLines:
    """Prints what stays, and now and then how far each sweep is; ``verbose``: every trial."""

    def __init__(self, verbose: bool) -> None:
        self._verbose = verbose
        self._counts: dict[str, str] = {}
        self._shown_s = time.monotonic()

    def tell(self, text: str) -> None:
        """Something that stays."""
        click.echo(printable(text), err=True)

    def made(self, group: MachineGroup, record: TrialRecord) -> None:
        """A trial is recorded."""
        assert group.sweep
        self._counts[group.device] = f"{group.device} {group.sweep.done}/{group.sweep.total}"
        if self._verbose:
            took = f" {format_duration(record.wall_s)}" if record.wall_s is not None else ""
            limit = record.limits.label
            self.tell(f"{record.machine}: trial {record.trial} at {limit}: {record.outcome}{took}")
        now = time.monotonic()
        if now - self._shown_s >= _EVERY_S:
            self._shown_s = now
            self.tell(f"trials: {', '.join(self._counts.values())}")
