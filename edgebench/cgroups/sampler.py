"""Poll one cgroup's accounting from outside. Run by itself: ``python -I -S sampler.py SPEC``.

It imports next to nothing and keeps every file open, so that it costs a few megabytes and a
few hundredths of one core at 1 kHz. Rows of int64 go to two raw files; -1 is "not told". It
says ``ready`` on stdout after its first row, and ends when its stdin does: with the harness,
however that dies.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from array import array

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: Rows kept in memory before they are written: half a second's at 1 kHz.
_BUFFERED = 512


def main(spec: dict[str, Any]) -> None:
    """Sample until stdin ends, then print what it cost."""
    read, stat_read, clock = _reader(spec), _stat_reader(spec), time.monotonic_ns
    fast_fd, stat_fd = spec["fast_fd"], spec["stat_fd"]
    interval, stat_interval = spec["interval_ns"], spec["stat_interval_ns"]
    stdin = select.poll()
    stdin.register(0, select.POLLIN | select.POLLHUP)
    fast, stat = array("q"), array("q")
    room = _BUFFERED * 4
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


def _reader(spec: dict[str, Any]) -> Callable[[int], tuple[int, ...]]:
    """A function from a time to one fast row: t, usage, swap, CPU."""
    usage_fd = os.open(spec["usage"], os.O_RDONLY)
    swap_fd = os.open(spec["swap"], os.O_RDONLY) if spec["swap"] else None
    cpu_fd = os.open(spec["cpu"], os.O_RDONLY) if spec["cpu"] else None
    pread, together, unit = os.pread, spec["swap_is_memsw"], spec["cpu_unit_ns"]

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


def _stat_reader(spec: dict[str, Any]) -> Callable[[int], list[int]]:
    """A function from a time to one slow row, in the order of the spec's columns."""
    stat_fd = os.open(spec["stat"], os.O_RDONLY) if spec["stat"] else None
    extra = [(os.open(path, os.O_RDONLY), kind) for path, kind in spec["extra"]]
    keys = [b"\n" + key.encode() + b" " for key in spec["stat_keys"]]
    pread = os.pread

    def read(now: int) -> list[int]:
        row = [now]
        text = b"\n" + pread(stat_fd, 8192, 0) if stat_fd is not None else b""
        for key in keys:
            at = text.find(key)
            row.append(-1 if at < 0 else int(text[at + len(key) : text.find(b"\n", at + 1)]))
        for fd, kind in extra:
            row.append(_number(pread(fd, 4096, 0), kind))
        return row

    return read


def _number(text: bytes, kind: str) -> int:
    """One number of a small file: a bare one, pressure's total, a sum by ``key=`` or ``Key``."""
    if kind == "":
        return int(text)
    if kind == "full":
        return int(text[text.rindex(b"=") + 1 :])
    words = text.split()
    key = kind.encode()
    if kind.endswith("="):
        return sum(int(word[len(key) :]) for word in words if word.startswith(key))
    return sum(int(words[i + 1]) for i, word in enumerate(words) if word == key)


def _report() -> None:
    used = os.times()
    with open("/proc/self/status") as status:
        peak = next((line for line in status if line.startswith("VmHWM")), "VmHWM: 0 kB")
    cost = {"cpu_s": used.user + used.system, "rss_bytes": int(peak.split()[1]) * 1024}
    os.write(1, json.dumps(cost).encode() + b"\n")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
