"""What a worker reads at the borders of its rounds, and the event that tells it."""

from __future__ import annotations

import json
import mmap
import os
from pathlib import Path
from typing import Any

import pytest

from edgebench.workloads import round_counters
from edgebench.workloads.recorder import NO_DESCRIPTORS, Recorder
from edgebench.workloads.round_counters import ONLY_SWAP, SWAP_WRITES, VMSTAT, RoundCounters

MIB = 1 << 20
PAGE = os.sysconf("SC_PAGE_SIZE")
STAT = "  30  1  {read}  5  20  2  {written}  7  0  8  9  0 0 0 0 0 0\n"
MACHINE = "nr_free_pages 12\npgpgin 900\npswpin {read}\npswpout {written}\npgalloc_dma 3\n"
OWN = "rchar: 9\nwchar: 9\nsyscr: 9\nsyscw: 9\nread_bytes: {}\nwrite_bytes: 7\n"


class Files:
    """The process's and the swap's statistics, as a kernel would show them."""

    def __init__(self, folder: Path, text: str) -> None:
        self.own, self.swap, self.events = (folder / name for name in ("io", "swap", "events"))
        self._text = text
        self.events.touch()
        self.set(0, 0, 0)

    def set(self, own: int, read: int, written: int) -> None:
        """Read by the process, from swap and to it, in the files' own units."""
        self.own.write_text(OWN.format(own))
        self.swap.write_text(self._text.format(read=read, written=written))


def opened(files: Files, kind: str, **changes: Any) -> Recorder:
    """A recorder with these statistics; its descriptors are closed with the process."""
    descriptors = {**NO_DESCRIPTORS, "swap_io": os.open(files.swap, os.O_RDONLY)}
    descriptors |= {"events": os.open(files.events, os.O_WRONLY), "swap_kind": kind, **changes}
    return Recorder(descriptors)  # type: ignore[arg-type]


def told(files: Files) -> list[dict[str, Any]]:
    """What was told of rounds."""
    events = [json.loads(line) for line in files.events.read_text().splitlines()]
    assert events[-1]["event"] == "counts"
    return [event for event in events if event["event"] == "counts"]


@pytest.mark.parametrize(
    ("kind", "text", "read", "written"),
    [
        (ONLY_SWAP, STAT, 100 * 512, 60 * 512),
        (SWAP_WRITES, STAT, None, 60 * 512),
        (VMSTAT, MACHINE, 100 * PAGE, 60 * PAGE),
        ("", MACHINE, None, None),
    ],
)
def test_a_round_tells_what_came_between_its_borders(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    text: str,
    read: int | None,
    written: int | None,
) -> None:
    """Not what came before or between rounds: that may be the change of a limit."""
    files = Files(tmp_path, text)
    monkeypatch.setattr(round_counters, "_OWN", str(files.own))
    recorder = opened(files, kind)
    files.set(4096, 50, 10)
    with recorder.phases(0, "lenet") as phases:
        phases.begin("load")
        files.set(4096 + 8192, 150, 70)
    files.set(99_999, 999, 999)
    with recorder.span("round", round=1):
        pass
    first, second = told(files)
    assert {**first, "t_ns": 0} == {
        "event": "counts",
        "t_ns": 0,
        "round": 0,
        "in_bytes": 8192,
        "swap_in_bytes": read,
        "out_bytes": written,
        "major_faults": first["major_faults"],
    }
    assert (second["round"], second["in_bytes"]) == (1, 0)
    assert not second["swap_in_bytes"]


def test_a_kernel_that_does_not_count_tells_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Null, never a guessed 0."""
    monkeypatch.setattr(round_counters, "_OWN", str(tmp_path / "absent"))
    files = Files(tmp_path, "nothing here\n")
    with opened(files, VMSTAT).span("round", round=0):
        pass
    (event,) = told(files)
    assert (event["in_bytes"], event["swap_in_bytes"], event["out_bytes"]) == (None, None, None)


def test_what_the_process_reads_from_a_disk_is_counted(tmp_path: Path) -> None:
    """By the real kernel: a read past the page cache is, one from the page cache is not."""
    file = tmp_path / "data"
    file.write_bytes(os.urandom(MIB))
    cached = os.open(file, os.O_RDONLY)
    os.fsync(cached)
    counters = RoundCounters(NO_DESCRIPTORS)
    before = counters.read()
    if before.in_bytes is None:
        pytest.skip("this kernel has no /proc/self/io")
    try:
        direct = os.open(file, os.O_RDONLY | os.O_DIRECT)
        os.preadv(direct, [mmap.mmap(-1, MIB)], 0)
    except OSError as error:
        pytest.skip(f"no disk is read past the page cache here: {error}")
    once = counters.read().since(before).in_bytes
    os.pread(cached, MIB, 0)
    os.pread(cached, MIB, 0)
    # Its pages may have left the page cache once.
    twice = counters.read().since(before).in_bytes
    os.close(cached)
    os.close(direct)
    assert once == MIB
    assert twice is not None
    assert twice <= 2 * MIB
