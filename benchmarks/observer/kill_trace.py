"""What the kernel tells of a kill: its log's lists, and its trace events of ``all_active``."""

from __future__ import annotations

import contextlib
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

EVENTS = {
    "memcg/memcg_flush_stats": "flushes of the group's statistics",
    "vmscan/mm_vmscan_memcg_reclaim_begin": "attempts at reclaim",
    "vmscan/mm_vmscan_memcg_reclaim_end": "ends of attempts",
    "vmscan/mm_vmscan_lru_shrink_inactive": "scans of an inactive list",
    "vmscan/mm_vmscan_lru_shrink_active": "scans of an active list",
}


def lines_of(log: Any) -> list[str]:
    """The messages that have come to an open, non-blocking /dev/kmsg since."""
    lines = []
    with contextlib.suppress(BlockingIOError):
        while record := log.read(8192):
            lines.append(record.decode(errors="replace").partition(";")[2].splitlines()[0])
    return lines


def printed_lists(lines: list[str]) -> dict[str, int]:
    """Bytes of our group, of its lists, of its swap and of its memory in swap's cache."""
    start = [n for n, line in enumerate(lines) if "stats for" in line and "-observer-" in line]
    lines = lines[start[0] :] if start else []
    wanted = r"(active_anon|inactive_anon|active_file|inactive_file|swapcached|swap) (\d+)"
    found = [m for line in lines if (m := re.fullmatch(wanted, line.strip()))]
    return {m[1]: int(m[2]) for m in reversed(found)}


@contextlib.contextmanager
def tracing() -> Iterator[Callable[[], dict[str, float]]]:
    """Counts the program's last, fruitless trace events, where the kernel has such events."""
    with tempfile.TemporaryDirectory() as folder:
        there = subprocess.run(["mount", "-t", "tracefs", "none", folder], check=False).returncode
        root = Path(folder)
        wanted = (*EVENTS, "oom/mark_victim")
        names = [name for name in wanted if not there and (root / "events" / name).exists()]
        for name in names:
            (root / "events" / name / "filter").write_text('comm == "all_active"')
            (root / "events" / name / "enable").write_text("1")

        def counted() -> dict[str, float]:
            lines = (root / "trace").read_text().splitlines() if names else []
            return _fruitless([line for line in lines if re.match(r" *all_active-", line)])

        try:
            if names:
                (root / "trace").write_text("")
                (root / "tracing_on").write_text("1")
            yield counted
        finally:
            for name in names:
                (root / "events" / name / "enable").write_text("0")
                (root / "events" / name / "filter").write_text("0")
            if not there:
                subprocess.run(["umount", folder], check=False)


def _fruitless(lines: list[str]) -> dict[str, float]:
    """What lies between the last attempt that reclaimed something and the kill.

    Counts, and milliseconds. Printing the group's statistics at the kill flushes them.
    """
    kills = [n for n, line in enumerate(lines) if " mark_victim:" in line]
    lines = lines[: kills[0] if kills else 0]
    ends = [
        n for n, line in enumerate(lines) if re.search(r"reclaim_end: nr_reclaimed=[1-9]", line)
    ]
    last = lines[ends[-1] + 1 if ends else 0 :]
    counts = {
        says: sum(f" {Path(name).name}:" in line for line in last) for name, says in EVENTS.items()
    }
    times = [float(m[1]) for line in last if (m := re.search(r" (\d+\.\d+): ", line))]
    return {**counts, "milliseconds": 1e3 * (times[-1] - times[0]) if times else 0.0}
