"""A program on a pseudo-terminal: what it shows, while it runs and at its end."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from pathlib import Path

from tests.own_path import python_path


class Terminal:
    """edgebench, or another program, on a pseudo-terminal of some size, as over ssh."""

    def __init__(
        self,
        words: Sequence[str],
        columns: int,
        rows: int = 40,
        program: Sequence[str] = (sys.executable, "-m", "edgebench"),
        folder: Path | None = None,
    ) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        environment = {**os.environ, "TERM": "xterm", "PYTHONUTF8": "1"}
        environment["PYTHONPATH"] = python_path()
        for name in ("COLUMNS", "LINES", "NO_COLOR"):
            environment.pop(name, None)
        self.process = subprocess.Popen(
            [*program, *words],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=folder,
            env=environment,
        )
        os.close(theirs)
        self.text = ""

    def close(self, seconds: float = 280) -> int:
        """Take what it shows until it has ended, or the time is up; its exit code."""
        end = time.monotonic() + seconds
        # Reading fails once nobody has the other side open.
        with contextlib.suppress(OSError):
            while time.monotonic() < end:
                if select.select([self._ours], [], [], 0.1)[0]:
                    self.text += os.read(self._ours, 65536).decode(errors="replace")
        os.close(self._ours)
        try:
            return self.process.wait(200)
        finally:
            self.process.kill()
            self.process.wait()
