"""valgrind's massif around the workload: exact calls, at a cost that only small networks bear.

Its file has a block for each snapshot (valgrind, ``massif/ms_main.c``)::

    #-----------
    snapshot=3
    #-----------
    time=120
    mem_heap_B=1000
    mem_heap_extra_B=24
    mem_stacks_B=0
    heap_tree=peak
    n1: 1000 (heap allocation functions) malloc/new/new[], --alloc-fns, etc.

Only its figures are read here; ``ms_print`` shows the trees of calls. A test compares the figures
with those of ``ms_print``.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from edgebench.errors import ResultsError
from edgebench.measures.strategies import (
    Boundaries,
    HeapPoint,
    HeapProfile,
    HeapStrategy,
    StrategyOptions,
    registered_strategy,
)
from edgebench.safe_files import read_text
from edgebench.text import format_duration

_UNIT = re.compile(r"^time_unit: ms$", re.MULTILINE)
_SNAPSHOT = re.compile(r"^time=(\d{1,19})\nmem_heap_B=(\d{1,19})\n", re.MULTILINE)
LIMIT_S = 1800.0
#: Of the trial's time: in the rest it writes its file, before the trial is killed.
_SHARE = 0.9
_FILE, _LOG = "massif.out", "valgrind.log"
#: ``==00:00:01:23.456 789== ``: days, hours, minutes, seconds since valgrind's start.
_SINCE_START = re.compile(r"^==(\d+):(\d\d):(\d\d):(\d\d\.\d{3}) ", re.MULTILINE)
#: Valgrind's words as :program:`timeout` ends it.
_STOPPED = "default action of signal 15"
_ERROR = "a peak is exact within 1 %; snapshots are rarer in a longer trial"


def parse_massif(text: str) -> list[tuple[int, int]]:
    """List the time in ms and the heap's bytes of each whole snapshot in a massif file.

    Raises:
        ResultsError: it is no massif file.
    """
    if not text.startswith("desc: ") or not _UNIT.search(text):
        raise ResultsError("not a file of valgrind's massif, or cut short", where=_FILE)
    return [(int(time_ms), int(size)) for time_ms, size in _SNAPSHOT.findall(text)]


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
    method = "massif's peak snapshot"

    def __init__(self, limit_s: float = LIMIT_S) -> None:
        self.limit_s = limit_s

    def configured(self, asked: StrategyOptions) -> Massif:
        """Have it end before its trial is killed: killed, it writes no file."""
        if asked.timeout_s is None:
            return self
        return Massif(min(self.limit_s, _SHARE * asked.timeout_s))

    def unavailable(self) -> str | None:
        """Say why it can't be used on this machine; None if it can."""
        if shutil.which("valgrind"):
            return None
        return "valgrind is not on this machine: apt-get install valgrind"

    def wrap(
        self, command: Sequence[str], env: Mapping[str, str], folder: Path
    ) -> tuple[list[str], dict[str, str]]:
        """Run the words under valgrind, and end it at the limit: it writes as it ends."""
        command, env = super().wrap(command, env, folder)
        words = [
            *("timeout", "--signal=TERM", "--kill-after=60", f"{self.limit_s}"),
            *("valgrind", "--tool=massif", "--time-unit=ms", "--max-snapshots=1000"),
            f"--massif-out-file={folder / _FILE}",
            *(f"--log-file={folder / _LOG}", "--time-stamp=yes"),
        ]
        return [*words, *command], env

    def profile(self, folder: Path, numbered: Boundaries, offset_ns: int) -> HeapProfile:
        """Read massif's file; link snapshots by time alone, which at its pace is enough.

        Raises:
            ResultsError: there is none, or it can't be read.
        """
        log = folder / _LOG
        lines = read_text(log, "replace").splitlines() if log.exists() else []
        if not (folder / _FILE).exists():
            words = [line.partition("== ")[2] for line in lines if line.partition("== ")[2].strip()]
            if not words:
                raise ResultsError("massif left no file: valgrind did not start")
            killed = f"killed, perhaps at its limit of {format_duration(self.limit_s)}"
            raise ResultsError(f"massif left no file: {killed}; its last message: {words[-1]}")
        snapshots = parse_massif(read_text(folder / _FILE, "replace"))
        times = _SINCE_START.findall("\n".join(lines))
        if not times:
            raise ResultsError("valgrind's log tells no time", where=log.name)
        # Valgrind began at its log's time less what its last line says.
        days, hours, minutes, seconds = times[-1]
        since_s = ((int(days) * 24 + int(hours)) * 60 + int(minutes)) * 60 + float(seconds)
        start_ns = log.stat().st_mtime_ns - round(since_s * 1e9) - offset_ns
        points = (HeapPoint(start_ns + ms * 1_000_000, size) for ms, size in snapshots)
        notes = []
        if any(_STOPPED in line for line in lines):
            limit = format_duration(self.limit_s)
            notes.append(f"stopped at its limit of {limit}: what came later is not known")
        return HeapProfile(tuple(points), None, _ERROR, tuple(notes))
