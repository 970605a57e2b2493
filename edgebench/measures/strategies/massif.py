"""valgrind's massif around the workload: exact calls, at a cost that only small networks bear.

Its file is ``key=value`` lines and indented tree lines (valgrind, ``massif/ms_main.c``)::

    desc: --time-unit=ms
    cmd: ./program
    time_unit: ms
    #-----------
    snapshot=3
    #-----------
    time=120
    mem_heap_B=1000
    mem_heap_extra_B=24
    mem_stacks_B=0
    heap_tree=peak
    n1: 1000 (heap allocation functions) malloc/new/new[], --alloc-fns, etc.
     n0: 1000 0x109156: main (program.c:7)

A node's number is how many children follow it, so a tree cut short shows. The parser on PyPI
(msparser) saw its last release in 2012, and ms_print drops what it deems small, since it prints
for people. So the file is read here, and a test holds the figures against ms_print's table.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgebench.errors import ResultsError
from edgebench.measures.heap import Boundaries, HeapPoint, HeapProfile, HeapStrategy, Stack, largest
from edgebench.measures.strategy import StrategyOptions, registered_strategy
from edgebench.safe_files import read_text
from edgebench.units import format_duration

_NODE = re.compile(r" *n(\d{1,9}): (\d{1,19}) (.+)")
_CODE = re.compile(r"0x[0-9A-Fa-f]+: (.+)")
_UNIT = re.compile(r"^time_unit: (\w+)$", re.MULTILINE)
_BORDER = re.compile(r"^#-----------\nsnapshot=\d+\n#-----------\n", re.MULTILINE)
LIMIT_S = 1800.0
#: Of the trial's time: in the rest it writes its file, before the trial is killed.
_SHARE = 0.9
_FILE, _LOG = "massif.out", "valgrind.log"
#: ``==00:00:01:23.456 789== ``: days, hours, minutes, seconds since valgrind's start.
_SINCE_START = re.compile(r"^==(\d+):(\d\d):(\d\d):(\d\d\.\d{3}) ", re.MULTILINE)
#: Valgrind's words as :program:`timeout` ends it.
_STOPPED = "default action of signal 15"
_ERROR = "a peak is exact within 1 %; snapshots are rarer in a longer trial"
#: The lines of a snapshot before its tree.
_KEYS = ("time", "mem_heap_B", "mem_heap_extra_B", "mem_stacks_B", "heap_tree")


@dataclass(frozen=True)
class Snapshot:
    """The heap at ``time``, in ms."""

    time: int
    heap_bytes: int
    stacks: tuple[Stack, ...]


@dataclass(frozen=True)
class MassifFile:
    """What a massif file holds; ``cut`` if its last snapshot was not whole and is left out."""

    snapshots: tuple[Snapshot, ...]
    cut: bool


def parse_massif(text: str, where: str) -> MassifFile:
    """Parse the snapshots in the text; ``where`` names its file in messages.

    Raises:
        ResultsError: it is no massif file, or a snapshot before the last one is broken.
    """
    head, *parts = _BORDER.split(text)
    if not head.startswith("desc: ") or not _UNIT.search(head):
        raise ResultsError("not a file of valgrind's massif, or cut short", where=where)
    snapshots: list[Snapshot] = []
    for number, part in enumerate(parts):
        try:
            snapshots.append(_snapshot(part))
        except ValueError as error:
            if number < len(parts) - 1:
                what = f"massif's snapshot {number} is broken: {error}"
                raise ResultsError(what, where=where) from None
    return MassifFile(tuple(snapshots), cut=len(snapshots) < len(parts) or not parts)


def _snapshot(part: str) -> Snapshot:
    if not part.endswith("\n"):
        raise ValueError("its last line has no end")
    lines = part[:-1].split("\n")
    fields = dict(line.partition("=")[::2] for line in lines[: len(_KEYS)])
    if tuple(fields) != _KEYS or fields["heap_tree"] not in ("empty", "detailed", "peak"):
        raise ValueError("its figures are not whole")
    figures = [fields[key] for key in _KEYS[:-1]]
    if wrong := [text for text in figures if not re.fullmatch(r"\d{1,19}", text)]:
        raise ValueError(f"{wrong[0][:20]!r} is no figure")
    time, heap, *_ = map(int, figures)
    tree = lines[len(_KEYS) :]
    if bool(tree) == (fields["heap_tree"] == "empty"):
        raise ValueError("its tree is missing, or there is one too many")
    return Snapshot(time, heap, tuple(_leaves(tree)))


def _leaves(lines: Sequence[str]) -> Iterator[Stack]:
    """Yield a stack for each leaf: the path of calls down to it, the allocating call first."""
    path: list[tuple[str, int]] = []  # names from the root, and children still to come
    for number, line in enumerate(lines):
        match = _NODE.fullmatch(line)
        if not match:
            raise ValueError("a line of its tree is no node")
        children, size = int(match[1]), int(match[2])
        code = _CODE.fullmatch(match[3])
        name = code[1] if code else match[3].partition(",")[0]
        if number and not path:
            raise ValueError("its tree has two roots")
        if children:
            path.append((name, children))
            continue
        yield Stack(size, (*(frame for frame, _ in path[1:]), name))
        while path:
            parent, left = path.pop()
            if left > 1:
                path.append((parent, left - 1))
                break
    if path:
        raise ValueError("its tree is cut short")


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
        file = parse_massif(read_text(folder / _FILE, "replace"), _FILE)
        times = _SINCE_START.findall("\n".join(lines))
        if not times:
            raise ResultsError("valgrind's log tells no time", where=log.name)
        # Valgrind began at its log's time less what its last line says.
        days, hours, minutes, seconds = times[-1]
        since_s = ((int(days) * 24 + int(hours)) * 60 + int(minutes)) * 60 + float(seconds)
        start_ns = log.stat().st_mtime_ns - round(since_s * 1e9) - offset_ns
        points = tuple(
            HeapPoint(
                t_ns=start_ns + snapshot.time * 1_000_000,
                live_bytes=snapshot.heap_bytes,
                stacks=largest(snapshot.stacks),
            )
            for snapshot in file.snapshots
        )
        notes = []
        if any(_STOPPED in line for line in lines):
            limit = format_duration(self.limit_s)
            notes.append(f"stopped at its limit of {limit}: what came later is not known")
        if file.cut:
            notes.append("massif's file is cut short: its last snapshot is left out")
        return HeapProfile(points, None, _ERROR, tuple(notes))
