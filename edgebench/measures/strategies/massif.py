"""valgrind's massif around the workload: exact calls, at a cost that only small networks bear."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from edgebench.errors import ResultsError
from edgebench.measures.heap.heap_strategy import HeapStrategy
from edgebench.measures.heap.massif_file import parse_massif
from edgebench.measures.heap.profile import Boundaries, HeapPoint, HeapProfile, largest
from edgebench.measures.strategy import StrategyOptions, registered_strategy
from edgebench.safe_reading import read_text
from edgebench.units import format_duration

LIMIT_S = 1800.0
#: Of the trial's time: in the rest it writes its file, before the trial is killed.
_SHARE = 0.9
_FILE, _LOG = "massif.out", "valgrind.log"
#: ``==00:00:01:23.456 789== ``: days, hours, minutes, seconds since valgrind's start.
_SINCE_START = re.compile(r"^==(\d+):(\d\d):(\d\d):(\d\d\.\d{3}) ", re.MULTILINE)
#: Valgrind's words as :program:`timeout` ends it.
_STOPPED = "default action of signal 15"
_ERROR = "a peak is exact within 1 %; snapshots are rarer in a longer trial"


@registered_strategy
class Massif(HeapStrategy):
    """The heap by massif: every allocation, executed on valgrind's simulated processor."""

    name = "massif"
    title = "heap (valgrind's massif)"
    counts = "bytes requested from malloc and functions like it, and not yet freed"
    blind_to = (
        "everything mapped: weights (the loaders map them), Python's arenas, code, thread stacks; "
        "whether a byte was ever touched or is in swap; which Python code called; unused space "
        "inside the allocator"
    )
    cost = "LeNet took 29 times as long"
    method = "massif's peak snapshot"

    def __init__(self, limit_s: float = LIMIT_S) -> None:
        self.limit_s = limit_s

    def configured(self, asked: StrategyOptions) -> Massif:
        """It ends before its trial is killed: killed, it writes no file."""
        if asked.timeout_s is None:
            return self
        return Massif(min(self.limit_s, _SHARE * asked.timeout_s))

    def unavailable(self) -> str | None:
        """Why it can't be used on this machine; None if it can."""
        if shutil.which("valgrind"):
            return None
        return "valgrind is not on this machine: apt-get install valgrind"

    def wrap(
        self, command: Sequence[str], env: Mapping[str, str], folder: Path
    ) -> tuple[list[str], dict[str, str]]:
        """The words under valgrind, which is asked to end at the limit: it writes as it ends."""
        command, env = super().wrap(command, env, folder)
        words = [
            *("timeout", "--signal=TERM", "--kill-after=60", f"{self.limit_s}"),
            *("valgrind", "--tool=massif", "--time-unit=ms", "--max-snapshots=1000"),
            f"--massif-out-file={folder / _FILE}",
            *(f"--log-file={folder / _LOG}", "--time-stamp=yes"),
        ]
        return [*words, *command], env

    def profile(self, folder: Path, numbered: Boundaries, offset_ns: int) -> HeapProfile:
        """From massif's file; snapshots are linked by time alone, which at its pace is enough.

        Raises:
            ResultsError: there is none, or it can't be read.
        """
        if not (folder / _FILE).exists():
            raise ResultsError(_why_none(folder, self.limit_s))
        file = parse_massif(read_text(folder / _FILE, "replace"), _FILE)
        start_ns = _start_ns(folder / _LOG) - offset_ns
        points = tuple(
            HeapPoint(
                t_ns=start_ns + snapshot.time * 1_000_000,
                live_bytes=snapshot.heap_bytes,
                stacks=largest(snapshot.stacks),
            )
            for snapshot in file.snapshots
        )
        cut = "massif's file is cut short: its last snapshot is left out" if file.cut else None
        notes = tuple(note for note in (self._stopped(folder), cut) if note)
        return HeapProfile(points, None, _ERROR, notes)

    def _stopped(self, folder: Path) -> str | None:
        if _STOPPED not in read_text(folder / _LOG, "replace"):
            return None
        return (
            f"stopped at its limit of {format_duration(self.limit_s)}: what came later is not known"
        )


def _start_ns(log: Path) -> int:
    """When valgrind began, on the wall clock: its log's time less what its last line says."""
    lines = _SINCE_START.findall(read_text(log, "replace"))
    if not lines:
        raise ResultsError("valgrind's log tells no time", where=log.name)
    days, hours, minutes, seconds = lines[-1]
    since_s = ((int(days) * 24 + int(hours)) * 60 + int(minutes)) * 60 + float(seconds)
    return log.stat().st_mtime_ns - round(since_s * 1e9)


def _why_none(folder: Path, limit_s: float) -> str:
    log = folder / _LOG
    lines = read_text(log, "replace").strip().splitlines() if log.exists() else []
    words = [line.partition("== ")[2] for line in lines if line.partition("== ")[2].strip()]
    if not words:
        return "massif left no file: valgrind did not start"
    killed = f"killed, perhaps at its limit of {format_duration(limit_s)}"
    return f"massif left no file: {killed}; its last message: {words[-1]}"
