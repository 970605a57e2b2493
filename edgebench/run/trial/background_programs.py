"""Programs beside a trial, which end when their stdin closes.

``python background_programs.py load MOST_BYTES SEED`` takes memory and frees it, at random: between
none and ``MOST_BYTES`` of anonymous memory, another amount every half second to two seconds. What
it holds is touched, so that it is really used.

``python background_programs.py poll INTERVAL_S …`` reads the whole system's memory in use, total -
free - buffers - cached (the measure of the study in ``docs/studies/hyperparameters.md``), each
interval on a schedule of its own. In the end it writes one JSON object a line for each interval.
"""

from __future__ import annotations

import json
import mmap
import random
import select
import sys
import time

#: Seconds for which an amount is held.
_SHORTEST_S, _LONGEST_S = 0.5, 2.0


def _say_ready() -> None:
    sys.stdout.write("ready\n")
    sys.stdout.flush()


def load(most: int, seed: str) -> None:
    """Take and free memory until stdin closes."""
    chance, held = random.Random(seed), 0
    area = mmap.mmap(-1, max(most, mmap.PAGESIZE), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    _say_ready()
    while True:
        wanted = int(chance.random() * most) // mmap.PAGESIZE * mmap.PAGESIZE
        for page in range(held, wanted, mmap.PAGESIZE):
            area[page] = 1
        if wanted < held:
            area.madvise(mmap.MADV_DONTNEED, wanted, held - wanted)
        held = wanted
        if select.select([sys.stdin], [], [], chance.uniform(_SHORTEST_S, _LONGEST_S))[0]:
            return


def poll(intervals_s: list[float]) -> None:
    """Read until stdin closes, then write a summary of each interval's readings."""
    import psutil

    readings: dict[float, list[int]] = {interval: [] for interval in intervals_s}
    _say_ready()
    start = time.monotonic()
    while True:
        # The n-th reading is due n intervals after the start, however late the one before it was.
        due = {i: start + len(sizes) * i for i, sizes in readings.items()}
        patience = max(0.0, min(due.values()) - time.monotonic())
        if select.select([sys.stdin], [], [], patience)[0]:
            break
        now = time.monotonic()
        for interval, when in due.items():
            if when <= now:
                memory = psutil.virtual_memory()
                # Shared memory is among the cached, as in Linux.
                used = memory.total - memory.free - memory.buffers - memory.cached
                readings[interval].append(int(used))
    for interval, sizes in readings.items():
        summary = {
            "interval_s": interval,
            "samples": len(sizes),
            "mean_bytes": sum(sizes) / len(sizes) if sizes else None,
            "lowest_bytes": min(sizes, default=None),
            "highest_bytes": max(sizes, default=None),
        }
        sys.stdout.write(json.dumps(summary) + "\n")


def main(program: str, *words: str) -> None:
    """Run the program of that name."""
    if program == "load":
        load(int(words[0]), words[1])
    else:
        poll(list(map(float, words)))


if __name__ == "__main__":
    main(*sys.argv[1:])
