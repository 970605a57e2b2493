"""Reads or writes a file past the page cache for some time, and prints how fast, as JSON.

Runs as ``python -I -S storage_probe.py DESCRIPTOR DIRECTION WAY…``, each way as
``PATTERN:REQUEST_BYTES:DEPTH:SECONDS``. The descriptor is of the file, opened by who started it: a
name could lead elsewhere by now. It runs inside the cgroup whose disks are held, so it imports
nothing of edgebench.
"""

from __future__ import annotations

import json
import mmap
import os
import random
import sys
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


class _Requests:
    """Where each request goes: one after another, or anywhere."""

    def __init__(self, pattern: str, size_bytes: int, request_bytes: int) -> None:
        self._count = size_bytes // request_bytes
        self._bytes = request_bytes
        self._random = random.Random() if pattern == "random" else None
        self._lock = threading.Lock()
        self._next = -1

    def offset(self) -> int:
        """Of the next one, bytes from the file's start."""
        if self._random:
            return self._random.randrange(self._count) * self._bytes
        with self._lock:
            self._next += 1
            return self._next % self._count * self._bytes


def _requests_until(
    descriptor: int, direction: str, requests: _Requests, request_bytes: int, end_s: float
) -> Iterator[tuple[float, float]]:
    """When each request ended, and how long it took."""
    # Direct I/O needs memory at a page's start.
    area = mmap.mmap(-1, request_bytes)
    if direction == "write":
        area.write(os.urandom(request_bytes))
    request = os.preadv if direction == "read" else os.pwritev
    while (began := time.monotonic()) < end_s:
        request(descriptor, [area], requests.offset())
        ended = time.monotonic()
        yield ended, ended - began


def _measure(file: str, direction: str, way: str) -> dict[str, float | None]:
    """Make requests for so long, from ``depth`` threads at once.

    The kernel lets the first requests of an idle cgroup pass at once, so a tenth of the time goes
    before they count.
    """
    pattern, *numbers = way.split(":")
    request_bytes, depth, seconds = int(numbers[0]), int(numbers[1]), float(numbers[2])
    flags = os.O_RDONLY if direction == "read" else os.O_RDWR
    descriptor = os.open(f"/proc/self/fd/{file}", flags | os.O_DIRECT)
    # A block device has no size in its status.
    size_bytes = os.lseek(descriptor, 0, os.SEEK_END)
    requests = _Requests(pattern, size_bytes, request_bytes)
    counted_s = time.monotonic() + seconds / 10
    end_s = counted_s + seconds
    done: list[tuple[float, float]] = []

    def work() -> None:
        done.extend(_requests_until(descriptor, direction, requests, request_bytes, end_s))

    threads = [threading.Thread(target=work) for _ in range(depth)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    os.close(descriptor)
    ends = sorted(ended for ended, _ in done if ended >= counted_s)
    latencies = sorted(latency for ended, latency in done if ended >= counted_s)
    iops = _rate(ends)
    latency_s = latencies[len(latencies) // 2] if latencies else None
    return {"bps": iops * request_bytes, "iops": iops, "latency_s": latency_s}


def _rate(ends: list[float]) -> float:
    """Requests a second: the slope of their number over time, by least squares.

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
    """Measure the file each way, one after another."""
    file, direction, *ways = words
    results = [_measure(file, direction, way) for way in ways]
    os.write(1, json.dumps(results).encode())


if __name__ == "__main__":
    main(sys.argv[1:])
