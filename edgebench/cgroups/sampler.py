"""Poll one cgroup's accounting from outside. Run: ``python -I -S sampler.py KEY=VALUE …``.

It imports next to nothing (parsing JSON alone would double its start) and keeps every file
open, so that it costs a few megabytes. Rows of int64 go to two raw files; -1 is "not available".
It prints ``ready`` on stdout after its first row, and ends when its stdin does: with the
harness, however that ends. Then it prints its cost: seconds of CPU and bytes resident.

Waking up is most of what it costs. So the time between two readings doubles while usage and swap
stay the same, up to ``quiet_interval_ns``, and is ``interval_ns`` again after the first reading
that differs by more than :data:`SAME_BYTES`. The slow files cost as much again. They are read every
``stat_interval_ns``; where usage and swap are within twice that of what they were at the last
such reading, every ``quiet_stat_interval_ns``.

Keys: ``usage``, ``swap``, ``cpu``, ``stat`` (files, empty where there is none),
``swap_is_memsw``, ``cpu_unit_ns``, ``stat_keys`` (of ``memory.stat``, joined by commas),
``small`` (``SHAPE,SHAPE…:PATH``, any number of times; shapes: see :func:`numbers`),
``fast_fd``, ``stat_fd`` (open for writing), ``interval_ns``, ``quiet_interval_ns``,
``stat_interval_ns``, ``quiet_stat_interval_ns``.
"""

from __future__ import annotations

import os
import select
import sys
import time
from array import array

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Rows kept in memory before they are written, and for how long: who watches sees them then.
_BUFFERED = 512
_WRITTEN_EACH_NS = 500_000_000
#: The end of stdin is seen within this time: to wait for it costs more than to sleep.
_END_SEEN_WITHIN_NS = 10_000_000
#: A smaller change is none: that of two batches of 64 pages, in which the kernel charges each CPU.
SAME_BYTES = 128 * os.sysconf("SC_PAGE_SIZE")


def main(words: Sequence[str]) -> None:
    """Sample until stdin ends, then print what it cost."""
    pairs = [word.split("=", 1) for word in words]
    spec = dict(pairs)
    read, clock, sleep = _reader(spec), time.monotonic_ns, time.sleep
    stat_read = _stat_reader(spec, [value for key, value in pairs if key == "small"])
    interval, quiet_interval = int(spec["interval_ns"]), int(spec["quiet_interval_ns"])
    slow = _SlowPace(int(spec["stat_interval_ns"]), int(spec["quiet_stat_interval_ns"]))
    fast, stat = array("q"), array("q")
    fds = int(spec["fast_fd"]), int(spec["stat_fd"])
    wait, due = interval, clock()
    next_look, next_write = due, due + _WRITTEN_EACH_NS
    _, usage, swap, _ = row = read(due)
    fast.extend(row)
    os.write(1, b"ready\n")
    while True:
        now = clock()
        try:
            row = read(now)
            fast.extend(row)
            if slow.is_due(now, row):
                stat.extend(stat_read(now))
        except OSError:
            break
        same = abs(row[1] - usage) <= SAME_BYTES and abs(row[2] - swap) <= SAME_BYTES
        wait = min(2 * wait, quiet_interval) if same else interval
        _, usage, swap, _ = row
        if now >= next_write or len(fast) >= _BUFFERED * len(row):
            _write(fds, fast, stat)
            next_write = now + _WRITTEN_EACH_NS
        due += wait
        if wait > interval:
            # One wake for both tables.
            due = min(due, max(slow.next_ns, now + interval))
        left = max(0, due - clock())
        if left > _END_SEEN_WITHIN_NS or now >= next_look:
            next_look = now + _END_SEEN_WITHIN_NS
            if select.select((0,), (), (), left / 1e9)[0]:
                break
        elif left:
            sleep(left / 1e9)
        if not left:
            due = clock()
    _write(fds, fast, stat)
    used = os.times()
    with open("/proc/self/status") as status:
        peak = next((line for line in status if line.startswith("VmHWM")), "VmHWM: 0 kB")
    rss_bytes = int(peak.split()[1]) * 1024
    os.write(1, f"{used.user + used.system} {rss_bytes}\n".encode())


class _SlowPace:
    """When the slow files are read.

    Args:
        interval_ns: between two readings.
        quiet_ns: the same while usage and swap are about what they were at the last one.
    """

    def __init__(self, interval_ns: int, quiet_ns: int) -> None:
        self._interval, self._quiet = interval_ns, quiet_ns - interval_ns
        self._soonest = 0
        # Far from all there is: the first row is a reading.
        self._usage = self._swap = -3 * SAME_BYTES
        #: The next reading, as far as is known.
        self.next_ns = 0

    def is_due(self, now: int, row: tuple[int, ...]) -> bool:
        _, usage, swap, _ = row
        moved = abs(usage - self._usage) > 2 * SAME_BYTES or abs(swap - self._swap) > 2 * SAME_BYTES
        self.next_ns = self._soonest if moved else self._soonest + self._quiet
        if now < self.next_ns:
            return False
        self._usage, self._swap = usage, swap
        # Its pace is kept, unless this one comes late.
        is_late = now - self.next_ns > self._interval // 2
        self._soonest = (now if is_late else self.next_ns) + self._interval
        self.next_ns = self._soonest + self._quiet
        return True


def _write(fds: tuple[int, int], *tables: array[int]) -> None:
    for fd, table in zip(fds, tables, strict=True):
        os.write(fd, table)
        del table[:]


def _reader(spec: dict[str, str]) -> Callable[[int], tuple[int, ...]]:
    """Return a function from a time to one fast row: t, usage, swap, CPU."""
    usage_fd = os.open(spec["usage"], os.O_RDONLY)
    swap_fd = os.open(spec["swap"], os.O_RDONLY) if spec["swap"] else None
    cpu_fd = os.open(spec["cpu"], os.O_RDONLY) if spec["cpu"] else None
    pread, together, unit = os.pread, spec["swap_is_memsw"] == "True", int(spec["cpu_unit_ns"])

    def read(now: int) -> tuple[int, ...]:
        usage = int(pread(usage_fd, 32, 0))
        swap = cpu = -1
        if swap_fd is not None:
            swap = int(pread(swap_fd, 32, 0))
            if together:
                # What came or went between two reads would pass for swap.
                more = swap - usage
                swap = 0 if more <= 0 else max(0, swap - max(usage, int(pread(usage_fd, 32, 0))))
        if cpu_fd is not None:
            text = pread(cpu_fd, 64, 0)
            cpu = int(text.split(None, 2)[1] if text[:1] == b"u" else text) * unit
        return now, usage, swap, cpu

    return read


def _stat_reader(spec: dict[str, str], small: Sequence[str]) -> Callable[[int], list[int]]:
    """Return a function from a time to one slow row: t, ``stat_keys``, each small file's shapes."""
    stat_fd = os.open(spec["stat"], os.O_RDONLY) if spec["stat"] else None
    files = [_small_reader(word) for word in small]
    keys = [b"\n" + key.encode() + b" " for key in spec["stat_keys"].split(",") if key]
    pread = os.pread
    order: list[int] = []
    last, values = b"", [-1] * len(keys)

    def read(now: int) -> list[int]:
        nonlocal last
        # Before the statistics: what they count of files then lay there at the peak, too.
        more = [number for read_small in files for number in read_small()]
        text = pread(stat_fd, 8192, 0) if stat_fd is not None else b""
        if text != last:
            last = text
            parse(b"\n" + text)
        return [now, *values, *more]

    def parse(text: bytes) -> None:
        at = 0
        if not order:
            # The kernel's own, which never changes: one pass then finds all.
            order.extend(sorted(range(len(keys)), key=lambda column: text.find(keys[column])))
        for column in order:
            start = text.find(keys[column], at)
            if start >= 0:
                at = text.find(b"\n", start + 1)
                values[column] = int(text[start + len(keys[column]) : at])

    return read


def _small_reader(word: str) -> Callable[[], list[int]]:
    """Return a function that reads a small file, and its numbers anew only where its text is."""
    shapes, path = word.split(":", 1)
    fd, pread = os.open(path, os.O_RDONLY), os.pread
    last: bytes | None = None
    values: list[int] = []

    def read() -> list[int]:
        nonlocal last, values
        text = pread(fd, 4096, 0)
        if text != last:
            last, values = text, numbers(text, shapes.split(","))
        return values

    return read


def numbers(text: bytes, shapes: Sequence[str]) -> list[int]:
    """Parse a small file's numbers, one for each shape.

    Shapes: ``bare``, a number alone; ``full``, pressure's total; else the key of numbers to be
    added up over devices, ``rbytes=`` (version 2) or ``Read`` (version 1).
    """
    words, values = text.split(), []
    for shape in shapes:
        key = shape.encode()
        if shape == "bare":
            value = int(text)
        elif shape == "full":
            value = int(text[text.rindex(b"=") + 1 :])
        elif shape[-1] == "=":
            value = sum(int(word[len(key) :]) for word in words if word.startswith(key))
        else:
            devices = [int(words[i + 1]) for i, word in enumerate(words) if word == key]
            # Version 1 without a device line counts throttled devices only: not available, not 0.
            value = sum(devices) if devices else -1
        values.append(value)
    return values


if __name__ == "__main__":
    main(sys.argv[1:])
