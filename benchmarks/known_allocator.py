"""A known allocation against what the kernel's mark, the samples and GNU time make of it.

The allocator is a child of a child. Its base is the same program with nothing allocated.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import report

from edgebench.records import LimitSetting, TrialRecord
from edgebench.run.command import measure_command

MIB = 1 << 20
#: X MiB of anonymous memory held for 5 ms.
ANONYMOUS = """
import mmap, sys, time
size = int(sys.argv[1]) << 20
if size:
    held = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for page in range(0, size, 4096):
        held[page] = 1
    time.sleep(0.005)
    held.close()
"""
#: Y MiB of a file's pages read into the page cache: without read-ahead, which would read more,
#: and through a buffer too small to count.
CACHE = """
import os, sys
fd, left = os.open(sys.argv[2], os.O_RDONLY), int(sys.argv[1]) << 20
os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
while left:
    left -= len(os.read(fd, 1 << 16))
"""
CHILD = "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode)"
PYTHON = [sys.executable, "-I", "-S", "-c"]


def trial(program: str, mib: int, *words: str) -> TrialRecord:
    """One trial of the program in a child of a child."""
    inner = [*PYTHON, CHILD, *PYTHON, program, str(mib), *words]
    record = measure_command([*PYTHON, CHILD, *inner], LimitSetting())
    assert record.outcome == "ok", record.reason
    return record


def median_peak(key: str, records: list[TrialRecord]) -> float:
    """Median of one kind of peak, in MiB."""
    return statistics.median(getattr(record, key) for record in records) / MIB


def cache_trial(mib: int, file: Path) -> TrialRecord:
    """One trial that reads the file, whose pages nobody owns before."""
    fd = os.open(file, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)
    return trial(CACHE, mib, str(file))


def rows(repeats: int, harness: str) -> list[list[object]]:
    """A row for each size and kind."""
    keys = ("peak_bytes", "sampled_peak_bytes", "gnu_time_maxrss_bytes")
    table: list[list[object]] = []
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        file = Path(folder) / "pages"
        file.write_bytes(os.urandom(256 * MIB))
        os.sync()
        kinds = {
            "anonymous, 5 ms": lambda mib: trial(ANONYMOUS, mib),
            "file cache": lambda mib: cache_trial(mib, file),
        }
        for kind, make in kinds.items():
            base = [make(0) for _ in range(repeats)]
            for mib in (1, 16, 64, 256):
                seen = [make(mib) for _ in range(repeats)]
                above = [median_peak(key, seen) - median_peak(key, base) for key in keys]
                table.append([harness, kind, mib, *(f"{value:.2f}" for value in above)])
    return table


def main(repeats: int) -> None:
    """Measure with a small harness, then with one that holds 400 MB."""
    if os.environ.get("BALLAST"):
        ballast = bytearray(os.urandom(MIB)) * 400
        for row in rows(repeats, f"{len(ballast) // MIB} MiB"):
            print("\t".join(map(str, row)))
        return
    table = rows(repeats, "small")
    done = subprocess.run(
        [sys.executable, __file__, str(repeats)],
        env={**os.environ, "BALLAST": "1"},
        text=True,
        capture_output=True,
        check=True,
    )
    table += [line.split("\t") for line in done.stdout.splitlines()]
    says = "Peak above the program's base, MiB, of a known allocation in a child of a child."
    header = ["harness", "kind", "truth", "kernel's", "sampled at 1 kHz", "GNU time's"]
    report.write(
        "known_allocator", says, header, table, [dict(zip(header, r, strict=True)) for r in table]
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
