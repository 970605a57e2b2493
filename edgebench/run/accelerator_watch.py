"""Reads an accelerator's memory while a trial computes on it: a thread of the harness.

The peak is the largest of ten readings a second: what came and went between two of them is not
seen. The allocator's own peaks, from inside, have no such gap.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from edgebench.measures.machine.accelerators import (
    SYSTEM_FIGURES,
    ProcessMemory,
    process_memory,
)
from edgebench.measures.machine.system_files import SystemFiles, UnreadableError

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
        wanted: whether the trial computes on an accelerator; if not, nothing is read.
        processes: tells the trial's processes.
        machine: whose files.
        open_memory: what opens what tells each process's memory.
    """

    def __init__(
        self,
        wanted: bool,
        processes: Callable[[], Sequence[int]],
        machine: SystemFiles | None = None,
        open_memory: Callable[[SystemFiles], ProcessMemory] = process_memory,
    ) -> None:
        self.readings = AcceleratorReadings() if wanted else None
        self._processes, self._machine = processes, machine or SystemFiles()
        self._open_memory = open_memory
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="accelerator", daemon=True)

    def __enter__(self) -> AcceleratorWatch:
        """Begin."""
        if self.readings is not None:
            # Before the workload is there.
            self._read_system(self.readings)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End; a driver that does not answer is left to itself."""
        self._ended.set()
        if self.readings is None:
            return
        self._thread.join(_PATIENCE_S)
        if self._thread.is_alive():
            # It may go on writing into the old one.
            missing = {"process_peak_bytes": f"the driver did not answer for {_PATIENCE_S:g} s"}
            self.readings = AcceleratorReadings(missing=missing)

    def _run(self) -> None:
        assert self.readings is not None
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
