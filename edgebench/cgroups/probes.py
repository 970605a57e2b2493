"""Measure how fast a disk is read or written past the page cache, from inside a cgroup.

``python -I -S probes.py DESCRIPTOR DIRECTION WAY…`` prints the rates as JSON. Each way is
``PATTERN:REQUEST_BYTES:DEPTH:SECONDS``. The descriptor is of the file, opened by the harness: a
name could lead elsewhere by now.
"""

from __future__ import annotations

import itertools
import json
import mmap
import os
import random
import sys
import threading
import time


def measure_disk(file: str, direction: str, way: str) -> dict[str, float]:
    """Make requests one way for its time, from ``depth`` threads at once.

    The kernel lets the first requests of an idle cgroup pass at once, so a tenth of the time goes
    before they count.
    """
    pattern, *numbers = way.split(":")
    request_bytes, depth, seconds = int(numbers[0]), int(numbers[1]), float(numbers[2])
    is_random = pattern == "random"
    flags = os.O_RDONLY if direction == "read" else os.O_RDWR
    descriptor = os.open(f"/proc/self/fd/{file}", flags | os.O_DIRECT)
    # A block device has no size in its status.
    size_bytes = os.lseek(descriptor, 0, os.SEEK_END)
    count = size_bytes // request_bytes
    # One call of C: no two threads get the same number.
    in_turn, anywhere = itertools.count(), random.Random()
    request = os.preadv if direction == "read" else os.pwritev
    counted_s = time.monotonic() + seconds / 10
    end_s = counted_s + seconds
    #: When each request ended.
    done: list[float] = []

    def work() -> None:
        # Direct I/O needs memory at a page's start.
        area = mmap.mmap(-1, request_bytes)
        if direction == "write":
            area.write(os.urandom(request_bytes))
        while time.monotonic() < end_s:
            place = anywhere.randrange(count) if is_random else next(in_turn) % count
            request(descriptor, [area], place * request_bytes)
            done.append(time.monotonic())

    threads = [threading.Thread(target=work) for _ in range(depth)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    os.close(descriptor)
    iops = _rate(sorted(ended for ended in done if ended >= counted_s))
    return {"bps": iops * request_bytes, "iops": iops}


def _rate(ends: list[float]) -> float:
    """Fit requests a second: the slope of their number over time, by least squares.

    Held requests end in bursts; between the first one's end and the last one's, one burst too
    many would count.
    """
    if len(ends) < 2:
        return 0.0
    mean_s, mean = sum(ends) / len(ends), (len(ends) - 1) / 2
    spread = sum((end - mean_s) ** 2 for end in ends)
    both = sum((end - mean_s) * (number - mean) for number, end in enumerate(ends))
    return both / spread if spread else 0.0


def main(words: list[str]) -> None:
    """Measure each way and print the results."""
    file, direction, *ways = words
    results = [measure_disk(file, direction, way) for way in ways]
    os.write(1, json.dumps(results).encode())


if __name__ == "__main__":
    main(sys.argv[1:])
