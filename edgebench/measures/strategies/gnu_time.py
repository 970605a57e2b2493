"""GNU time around the workload: its own high-water mark of the largest single process.

The binary in between also keeps the harness's own size out of the figure: ``ru_maxrss`` is
inherited over fork and exec (getrusage(2)).
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edgebench.errors import MachineError
from edgebench.measures.reading import ErrorBar, Reading
from edgebench.measures.strategy import Strategy, TrialData, registered_strategy
from edgebench.records import is_number

INSTALL_REMEDY = "apt-get install time"
_FORMAT = (
    '{"wall_s":%e,"user_s":%U,"system_s":%S,"maxrss_kib":%M,"major_faults":%F,'
    '"minor_faults":%R,"voluntary_switches":%w,"involuntary_switches":%c,"exit_code":%x}'
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
    """The GNU time binary (not a shell's builtin, not BusyBox's).

    Raises:
        MachineError: it is not installed.
    """
    for name in ("time", "gtime"):
        path = shutil.which(name)
        if path and _is_gnu(path):
            return Path(path)
    raise MachineError("GNU time is not on this machine", remedy=INSTALL_REMEDY)


def _is_gnu(path: str) -> bool:
    done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    return "GNU" in done.stdout + done.stderr


def gnu_time_command(time_path: Path, report: Path, command: Sequence[str]) -> list[str]:
    """The words that run the command under GNU time; the report goes to a file."""
    return [str(time_path), "--quiet", f"--output={report}", f"--format={_FORMAT}", "--", *command]


def read_report(path: Path) -> GnuTime | None:
    """The report; None if there is none, as when GNU time was killed with the workload."""
    try:
        lines = path.read_text().splitlines()
        figures = dict(json.loads(lines[-1]))
        if not all(map(is_number, figures.values())):
            return None
        maxrss_bytes = int(figures.pop("maxrss_kib")) * 1024
        return GnuTime(maxrss_bytes=maxrss_bytes, **figures)
    except (OSError, ValueError, IndexError, KeyError, TypeError, RecursionError):
        return None


@registered_strategy
class GnuTimeStrategy(Strategy):
    """``ru_maxrss`` of the largest single process, as GNU time prints it."""

    name = "gnu-time"
    title = "GNU time's maximum resident set"
    counts = "the largest resident set that a single process had, file pages it mapped included"
    blind_to = (
        "when it was, and in which layer; pages in swap; page cache that is not mapped; the sum "
        "over several processes; the kernel's memory"
    )

    def read(self, trial: TrialData) -> Reading:
        """From the record: one figure, and no spans."""
        peak_bytes = trial.record.gnu_time_maxrss_bytes if trial.record else None
        why = "GNU time left no report: it was killed with the workload"
        return Reading(
            strategy=self.name,
            peak_bytes=peak_bytes,
            method="the kernel's mark of the process (getrusage), at its end",
            error=ErrorBar(1024, "reported in KiB"),
            missing={} if peak_bytes is not None else {"peak_bytes": why},
        )
