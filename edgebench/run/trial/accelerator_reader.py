"""Reads an accelerator's memory while a trial computes on it.

The peak is the largest of ten readings a second: what came and went between two of them is not
seen. The allocator's own peaks, from inside, have no such gap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from edgebench.measures.machine.accelerators import (
    SYSTEM_FIGURES,
    ProcessMemory,
    process_memory,
)
from edgebench.measures.machine.system_files import SystemFiles, UnreadableError
from edgebench.records import AcceleratorReport, is_count, is_number
from edgebench.run.trial.readers import Finished, Reader

_INTERVAL_S = 0.1
_NOT_LISTED = (
    "{source} lists none of the trial's processes: in a container it may number them otherwise"
)
#: What a worker says of its accelerator, as a report names it.
_NUMBERS = frozenset(
    (
        *("total_bytes", "limit_bytes", "allocated_bytes", "reserved_bytes", "retries", "ooms"),
        *("peak_allocated_bytes", "peak_reserved_bytes", "to_bytes", "to_s"),
        *("from_bytes", "from_s"),
    )
)
_NOT_STARTED = "the trial ended before the accelerator was started"
_NO_PHASE = "the trial ended before its first phase on the accelerator did"


@dataclass
class AcceleratorReadings:
    """What was read; ``missing`` → why. ``system`` has figures as a record does."""

    process_peak_bytes: int | None = None
    process_readings: int = 0
    system: dict[str, dict[str, Any]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)


class AcceleratorReader(Reader[AcceleratorReadings]):
    """Reads what a trial's processes hold on an accelerator, and the machine's own figures.

    Args:
        processes: tells the trial's processes.
        machine: whose files.
        open_memory: what opens what tells each process's memory.
    """

    keys = ("accelerator.process_peak_bytes",)

    def __init__(
        self,
        processes: Callable[[], Sequence[int]],
        machine: SystemFiles | None = None,
        open_memory: Callable[[SystemFiles], ProcessMemory] = process_memory,
    ) -> None:
        self._readings = AcceleratorReadings()
        self._processes, self._machine = processes, machine or SystemFiles()
        self._open_memory = open_memory
        self._memory: ProcessMemory | None = None

    def start(self) -> None:
        """Read the machine's figures before the workload is there, and open the driver."""
        self._read_system()
        try:
            self._memory = self._open_memory(self._machine)
        except UnreadableError as error:
            self._readings.missing["process_peak_bytes"] = str(error)

    def poll(self) -> float:
        """Read the processes' memory and the machine's."""
        readings = self._readings
        try:
            if self._memory:
                sizes, processes = self._memory.read(), set(self._processes())
                readings.process_readings += 1
                if held := [size for pid, size in sizes.items() if pid in processes]:
                    peak = readings.process_peak_bytes or 0
                    readings.process_peak_bytes = max(peak, sum(held))
        except UnreadableError as error:
            # A driver that failed is not asked again.
            readings.missing["process_peak_bytes"] = str(error)
            self.close()
        self._read_system()
        return _INTERVAL_S

    def stop(self, finished: Finished) -> AcceleratorReadings:
        """Return what was read."""
        if self._memory and self._readings.process_peak_bytes is None:
            why = _NOT_LISTED.format(source=self._memory.source)
            self._readings.missing["process_peak_bytes"] = why
        return self._readings

    def close(self) -> None:
        """Close the driver."""
        memory, self._memory = self._memory, None
        if memory:
            memory.close()

    def _read_system(self) -> None:
        readings = self._readings
        for name, figure in SYSTEM_FIGURES.items():
            if name in readings.missing:
                continue
            try:
                size = figure.read(self._machine)
            except (UnreadableError, ValueError) as error:
                readings.missing[name] = str(error)
                continue
            kept = readings.system.setdefault(
                name, {"before_bytes": size, "peak_bytes": size, "source": figure.source}
            )
            kept["peak_bytes"] = max(kept["peak_bytes"], size)


def accelerator_report(
    name: str, events: Iterable[Mapping[str, Any]], readings: AcceleratorReadings
) -> AcceleratorReport:
    """Return what a worker and the driver say of the accelerator of that name.

    A worker's words may be anything: other keys and types are left out.
    """
    title: str | None = None
    numbers: dict[str, Any] = {}
    phases: list[dict[str, Any]] = []
    for event in events:
        if event.get("event") != "accelerator":
            continue
        for part in (event.get("identity"), event.get("total")):
            if not isinstance(part, Mapping):
                continue
            if isinstance(part.get("title"), str):
                title = part["title"]
            for key in _NUMBERS & part.keys():
                if (is_number if key.endswith("_s") else is_count)(part[key]):
                    numbers[key] = part[key]
        listed = event.get("phases")
        if isinstance(listed, list):
            phases += [phase for phase in listed if isinstance(phase, dict)]
    missing = readings.missing
    if "peak_allocated_bytes" not in numbers or title is None:
        why = _NOT_STARTED if title is None else _NO_PHASE
        missing = {**missing, "peak_allocated_bytes": why}
    return AcceleratorReport(
        name=name,
        title=title,
        phases=phases,
        process_peak_bytes=readings.process_peak_bytes,
        process_readings=readings.process_readings,
        system=readings.system,
        missing=missing,
        **numbers,
    )
