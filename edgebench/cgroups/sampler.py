"""Poll one cgroup's accounting from outside. Run: ``python -I -S sampler.py KEY=VALUE …``.

It imports next to nothing (parsing JSON alone would double its start) and keeps every file
open, so that it costs a few megabytes and a few hundredths of one core at 1 kHz. Rows of int64
go to two raw files; -1 is "not told". It says ``ready`` on stdout after its first row, and ends
when its stdin does: with the harness, however that dies. Then it tells its cost: seconds of CPU
and bytes resident.

Keys: ``usage``, ``swap``, ``cpu``, ``stat`` (files, empty where there is none),
``swap_is_memsw``, ``cpu_unit_ns``, ``stat_keys`` (of ``memory.stat``, joined by commas),
``small`` (``SHAPE,SHAPE…:PATH``, any number of times; shapes: see :func:`numbers`),
``fast_fd``, ``stat_fd`` (open for writing), ``interval_ns``, ``stat_interval_ns``.
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


def main(words: Sequence[str]) -> None:
    """Sample until stdin ends, then print what it cost."""
    pairs = [word.split("=", 1) for word in words]
    spec = dict(pairs)
    read, clock = _reader(spec), time.monotonic_ns
    stat_read = _stat_reader(spec, [value for key, value in pairs if key == "small"])
    fast_fd, stat_fd = int(spec["fast_fd"]), int(spec["stat_fd"])
    interval, stat_interval = int(spec["interval_ns"]), int(spec["stat_interval_ns"])
    stdin = select.poll()
    stdin.register(0, select.POLLIN | select.POLLHUP)
    fast, stat = array("q"), array("q")
    room = max(1, min(_BUFFERED, _WRITTEN_EACH_NS // interval)) * 4
    next_fast = next_stat = clock()
    fast.extend(read(clock()))
    os.write(1, b"ready\n")
    sleep = time.sleep
    while True:
        now = clock()
        try:
            fast.extend(read(now))
            if now >= next_stat:
                stat.extend(stat_read(now))
                next_stat = max(next_stat + stat_interval, now)
                # Once a slow tick is often enough to see the harness go.
                if stdin.poll(0):
                    break
        except OSError:
            break
        if len(fast) >= room:
            os.write(fast_fd, fast)
            os.write(stat_fd, stat)
            fast, stat = array("q"), array("q")
        next_fast += interval
        wait = next_fast - clock()
        if wait > 0:
            sleep(wait / 1e9)
        else:
            next_fast = clock()
    os.write(fast_fd, fast)
    os.write(stat_fd, stat)
    _report()


def _reader(spec: dict[str, str]) -> Callable[[int], tuple[int, ...]]:
    """A function from a time to one fast row: t, usage, swap, CPU."""
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
                # Two reads a microsecond apart may disagree by a batch of charges.
                swap = max(0, swap - usage)
        if cpu_fd is not None:
            text = pread(cpu_fd, 64, 0)
            cpu = int(text.split(None, 2)[1] if text[:1] == b"u" else text) * unit
        return now, usage, swap, cpu

    return read


def _stat_reader(spec: dict[str, str], small: Sequence[str]) -> Callable[[int], list[int]]:
    """A function from a time to one slow row: t, ``stat_keys``, each small file's shapes."""
    stat_fd = os.open(spec["stat"], os.O_RDONLY) if spec["stat"] else None
    files = []
    for word in small:
        shapes, path = word.split(":", 1)
        files.append((os.open(path, os.O_RDONLY), shapes.split(",")))
    keys = [b"\n" + key.encode() + b" " for key in spec["stat_keys"].split(",") if key]
    pread = os.pread

    def read(now: int) -> list[int]:
        row = [now]
        text = b"\n" + pread(stat_fd, 8192, 0) if stat_fd is not None else b""
        for key in keys:
            at = text.find(key)
            row.append(-1 if at < 0 else int(text[at + len(key) : text.find(b"\n", at + 1)]))
        for fd, shapes in files:
            row.extend(numbers(pread(fd, 4096, 0), shapes))
        return row

    return read


def numbers(text: bytes, shapes: Sequence[str]) -> list[int]:
    """A small file's numbers, one for each shape.

    Shapes: ``bare``, a number alone; ``full``, pressure's total; else the key of numbers to be
    added up over devices, ``rbytes=`` (version 2) or ``Read`` (version 1).
    """
    return [_number(text, shape) for shape in shapes]


def _number(text: bytes, shape: str) -> int:
    if shape == "bare":
        return int(text)
    if shape == "full":
        return int(text[text.rindex(b"=") + 1 :])
    words, key = text.split(), shape.encode()
    if shape[-1] == "=":
        return sum(int(word[len(key) :]) for word in words if word.startswith(key))
    found = [int(words[i + 1]) for i, word in enumerate(words) if word == key]
    # Version 1 without a device line counts throttled devices only: not told, rather than 0.
    return sum(found) if found else -1


def _report() -> None:
    used = os.times()
    with open("/proc/self/status") as status:
        peak = next((line for line in status if line.startswith("VmHWM")), "VmHWM: 0 kB")
    rss_bytes = int(peak.split()[1]) * 1024
    os.write(1, f"{used.user + used.system} {rss_bytes}\n".encode())


if __name__ == "__main__":
    main(sys.argv[1:])
