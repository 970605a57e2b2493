"""Which pages of a cgroup's processes were touched: the kernel marks each in its page tables.

Linux, Documentation/filesystems/proc.rst: ``clear_refs`` takes the marks away, ``smaps`` counts
them as ``Referenced``. Both need CONFIG_PROC_PAGE_MONITOR.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
#: A mapping's first line; what it maps has an inode, anonymous memory has 0.
_MAPPING = re.compile(r"[0-9a-f]+-[0-9a-f]+ \S+ \S+ \S+ (\d+)")
_ALL_PAGES = "1"


@dataclass(frozen=True)
class TouchedPages:
    """Bytes of resident pages that were touched.

    ``file_bytes`` are of mapped files. ``huge_bytes``, of the anonymous ones, lie in huge pages:
    each is marked as a whole where a byte of it was touched.
    """

    anonymous_bytes: int = 0
    file_bytes: int = 0
    huge_bytes: int = 0

    def __add__(self, other: TouchedPages) -> TouchedPages:
        """Of several processes."""
        return TouchedPages(
            self.anonymous_bytes + other.anonymous_bytes,
            self.file_bytes + other.file_bytes,
            self.huge_bytes + other.huge_bytes,
        )


def forget_touched(pids: Iterable[int]) -> bool:
    """Take the marks away; False if the kernel has none, or not for us."""
    try:
        for pid in pids:
            (_PROC / str(pid) / "clear_refs").write_text(_ALL_PAGES)
    except OSError:
        return False
    return True


def touched_pages(pids: Iterable[int]) -> TouchedPages | None:
    """What was touched since :func:`forget_touched`; None if that can't be read.

    A page of a file that several processes touched is counted for each.
    """
    found = TouchedPages()
    try:
        for pid in pids:
            # A mapped file's name may be any bytes.
            found += touched_in((_PROC / str(pid) / "smaps").read_text(errors="replace"))
    except OSError:
        return None
    return found


def touched_in(smaps: str) -> TouchedPages:
    """The same of one process's ``smaps``.

    Pages of a mapped file that were written to are anonymous; of these and of the file's own the
    kernel has one count of touched ones. The file's own are taken to be touched first.
    """
    anonymous = file = huge = resident = 0
    is_file, touched = False, 0
    for line in smaps.splitlines():
        if found := _MAPPING.match(line):
            is_file = found[1] != "0"
        elif line.startswith("Rss:"):
            resident = _bytes(line)
        elif line.startswith("Referenced:"):
            touched = _bytes(line)
        elif line.startswith("Anonymous:"):
            own = min(touched, resident - _bytes(line)) if is_file else 0
            file, anonymous = file + own, anonymous + touched - own
        elif line.startswith("AnonHugePages:"):
            huge += min(touched, _bytes(line))
    return TouchedPages(anonymous, file, huge)


def _bytes(line: str) -> int:
    return int(line.split()[1]) * 1024
