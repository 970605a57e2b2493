"""Which modules somebody enters who reads along the calls of one command, and which more than once.

Each function is read once, at its first call. A call from another module (or package) is an entry.
Left out: imports, and what other processes do. The command's own output goes to stdout as always.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter
from collections.abc import Iterable
from itertools import groupby
from types import CodeType, FrameType
from typing import Any

USAGE = "usage: python benchmarks/module_walk.py [--to MODULE:FUNCTION] VERB [ARGUMENT…]"
OUR_FOLDER = os.sep + "edgebench" + os.sep


def module_of(code: CodeType) -> str | None:
    """The module of the package that the code stands in, as ``cgroups/v1``."""
    before, _, rest = code.co_filename.rpartition(OUR_FOLDER)
    return rest.removesuffix(".py").removesuffix("/__init__") if before else None


def package_of(module: str | None) -> str | None:
    """The module's package; a module at the top stands for itself."""
    return module and module.partition("/")[0]


def way_to(frame: FrameType) -> list[str]:
    """The modules of all our functions down to this one; none if it isn't ours, or in an import."""
    if module_of(frame.f_code) is None:
        return []
    way = []
    above: FrameType | None = frame
    while above is not None:
        if above.f_code.co_filename.startswith("<frozen importlib"):
            return []
        way.append(module_of(above.f_code))
        above = above.f_back
    return [module for module in reversed(way) if module]


class Walk:
    """The functions called, each at its first call: the module it was called from, and its own.

    ``ways`` are all ways, as modules, to the function whose ``module:function`` is ``wanted``.
    """

    def __init__(self, wanted: str | None) -> None:
        self.module, _, self.function = (wanted or "").partition(":")
        self.seen: set[CodeType] = set()
        self.calls: list[tuple[str | None, str]] = []
        self.ways: list[list[str]] = []

    def profile(self, frame: FrameType, event: str, argument: Any) -> None:
        """Note a call, for ``sys.setprofile``."""
        code = frame.f_code
        is_new = code not in self.seen and not code.co_name.startswith("<")
        if event != "call" or not (is_new or code.co_name == self.function):
            return
        way = way_to(frame)
        if not way:
            return
        if is_new:
            self.seen.add(code)
            self.calls.append((way[-2] if len(way) > 1 else None, way[-1]))
        modules = [name for name, _ in groupby(way)]
        if (way[-1], code.co_name) == (self.module, self.function) and modules not in self.ways:
            self.ways.append(modules)


def table_row(name: str, calls: Iterable[tuple[str | None, str | None]]) -> str:
    """How many places were entered, how often, and how many of them again."""
    entries = Counter(place for caller, place in calls if caller != place)
    again = sum(count > 1 for count in entries.values())
    return f"| {name} | {len(entries)} | {entries.total()} | {again} |"


def main(arguments: list[str]) -> None:
    """Run the command, then print the counts on stderr."""
    wanted = arguments[1] if arguments[:1] == ["--to"] else None
    command = arguments[2:] if wanted else arguments
    if not command:
        raise SystemExit(USAGE)
    from edgebench.cli import main as edgebench

    walk = Walk(wanted)
    sys.argv = ["edgebench", *command]
    threading.setprofile(walk.profile)
    sys.setprofile(walk.profile)
    try:
        edgebench()
    finally:
        sys.setprofile(None)
        packages = [(package_of(caller), package_of(module)) for caller, module in walk.calls]
        lines = [f"{len(walk.calls)} functions", "| | entered | entries | entered again |"]
        lines += ["| --- | --- | --- | --- |", table_row("modules", walk.calls)]
        lines += [table_row("packages and top-level modules", packages)]
        lines += [" → ".join(way) for way in sorted(walk.ways, key=len)]
        print(*lines, sep="\n", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
