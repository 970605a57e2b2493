"""How tests of a fleet decide when its trials end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest


class Gate:
    """A FIFO through which trials end: one for each line that is written to it."""

    def __init__(self, folder: Path) -> None:
        self._fifo, self._probed = folder / "gate", folder / "probed"
        os.mkfifo(self._fifo)
        # Open to read as well, so that a trial opens it without waiting.
        self._descriptor = os.open(self._fifo, os.O_RDWR)
        self.command = ["sh", "-c", f"read line < '{self._fifo}'"]
        #: The same, and fails until :meth:`probes_are_over`.
        self.shared_command = [*self.command[:-1], f"{self.command[-1]}; test -e '{self._probed}'"]

    def let_through(self, count: int = 1000) -> None:
        """Let so many trials end; by default all there are."""
        os.write(self._descriptor, b"\n" * count)

    def probes_are_over(self) -> None:
        """From here on trials end well. Failed probes have no times by which machines differ."""
        self._probed.touch()

    def end(self) -> None:
        """A trial that still waits ends."""
        self.let_through()
        os.close(self._descriptor)


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    """One that lets all trials through at the end."""
    made = Gate(tmp_path)
    yield made
    made.end()
