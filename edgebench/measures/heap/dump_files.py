"""From the dumps in a trial's folder to points of the heap; google-pprof names functions."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from edgebench.errors import ResultsError
from edgebench.measures.heap.dump import CodeMapping, Dump, Libraries, parse_dump
from edgebench.measures.heap.profile import HeapPoint, Stack, largest
from edgebench.safe_reading import read_file

#: The dumps' names, numbered; of a process that another started, with its id.
DUMP_NAME = re.compile(r"heap(?:_(\d+))?\.(\d{4,9})\.heap")
#: Many times what gperftools writes at most.
_MOST_BYTES = 16 << 20
#: As Debian installs it.
PPROF = Path("/usr/bin/google-pprof")
_PLAIN_PATH = re.compile(r"/[\w./+@%:,=~-]*")
#: Frames kept of a stack.
_FRAMES = 20
#: In torch's libraries it takes some 20 s for a few hundred addresses.
_LIMIT_S = 180.0
_NAMED = re.compile(r"0x([0-9a-f]{1,16}) (.+)")
#: google-pprof appends a function's own address, and after two dashes what was inlined.
_APPENDED = re.compile(r"<[0-9a-f]{16}>|--.*")
_MISSING = "functions are named by library and offset: apt-get install google-perftools names them"


@dataclass(frozen=True)
class DumpFile:
    """One dump, its number (they follow the order of allocation), and its file's wall time."""

    number: int
    wall_ns: int
    dump: Dump


def find_dumps(folder: Path) -> tuple[list[DumpFile], list[str]]:
    """The dumps of the process that allocated most, in order, and a note for each left out."""
    processes: dict[str, list[DumpFile]] = {}
    notes = []
    for path in sorted(folder.iterdir()):
        name = DUMP_NAME.fullmatch(path.name)
        if not name:
            continue
        try:
            text = read_file(path, _MOST_BYTES).decode(errors="replace")
            found = DumpFile(int(name[2]), path.lstat().st_mtime_ns, parse_dump(text, path.name))
        except (OSError, ResultsError) as error:
            notes.append(f"{_why(error)} and left out ({path.name})")
            continue
        processes.setdefault(name[1] or "", []).append(found)
    most = max(
        processes.values(),
        key=lambda files: max(file.dump.total.allocated_bytes for file in files),
        default=[],
    )
    return sorted(most, key=lambda file: file.number), notes


def _why(error: OSError | ResultsError) -> str:
    if isinstance(error, ResultsError):
        return error.what
    return f"a heap dump can't be read: {error.strerror}"


def to_points(
    files: Sequence[DumpFile],
    moments: Mapping[int, int],
    offset_ns: int,
    program: Path | None,
) -> tuple[tuple[HeapPoint, ...], str | None]:
    """A point for each dump.

    Args:
        files: in order; at least one.
        moments: number of a dump at a boundary → the boundary's ``t_ns``.
        offset_ns: wall clock − ``CLOCK_MONOTONIC``.
        program: whose heap it is, for naming functions.

    Returns:
        The points, and a note if functions could not be named.
    """
    mappings = max((file.dump.mappings for file in files), key=len)
    paths = {stack.addresses[:_FRAMES] for file in files for stack in file.dump.stacks}
    names = FunctionNames(sorted(paths), mappings, program)
    # A file's time is coarse: it may lie before an earlier dump's.
    times = accumulate((moments.get(f.number, f.wall_ns - offset_ns) for f in files), max)
    points = [
        HeapPoint(
            t_ns=t_ns,
            live_bytes=file.dump.total.live_bytes,
            boundary=file.number if file.number in moments else None,
            stacks=largest(
                Stack(stack.live_bytes, names.frames(stack.addresses[:_FRAMES]))
                for stack in file.dump.stacks
            ),
        )
        for file, t_ns in zip(files, times, strict=True)
    ]
    return tuple(points), names.note


class FunctionNames:
    """Names return addresses: by function as far as google-pprof can, else by library."""

    def __init__(
        self,
        stacks: Sequence[tuple[int, ...]],
        mappings: Sequence[CodeMapping],
        program: Path | None,
    ) -> None:
        self._libraries = Libraries(mappings)
        self._functions: dict[int, str] = {}
        self.note: str | None = _MISSING
        if PPROF.is_file() and program and stacks:
            self._functions = _ask(program, _dump(stacks, mappings))
            self.note = None if self._functions else "google-pprof could name no function"

    def frames(self, addresses: Sequence[int]) -> tuple[str, ...]:
        """The names of one stack, innermost first."""
        return tuple(self._name(address, inner=at == 0) for at, address in enumerate(addresses))

    def _name(self, address: int, inner: bool) -> str:
        # A caller's address is the one after its call: google-pprof steps back into the call.
        at = address if inner else address - 1
        return self._functions.get(at) or self._libraries.name(address)


def _dump(stacks: Sequence[tuple[int, ...]], mappings: Sequence[CodeMapping]) -> str:
    """A dump with these stacks alone: naming all of a real one's takes minutes."""
    count = len(stacks)
    lines = [f"heap profile: {count}: {count} [{count}: {count}] @ heapprofile"]
    lines += [f"1: 1 [1: 1] @ {' '.join(f'{a:#x}' for a in addresses)}" for addresses in stacks]
    lines += ["", "MAPPED_LIBRARIES:"]
    # It passes the paths on to a shell.
    plain = (m for m in mappings if _PLAIN_PATH.fullmatch(m.path))
    lines += [f"{m.start:x}-{m.end:x} r-xp {m.offset:08x} 00:00 0 {m.path}" for m in plain]
    return "\n".join([*lines, ""])


def _ask(program: Path, dump: str) -> dict[int, str]:
    with tempfile.NamedTemporaryFile("w", suffix=".heap") as file:
        file.write(dump)
        file.flush()
        try:
            done = subprocess.run(
                [PPROF, "--raw", str(program), file.name],
                capture_output=True,
                stdin=subprocess.DEVNULL,
                env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
                timeout=_LIMIT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return {}
    section = done.stdout.decode(errors="replace").partition("\n---\n")[0]
    found = (_NAMED.fullmatch(line) for line in section.splitlines())
    return {int(m[1], 16): _APPENDED.sub("", m[2]) for m in found if m}
