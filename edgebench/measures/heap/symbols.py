"""Names functions in tcmalloc's stacks with google-pprof, gperftools' own tool."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from edgebench.measures.heap.dump import Libraries, Mapping

#: In torch's libraries it takes some 20 s for a few hundred addresses.
_LIMIT_S = 180.0
_NAMED = re.compile(r"0x([0-9a-f]{1,16}) (.+)")
#: google-pprof appends a function's own address, and after two dashes what was inlined.
_APPENDED = re.compile(r"<[0-9a-f]{16}>|--.*")
_MISSING = "functions are told by library and offset: apt-get install google-perftools names them"


class Names:
    """Names return addresses: by function as far as google-pprof can, else by library."""

    def __init__(
        self, stacks: Sequence[tuple[int, ...]], mappings: Sequence[Mapping], program: Path | None
    ) -> None:
        self._libraries = Libraries(mappings)
        self._functions: dict[int, str] = {}
        self.note: str | None = _MISSING
        tool = shutil.which("google-pprof")
        if tool and program and stacks:
            self._functions = _ask(tool, program, _dump(stacks, mappings))
            self.note = None if self._functions else "google-pprof could name no function"

    def frames(self, addresses: Sequence[int]) -> tuple[str, ...]:
        """The names of one stack, innermost first."""
        return tuple(self._name(address, inner=at == 0) for at, address in enumerate(addresses))

    def _name(self, address: int, inner: bool) -> str:
        # A caller's address is the one after its call: google-pprof steps back into the call.
        at = address if inner else address - 1
        return self._functions.get(at) or self._libraries.name(address)


def _dump(stacks: Sequence[tuple[int, ...]], mappings: Sequence[Mapping]) -> str:
    """A dump with these stacks alone: naming all of a real one's takes minutes."""
    count = len(stacks)
    lines = [f"heap profile: {count}: {count} [{count}: {count}] @ heapprofile"]
    lines += [f"1: 1 [1: 1] @ {' '.join(f'{a:#x}' for a in addresses)}" for addresses in stacks]
    lines += ["", "MAPPED_LIBRARIES:"]
    lines += [f"{m.start:x}-{m.end:x} r-xp {m.offset:08x} 00:00 0 {m.path}" for m in mappings]
    return "\n".join([*lines, ""])


def _ask(tool: str, program: Path, dump: str) -> dict[int, str]:
    with tempfile.NamedTemporaryFile("w", suffix=".heap") as file:
        file.write(dump)
        file.flush()
        try:
            done = subprocess.run(
                [tool, "--raw", str(program), file.name],
                capture_output=True,
                stdin=subprocess.DEVNULL,
                timeout=_LIMIT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return {}
    section = done.stdout.decode(errors="replace").partition("\n---\n")[0]
    found = (_NAMED.fullmatch(line) for line in section.splitlines())
    return {int(m[1], 16): _APPENDED.sub("", m[2]) for m in found if m}
