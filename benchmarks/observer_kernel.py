"""What reading a cgroup's files does to kills (docs/explanation/observer-effect.md).

``python benchmarks/observer_kernel.py [--out NAME] [--tries N] SECTION ...``; sections:

files     which files, read all the time, keep the smallest program alive
interval  how often ``memory.stat`` must be read for that
lists     sizes of the lists at one kill, and what reclaim did in vain (trace events)
rounds    a program like a network, by how it is read
limits    the same unread, by its limit
seldom    the same where some tries are killed, by how seldom it is read (``--tries 40``)
kinds     the smallest program unread, under each kind of lists that the kernel has

Needs root, a C compiler, and swap (a file is made where there is none free). A section's rows
replace those of the same section in ``results/NAME.json``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import platform
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import report
from observer.attempts import MIB, Bench
from observer.kernel_sections import SECTIONS

from edgebench.cgroups.leftovers import Ownership
from edgebench.cgroups.parent import find_parent
from edgebench.cgroups.swap import SwapControl


@contextlib.contextmanager
def some_swap(ownership: Ownership, size: int) -> Iterator[None]:
    """The machine's own, else a file of that size in bytes."""
    if len(Path("/proc/swaps").read_text().splitlines()) > 1:
        yield
        return
    with SwapControl(ownership) as swap:
        swap.use("file", size)
        yield


def main() -> None:
    """Run the sections and keep their rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], default=[])
    parser.add_argument("--out", default="observer_kernel")
    parser.add_argument("--tries", type=int, default=20)
    parser.add_argument("--only", nargs="*", default=[], help="of the section files, these")
    parser.add_argument("--at-once", type=int, default=2, help="programs, each in its own group")
    parser.add_argument("--limit", type=float, default=87, help="of the section seldom, in MiB")
    parser.add_argument("--rounds", type=int, default=8, help="of the section seldom")
    words = parser.parse_args()
    kept = report.RESULTS / f"{words.out}.json"
    data = json.loads(kept.read_text())["data"] if kept.exists() else {}
    with Ownership() as ownership, tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        how = words.tries, tuple(words.only), words.at_once, words.limit, words.rounds
        bench = Bench(find_parent(ownership), Path(folder), *how)
        with some_swap(ownership, 512 * MIB * words.at_once):
            for name in words.sections or SECTIONS:
                began = time.monotonic()
                print(name, flush=True)
                rows = SECTIONS[name](bench)
                took_s = time.monotonic() - began
                data[name] = {"rows": rows, "took_s": took_s, "at_once": words.at_once}
                if name == "seldom":
                    data[name] |= {"limit_mib": words.limit, "rounds": words.rounds}
                write(words.out, data)


def write(name: str, data: dict[str, Any]) -> None:
    """All sections as one table."""
    rows = [
        [section, row["what"], f"{row['killed']} of {row['tries']}",
         f"{row['low']:.0%} to {row['high']:.0%}"]
        for section, kept in data.items()
        for row in kept["rows"]
        if "killed" in row
    ]  # fmt: skip
    release = platform.release()
    says = (
        f"Killed by the kernel although swap was free, Linux {release}; shares with 90 % intervals."
    )
    report.write(
        name, says, ["section", "what was read, or what differs", "killed", "share"], rows, data
    )


if __name__ == "__main__":
    main()
