"""``python system_poll.py INTERVAL_S …``: the whole system's memory in use, until stdin closes.

The measure of the study in ``docs/studies/hyperparameters.md``: total - free - buffers - cached.
Each interval is read on a schedule of its own. On stdin's end it writes one JSON object a line for
each interval: ``interval_s``, ``samples``, ``mean_bytes``, ``lowest_bytes``, ``highest_bytes``.
"""

from __future__ import annotations

import json
import select
import sys
import time

import psutil


def system_used_bytes() -> int:
    """Total - free - buffers - cached, bytes; shared memory is among the cached, as in Linux."""
    memory = psutil.virtual_memory()
    return int(memory.total - memory.free - memory.buffers - memory.cached)


def poll(intervals_s: list[float]) -> dict[float, list[int]]:
    """Interval → its readings, the first one at once."""
    readings: dict[float, list[int]] = {interval: [] for interval in intervals_s}
    start = time.monotonic()
    while True:
        # The n-th reading is due n intervals after the start, however late the one before it was.
        due = {i: start + len(found) * i for i, found in readings.items()}
        patience = max(0.0, min(due.values()) - time.monotonic())
        if select.select([sys.stdin], [], [], patience)[0]:
            return readings
        now = time.monotonic()
        for interval, when in due.items():
            if when <= now:
                readings[interval].append(system_used_bytes())


def main(words: list[str]) -> None:
    """Read until stdin closes, then write a summary of each interval's readings."""
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for interval, found in poll([float(word) for word in words]).items():
        summary = {
            "interval_s": interval,
            "samples": len(found),
            "mean_bytes": sum(found) / len(found) if found else None,
            "lowest_bytes": min(found, default=None),
            "highest_bytes": max(found, default=None),
        }
        sys.stdout.write(json.dumps(summary) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
