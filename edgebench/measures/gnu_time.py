"""GNU time around the workload: its own high-water mark of the largest single process.

The binary in between also keeps the harness's own size out of the figure: ``ru_maxrss`` is
inherited over fork and exec (getrusage(2)).
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgebench.errors import MachineError
from edgebench.processes import Identity
from edgebench.records import is_number
from edgebench.safe_files import open_file, remove_file

INSTALL_REMEDY = "apt-get install time"
_FORMAT = (
    '{"wall_s":%e,"user_s":%U,"system_s":%S,"maxrss_kib":%M,"major_faults":%F,'
    '"minor_faults":%R,"voluntary_switches":%w,"involuntary_switches":%c,"exit_code":%x}'
)
#: A report has some 150; a line on how the command ended may stand before it.
_LONGEST_BYTES = 4096
NO_REPORT = (
    "GNU time left no whole report: it was killed with the workload, or that wrote to the file"
)


@dataclass(frozen=True)
class GnuTime:
    """What GNU time reports. Seconds in steps of 10 ms; ``maxrss_bytes`` of one process."""

    maxrss_bytes: int
    wall_s: float
    user_s: float
    system_s: float
    major_faults: int
    minor_faults: int
    voluntary_switches: int
    involuntary_switches: int
    exit_code: int


def find_gnu_time() -> Path:
    """Find the GNU time binary (not a shell's builtin, not BusyBox's).

    Raises:
        MachineError: it is not installed.
    """
    for name in ("time", "gtime"):
        if path := shutil.which(name):
            words = [path, "--version"]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            if "GNU" in done.stdout + done.stderr:
                return Path(path)
    raise MachineError("GNU time is not on this machine", remedy=INSTALL_REMEDY)


def gnu_time_command(time_path: Path, report: Path, command: Sequence[str]) -> list[str]:
    """Return the words that run the command under GNU time; the report goes to a file."""
    return [str(time_path), "--quiet", f"--output={report}", f"--format={_FORMAT}", "--", *command]


@contextlib.contextmanager
def report_file(path: Path, owner: Identity | None) -> Iterator[int]:
    """Open an empty file that GNU time may fill as its owner; remove it at the end.

    What is read from the descriptor is this file, whatever the workload puts in its place.
    """
    fd = open_file(path, os.O_RDWR | os.O_CREAT, 0o600, owner=owner)
    try:
        os.ftruncate(fd, 0)
        yield fd
    finally:
        os.close(fd)
        remove_file(path)


def read_report(fd: int) -> GnuTime | None:
    """Read the report; None if there is none, as when GNU time was killed with the workload.

    The workload may have written to the file too, so anything else than a short report is none.
    """
    try:
        lines = os.pread(fd, _LONGEST_BYTES, 0).decode().splitlines()
        figures = dict(json.loads(lines[-1]))
        maxrss_bytes = int(figures.pop("maxrss_kib")) * 1024
        if not all(map(is_number, (maxrss_bytes, *figures.values()))):
            return None
        return GnuTime(maxrss_bytes=maxrss_bytes, **figures)
    except (ValueError, IndexError, KeyError, TypeError, OverflowError, RecursionError):
        return None
