"""The wall clock's place on ``CLOCK_MONOTONIC``, for profilers that tell only the wall clock.

Kept in a file when the workload is about to start and looked at again after it ended: a clock
that was set in between would put every layer's heap at the wrong place.
"""

from __future__ import annotations

import time
from pathlib import Path

#: More than this much between the two looks, and the clock was set.
STEP_NS = 20_000_000
_FILE = "clock"


def offset_ns() -> int:
    """Wall clock − ``CLOCK_MONOTONIC``, within about a microsecond."""
    before = time.monotonic_ns()
    wall = time.time_ns()
    return wall - (before + time.monotonic_ns()) // 2


def keep_offset(folder: Path) -> None:
    """Keep the offset of now in the folder."""
    (folder / _FILE).write_text(f"{offset_ns()}\n")


def kept_offset(folder: Path) -> tuple[int, str | None]:
    """The offset that was kept, and a note if the wall clock was set since then."""
    kept, now = int((folder / _FILE).read_text()), offset_ns()
    if abs(now - kept) <= STEP_NS:
        return kept, None
    return kept, f"the wall clock was set by {(now - kept) / 1e9:.3f} s while the trial was running"
