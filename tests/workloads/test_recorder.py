"""The recorder's events: spans with counters and their own peak, and what rounds read and wrote."""

from __future__ import annotations

import json
import mmap
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from resource import getrusage, struct_rusage
from typing import Any

import pytest

from edgebench.measures.view import View
from edgebench.workloads.events import ONLY_SWAP, VMSTAT, Descriptors, RoundCounters
from edgebench.workloads.recorder import NO_DESCRIPTORS, Recorder

MIB = 1 << 20


class Kernel:
    """Counter files as a kernel would show them, and the events written so far."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._fds: list[int] = []
        #: User and system seconds, KiB resident at most, minor and major faults.
        self.used_so_far = [0.5, 0.25, 2000, 10, 2]
        #: Faults of each reading of what was used.
        self.reading_costs = 0
        for name in ("usage", "peak", "swap", "events"):
            (folder / name).write_text("")

    def set(self, **values: int) -> None:
        self.use(minor=1)
        self.set_without_fault(**values)

    def set_without_fault(self, **values: int | str) -> None:
        for name, value in values.items():
            (self.folder / name).write_text(f"{value}\n")

    def use(
        self, user_s: float = 0, system_s: float = 0, kib: int = 0, minor: int = 0, major: int = 0
    ) -> None:
        """The process uses so much more."""
        more = (user_s, system_s, kib, minor, major)
        self.used_so_far = [sum(pair) for pair in zip(self.used_so_far, more, strict=True)]

    def used(self, who: int) -> struct_rusage:
        self.use(minor=self.reading_costs)
        user_s, system_s, kib, minor, major = self.used_so_far
        real = getrusage(who)
        return struct_rusage((user_s, system_s, kib, *real[3:6], minor, major, *real[8:]))

    def peak(self) -> int:
        return int((self.folder / "peak").read_text())

    def descriptors(self, **changes: Any) -> Descriptors:
        opened = {name: self.open(name) for name in ("usage", "peak", "swap", "events")}
        return {**NO_DESCRIPTORS, **opened, "peak_resets": True, **changes}  # type: ignore[typeddict-item]

    def open(self, name: str) -> int:
        flags = os.O_RDWR | (os.O_APPEND if name == "events" else 0)
        self._fds.append(os.open(self.folder / name, flags))
        return self._fds[-1]

    def events(self) -> list[dict[str, Any]]:
        """All events so far."""
        return [json.loads(line) for line in (self.folder / "events").read_text().splitlines()]

    def ends(self) -> dict[int, dict[str, Any]]:
        return {e["id"]: e for e in self.events() if e["event"] == "end"}

    def close(self) -> None:
        for fd in self._fds:
            os.close(fd)


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernel]:
    """Counter files with values; writing to one replaces all of it, as in a kernel's."""
    made = Kernel(tmp_path)
    pwrite = os.pwrite

    def replace(fd: int, data: bytes, offset: int) -> int:
        os.ftruncate(fd, 0)
        return pwrite(fd, data, offset)

    monkeypatch.setattr(os, "pwrite", replace)
    monkeypatch.setattr("edgebench.workloads.recorder.getrusage", made.used)
    made.set(usage=5 * MIB, peak=6 * MIB, swap=1 * MIB)
    yield made
    made.close()


def test_a_span_has_a_start_and_an_end_with_all_their_keys(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(kernel.descriptors())
    kernel.reading_costs = 1000
    pread = os.pread

    def read(*words: int) -> bytes:
        kernel.use(minor=500)
        return pread(*words)

    monkeypatch.setattr(os, "pread", read)
    before_ns = time.monotonic_ns()
    with recorder.span("load", round=1, network="lenet", layer=3, name="features.3"):
        kernel.use(0.3, 0.1, kib=500, minor=7, major=3)
        kernel.set_without_fault(usage=6 * MIB, peak=8 * MIB, swap=4 * MIB)
    start, end = kernel.events()
    assert before_ns < start.pop("t_ns") <= end.pop("t_ns") < time.monotonic_ns()
    assert start == {
        "event": "start",
        "id": 0,
        "phase": "load",
        "round": 1,
        "network": "lenet",
        "layer": 3,
        "name": "features.3",
        "thread": 0,
        "usage_bytes": 5 * MIB,
        "swap_bytes": MIB,
    }
    assert end == {
        "event": "end",
        "id": 0,
        "usage_bytes": 6 * MIB,
        "swap_bytes": 4 * MIB,
        "peak_bytes": 8 * MIB,
        "cpu_ns": 400_000_000,
        "major_faults": 3,
        # The reading at its end, too.
        "minor_faults": 7 + 1000,
        "maxrss_bytes": 2500 * 1024,
    }


def test_the_mark_is_reset_at_each_boundary_and_kept_for_spans_around(kernel: Kernel) -> None:
    """A peak inside belongs to both spans; one before to neither; one between to the outer."""
    recorder = Recorder(kernel.descriptors())
    kernel.set(peak=90 * MIB)
    with recorder.span("round"):
        assert kernel.peak() == 0
        with recorder.span("load"):
            kernel.set(peak=10 * MIB)
        kernel.set(peak=50 * MIB)
        with recorder.span("first"):
            kernel.set(peak=20 * MIB)
    ends = kernel.ends()
    assert [ends[n]["peak_bytes"] // MIB for n in range(3)] == [50, 10, 20]


def test_a_mark_that_is_the_usage_is_left_alone_and_lost_to_nobody(kernel: Kernel) -> None:
    """Resetting it would change nothing, so layers are not charged the time of it."""
    recorder = Recorder(kernel.descriptors())
    kernel.set(usage=7 * MIB, peak=7 * MIB)
    with recorder.span("round"):
        with recorder.span("load"):
            assert kernel.peak() == 7 * MIB
        kernel.set(usage=9 * MIB, peak=9 * MIB)
        with recorder.span("first"):
            pass
        assert kernel.peak() == 9 * MIB
        kernel.set(usage=3 * MIB)
    ends = kernel.ends()
    assert [ends[n]["peak_bytes"] // MIB for n in range(3)] == [9, 7, 9]


def test_without_a_page_fault_the_mark_is_not_read_and_not_lost(kernel: Kernel) -> None:
    recorder = Recorder(kernel.descriptors())
    with recorder.span("round"):
        kernel.set_without_fault(peak=50 * MIB)
        with recorder.span("load"):
            pass
        assert kernel.peak() == 50 * MIB
        kernel.set_without_fault(usage=4 * MIB)
        with recorder.span("first"):
            assert kernel.peak() == 0
    ends = kernel.ends()
    assert [ends[n]["peak_bytes"] // MIB for n in range(3)] == [50, 5, 4]


def test_lines_are_written_when_the_outermost_span_has_ended(kernel: Kernel) -> None:
    """Until then nothing is, so that no span is charged for it; notes are written at once."""
    recorder = Recorder(kernel.descriptors())
    with recorder.span("round", round=0):
        with recorder.span("load", round=0):
            pass
        assert kernel.events() == []
    assert [event["event"] for event in kernel.events()] == [
        *("start", "start", "end", "end", "counts")
    ]
    with recorder.span("round", round=1):
        recorder.note(a=1)
        assert [event["event"] for event in kernel.events()[5:]] == ["start", "note"]


def test_a_long_round_is_written_on_the_way(kernel: Kernel) -> None:
    recorder = Recorder(kernel.descriptors())
    count = 3000
    with recorder.span("round", round=7):
        for layer in range(count):
            with recorder.span("load", round=7, network="nét", layer=layer, name=f"l\n{layer}"):
                pass
        assert len(kernel.events()) > count
    events = kernel.events()
    starts = [event for event in events if event["event"] == "start"][1:]
    assert [(s["id"], s["layer"], s["name"], s["network"], s["round"]) for s in starts] == [
        (layer + 1, layer, f"l\n{layer}", "nét", 7) for layer in range(count)
    ]
    assert sorted(kernel.ends()) == list(range(count + 1))


def test_a_collection_while_something_is_recorded_comes_later(kernel: Kernel) -> None:
    """It may come at any allocation, so it waits for no lock; its line is not lost."""
    recorder = Recorder(kernel.descriptors())
    with recorder._lock:
        recorder.collection(1, 2, 2, 3)
    assert kernel.events() == []
    recorder.collection(4, 5, 2, 6)
    recorder.flush()
    assert [(event["start_ns"], event["t_ns"]) for event in kernel.events()] == [(4, 5), (1, 2)]


def test_without_a_reset_there_is_no_peak(kernel: Kernel) -> None:
    """A mark that can't be reset tells nothing about a span: null, not a guess."""
    recorder = Recorder(kernel.descriptors(peak_resets=False))
    with recorder.span("load"):
        pass
    assert kernel.ends()[0]["peak_bytes"] is None


@pytest.mark.parametrize(("both_mib", "swap_mib"), [(7, 2), (5, 0), (3, 0)])
def test_swap_is_told_alone_where_the_kernel_counts_it_with_memory(
    kernel: Kernel, both_mib: int, swap_mib: int
) -> None:
    """Version 1 shows the sum, which is read a moment later: never less than none."""
    kernel.set(usage=5 * MIB, swap=both_mib * MIB)
    recorder = Recorder(kernel.descriptors(swap_is_memsw=True))
    with recorder.span("load"):
        pass
    assert kernel.events()[0]["swap_bytes"] == swap_mib * MIB


def test_what_a_limit_leaves_is_beside_what_is_in_use(kernel: Kernel) -> None:
    """5 MiB are; never less than nothing, and not known without a limit or its counter."""
    recorder = Recorder(kernel.descriptors())
    free = [recorder.free_bytes(limit) for limit in (7 * MIB, 3 * MIB, None)]
    assert free == [2 * MIB, 0, None]
    assert Recorder(NO_DESCRIPTORS).free_bytes(7 * MIB) is None


class Marks(View):
    """A view whose marks are given; it costs memory to look, which is in no span's peak."""

    def __init__(self, kernel: Kernel, *marks: int) -> None:
        super().__init__(kernel.folder, NO_DESCRIPTORS)
        self._kernel, self._marks, self.resets = kernel, list(marks), 0

    def mark(self) -> int:
        return self._marks.pop(0)

    def look(self, whole: bool) -> dict[str, int]:
        self._kernel.set(peak=99 * MIB)
        return {"resets": self.resets, "whole": int(whole)}

    def reset(self) -> None:
        self.resets += 1


def test_a_view_s_marks_are_each_span_s_own(kernel: Kernel) -> None:
    """The most of them within it, as of the kernel's; both are reset at each boundary."""
    recorder = Recorder(kernel.descriptors(), Marks(kernel, 70, 50, 30, 40))
    with recorder.span("round"):
        kernel.set(peak=20 * MIB)
        with recorder.span("load", layer=0):
            kernel.set(peak=10 * MIB)
        kernel.set(peak=15 * MIB)
    ends = kernel.ends()
    assert [ends[n]["view_peak_bytes"] for n in (0, 1)] == [50, 30]
    assert [ends[n]["peak_bytes"] // MIB for n in (0, 1)] == [20, 10]
    views = [event["view"] for event in kernel.events() if "view" in event]
    assert views == [{"resets": n, "whole": int(n in (0, 3))} for n in range(4)]


def test_a_span_cut_short_by_an_error_has_no_end(kernel: Kernel) -> None:
    """So the outcome can name it; the error goes on."""
    recorder = Recorder(kernel.descriptors())
    with pytest.raises(KeyError), recorder.span("load"):
        raise KeyError
    recorder.flush()
    assert [event["event"] for event in kernel.events()] == ["start"]


def test_spans_of_many_threads_are_whole_and_apart(kernel: Kernel) -> None:
    recorder = Recorder(kernel.descriptors())
    together = threading.Barrier(4)

    def work(number: int) -> None:
        together.wait()
        for layer in range(50):
            with recorder.span("load", round=0, network=str(number), layer=layer):
                pass

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    starts = [event for event in kernel.events() if event["event"] == "start"]
    assert sorted(event["id"] for event in starts) == list(range(200))
    assert {event["thread"] for event in starts} == {0, 1, 2, 3}
    assert len(kernel.ends()) == 200


PAGE = os.sysconf("SC_PAGE_SIZE")
STAT = "  30  1  {read}  5  20  2  {written}  7  0  8  9  0 0 0 0 0 0"
MACHINE = "nr_free_pages 12\npgpgin 900\npswpin {read}\npswpout {written}\npgalloc_dma 3"
OWN = "rchar: 9\nwchar: 8\nsyscr: 7\nsyscw: 6\nread_bytes: {}\nwrite_bytes: 5"


@pytest.mark.parametrize(
    ("kind", "text", "read", "written"),
    [
        (ONLY_SWAP, STAT, 100 * 512, 60 * 512),
        (VMSTAT, MACHINE, 100 * PAGE, 60 * PAGE),
        ("", MACHINE, None, None),
        (VMSTAT, "nothing here", None, None),
    ],
)
def test_a_round_tells_what_came_between_its_borders(
    kernel: Kernel,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    text: str,
    read: int | None,
    written: int | None,
) -> None:
    """Not what came before or between rounds: that may be the change of a limit."""

    def show(own: int, from_swap: int, to_swap: int) -> None:
        io = text.format(read=from_swap, written=to_swap)
        kernel.set_without_fault(io=OWN.format(own), swap_io=io)

    monkeypatch.setattr("edgebench.workloads.events._OWN", str(kernel.folder / "io"))
    show(0, 0, 0)
    recorder = Recorder(kernel.descriptors(swap_io=kernel.open("swap_io"), swap_kind=kind))
    show(4096, 50, 10)
    with recorder.phases(0, "lenet") as phases:
        phases.begin("load")
        kernel.use(minor=9, major=4)
        show(4096 + 8192, 150, 70)
    show(99_999, 999, 999)
    with recorder.span("round", round=1):
        pass
    first, second = (event for event in kernel.events() if event["event"] == "counts")
    assert {**first, "t_ns": 0} == {
        "event": "counts",
        "t_ns": 0,
        "round": 0,
        "in_bytes": 8192,
        "swap_in_bytes": read,
        "out_bytes": written,
        "major_faults": 4,
    }
    assert (second["round"], second["in_bytes"], second["major_faults"]) == (1, 0, 0)
    assert not second["swap_in_bytes"]


def test_a_kernel_that_does_not_count_tells_nothing(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgebench.workloads.events._OWN", str(kernel.folder / "absent"))
    with Recorder(kernel.descriptors()).span("round", round=0):
        pass
    event = kernel.events()[-1]
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
