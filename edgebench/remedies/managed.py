"""Remedies of runtimes that size their own heap: the JVM, Node and Go."""

from __future__ import annotations

import mmap
import re
from collections.abc import Callable
from pathlib import Path

from edgebench.processes import find_program
from edgebench.remedies.base import Remedy, RemedySetting, RemedyTarget
from edgebench.units import MIB

_COLLECTS = "the collector runs more often: slower where memory is no limit"
#: A heap may take this share of a limit; the rest is the runtime's own. Go's limit counts all.
_HEAP_SHARE, _GO_SHARE = 0.75, 0.9
#: Where Go's linker writes how a program was built, and how far into it that is looked for.
_GO_BUILD, _MOST_BYTES = b"\xff Go buildinf:", 256 * MIB
_HEAP_FLAGS = re.compile(r"-Xmx|MaxRAMPercentage|MaxHeapSize|max[-_]old[-_]space[-_]size")


def _program(target: RemedyTarget) -> Path | None:
    """Return the program's file, behind links; None: no command, or no such program."""
    if target.kind != "command":
        return None
    found = find_program(str(target.settings["command"][0]))
    return found.resolve() if found else None


def _is_not(
    title: str, is_runtime: Callable[[Path], bool], *variables: str
) -> Callable[[RemedyTarget], str | None]:
    """Of another program, or one whose heap is sized already."""

    def unfit(target: RemedyTarget) -> str | None:
        program = _program(target)
        if program is None or not is_runtime(program):
            return f"it does not run in {title}"
        if target.limit_bytes is None:
            return "there is no limit of memory"
        said = [*map(str, target.settings["command"][1:])]
        said += [target.environment.get(name, "") for name in variables]
        is_sized = "GOMEMLIMIT" in target.environment or any(map(_HEAP_FLAGS.search, said))
        return "its heap is sized already" if is_sized else None

    return unfit


def _is_go(program: Path) -> bool:
    try:
        with program.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as held:
            return held[:4] == b"\x7fELF" and held.find(_GO_BUILD, 0, _MOST_BYTES) >= 0
    except (OSError, ValueError):
        return False


def _added(variable: str, flag: Callable[[int], str]) -> Callable[[RemedyTarget], RemedySetting]:
    """Return the flag, behind what the variable has."""

    def setting(target: RemedyTarget) -> RemedySetting:
        before = target.environment.get(variable)
        words = [*([before] if before else []), flag(target.limit_bytes or 0)]
        return RemedySetting(env={variable: " ".join(words)})

    return setting


REMEDIES = (
    # By itself the heap may take a quarter of the limit.
    Remedy(
        name="jvm-heap",
        group="heap",
        title="the JVM's heap may take three quarters of the limit",
        costs="none, unless the rest is too little for threads, code and buffers",
        source="java(1), -XX:MaxRAMPercentage",
        unfit=_is_not("the JVM", lambda p: p.name == "java", "JAVA_TOOL_OPTIONS"),
        setting=_added("JAVA_TOOL_OPTIONS", lambda _: "-XX:MaxRAMPercentage=75"),
        promise=3,
    ),
    # By itself V8 takes half of the limit at most, and collects late.
    Remedy(
        name="node-heap",
        group="heap",
        title="V8's old heap may take three quarters of the limit",
        costs=_COLLECTS,
        source="node(1), --max-old-space-size",
        unfit=_is_not("Node", lambda p: p.name in ("node", "nodejs"), "NODE_OPTIONS"),
        setting=_added(
            "NODE_OPTIONS",
            lambda limit: f"--max-old-space-size={int(_HEAP_SHARE * limit) // MIB}",
        ),
        promise=3,
    ),
    # By itself the heap doubles before it is collected, whatever the limit is.
    Remedy(
        name="go-memory-limit",
        group="heap",
        title="Go collects before the heap comes to the limit",
        costs=_COLLECTS,
        source="Go's runtime package, GOMEMLIMIT",
        unfit=_is_not("Go", _is_go),
        setting=_added("GOMEMLIMIT", lambda limit: f"{int(_GO_SHARE * limit) // MIB}MiB"),
        promise=3,
    ),
)
