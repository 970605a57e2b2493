"""Reads what DAMON pages out of the machine's memory while a trial runs."""

from __future__ import annotations

import threading
import time

from msgspec.structs import replace

from edgebench.measures.machine.damon import (
    PAGE_OUT,
    Scheme,
    least_idle_s,
    paged_out_bytes,
    schemes,
)
from edgebench.measures.machine.system_files import SystemFiles, UnreadableError
from edgebench.records import Doubt, TrialRecord
from edgebench.units import MIB

KEY = "damon_paged_out_bytes"
#: A reading takes half a second, so shorter trials are not told of: no page of theirs was idle.
_LEAST_S = 5.0
_TOO_SHORT = f"it ran for less than {_LEAST_S:.0f} s, and its pages were not idle yet"


class DamonWatch:
    """Reads at both ends of a ``with`` block; then :meth:`told` completes the trial's record.

    The first reading is made beside the trial, by a thread that waits for the kernel.

    Args:
        machine: the machine's files.
        least_s: trials that are shorter are not read.
    """

    def __init__(self, machine: SystemFiles, least_s: float = _LEAST_S) -> None:
        self._machine, self._least_s = machine, least_s
        self._schemes: list[Scheme] = []
        self._before: int | UnreadableError | None = None
        self._paged_out: int | None = None
        self._missing: str | None = None
        self._lasted_s = self._began_s = 0.0
        self._thread = threading.Thread(target=self._begin, name="damon", daemon=True)

    def __enter__(self) -> DamonWatch:
        """Begin."""
        self._began_s = time.monotonic()
        self._schemes = [one for one in schemes(self._machine) if one.action == PAGE_OUT]
        if self._schemes:
            self._thread.start()
        return self

    def _begin(self) -> None:
        try:
            self._before = paged_out_bytes(self._machine, self._schemes)
        except UnreadableError as reason:
            self._before = reason

    def __exit__(self, *_: object) -> None:
        """End."""
        self._lasted_s = time.monotonic() - self._began_s
        if not self._schemes:
            return
        if self._lasted_s < self._least_s:
            self._missing = _TOO_SHORT
            return
        self._thread.join()
        try:
            if isinstance(self._before, UnreadableError):
                raise self._before
            now = paged_out_bytes(self._machine, self._schemes)
            self._paged_out = max(0, now - (self._before or 0))
        except UnreadableError as reason:
            self._missing = str(reason)

    def told(self, record: TrialRecord) -> TrialRecord:
        """The record with what was paged out, and a doubt if it may have been the trial's."""
        if self._missing:
            record = replace(record, missing={**record.missing, KEY: self._missing})
        idle_s = least_idle_s(self._schemes)
        numbers = {} if idle_s is None else {"idle_s": idle_s}
        doubts = list(record.doubts)
        if self._paged_out is not None and self._paged_out >= MIB:
            paged = {"paged_out_bytes": float(self._paged_out), **numbers}
            doubts.append(Doubt("damon_paged_out", paged))
        elif self._paged_out is None and idle_s is not None and self._lasted_s > idle_s:
            doubts.append(Doubt("damon_unread", numbers))
        return replace(record, damon_paged_out_bytes=self._paged_out, doubts=doubts)
