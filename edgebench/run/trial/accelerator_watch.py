"""Reads an accelerator's memory while a trial computes on it: a thread of the harness.

The peak is the largest of ten readings a second: what came and went between two of them is not
seen. The allocator's own peaks, from inside, have no such gap.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from edgebench.measures.machine.accelerators import (
    SYSTEM_FIGURES,
    ProcessMemory,
    process_memory,
)
from edgebench.measures.machine.system_files import SystemFiles, UnreadableError
from edgebench.records import AcceleratorReport, TrialRecord, is_count, is_number

_INTERVAL_S = 0.1
#: For a driver that does not answer.
_PATIENCE_S = 1.0
_NOT_LISTED = (
    "{source} lists none of the trial's processes: in a container it may number them otherwise"
)


@dataclass
class AcceleratorReadings:
    """What was read; ``missing`` → why. ``system`` has figures as a record does."""

    process_peak_bytes: int | None = None
    process_readings: int = 0
    system: dict[str, dict[str, Any]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)


class AcceleratorWatch:
    """Reads within a ``with`` block; then :attr:`readings` has what it saw.

    Args:
        processes: tells the trial's processes.
        machine: whose files.
        open_memory: what opens what tells each process's memory.
    """

    def __init__(
        self,
        processes: Callable[[], Sequence[int]],
        machine: SystemFiles | None = None,
        open_memory: Callable[[SystemFiles], ProcessMemory] = process_memory,
    ) -> None:
        self.readings = AcceleratorReadings()
        self._processes, self._machine = processes, machine or SystemFiles()
        self._open_memory = open_memory
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="accelerator", daemon=True)

    def __enter__(self) -> AcceleratorWatch:
        """Begin."""
        # Before the workload is there.
        self._read_system(self.readings)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End; a driver that does not answer is left to itself."""
        self._ended.set()
        self._thread.join(_PATIENCE_S)
        if self._thread.is_alive():
            # It may go on writing into the old one.
            missing = {"process_peak_bytes": f"the driver did not answer for {_PATIENCE_S:g} s"}
            self.readings = AcceleratorReadings(missing=missing)

    def _run(self) -> None:
        mine = self.readings
        memory = self._opened(mine)
        try:
            while not self._ended.wait(_INTERVAL_S):
                memory = self._read_processes(mine, memory)
                self._read_system(mine)
        finally:
            if memory is not None:
                memory.close()
        if memory is not None and mine.process_peak_bytes is None:
            mine.missing["process_peak_bytes"] = _NOT_LISTED.format(source=memory.source)

    def _opened(self, mine: AcceleratorReadings) -> ProcessMemory | None:
        try:
            return self._open_memory(self._machine)
        except UnreadableError as error:
            mine.missing["process_peak_bytes"] = str(error)
            return None

    def _read_processes(
        self, mine: AcceleratorReadings, memory: ProcessMemory | None
    ) -> ProcessMemory | None:
        """One reading; None where there is nothing more to read from."""
        if memory is None:
            return None
        try:
            told = memory.read()
        except UnreadableError as error:
            mine.missing["process_peak_bytes"] = str(error)
            memory.close()
            return None
        own = [size for pid, size in told.items() if pid in set(self._processes())]
        mine.process_readings += 1
        if own:
            mine.process_peak_bytes = max(mine.process_peak_bytes or 0, sum(own))
        return memory

    def _read_system(self, mine: AcceleratorReadings) -> None:
        for name, figure in SYSTEM_FIGURES.items():
            if name in mine.missing:
                continue
            try:
                size = figure.read(self._machine)
            except (UnreadableError, ValueError) as error:
                mine.missing[name] = str(error)
                continue
            kept = mine.system.setdefault(
                name, {"before_bytes": size, "peak_bytes": size, "source": figure.source}
            )
            kept["peak_bytes"] = max(kept["peak_bytes"], size)


_TOLD = frozenset(
    (
        *("title", "total_bytes", "limit_bytes", "allocated_bytes", "reserved_bytes", "retries"),
        *("peak_allocated_bytes", "peak_reserved_bytes", "ooms", "to_bytes", "to_s"),
        *("from_bytes", "from_s"),
    )
)
_NOT_STARTED = "the trial ended before the accelerator was started"
_NOTHING_TOLD = "the trial ended before its first phase on the accelerator did"


def with_accelerator(
    record: TrialRecord,
    events: Iterable[Mapping[str, Any]],
    readings: AcceleratorReadings,
) -> TrialRecord:
    """Return the record with what its worker and the driver told; unchanged where it used none."""
    if (name := record.settings.get("accelerator")) is None:
        return record
    told: dict[str, Any] = {}
    phases: list[dict[str, Any]] = []
    for event in events:
        if event.get("event") != "accelerator":
            continue
        told |= _numbers(event.get("identity")) | _numbers(event.get("total"))
        phases += [one for one in _listed(event.get("phases")) if isinstance(one, dict)]
    report = AcceleratorReport(
        **{"name": str(name), **told},
        phases=phases,
        process_peak_bytes=readings.process_peak_bytes,
        process_readings=readings.process_readings,
        system=readings.system,
        missing=_missing(readings, told),
    )
    return replace(record, accelerator=report)


def _numbers(data: object) -> dict[str, Any]:
    """Return the numbers in a worker's words, which may be anything.

    Other keys and types are left out.
    """
    given = data if isinstance(data, Mapping) else {}
    return {key: value for key, value in given.items() if key in _TOLD and _sound(key, value)}


def _sound(key: str, value: object) -> bool:
    if key == "title":
        return isinstance(value, str)
    return is_number(value) if key.endswith("_s") else is_count(value)


def _listed(data: object) -> list[Any]:
    return data if isinstance(data, list) else []


def _missing(readings: AcceleratorReadings, told: Mapping[str, Any]) -> dict[str, str]:
    if "title" not in told:
        return {**readings.missing, "peak_allocated_bytes": _NOT_STARTED}
    if "peak_allocated_bytes" not in told:
        return {**readings.missing, "peak_allocated_bytes": _NOTHING_TOLD}
    return readings.missing
