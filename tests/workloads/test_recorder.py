"""The recorder words spans as events, with the kernel's counters and the span's own peak."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from resource import getrusage, struct_rusage
from typing import Any

import pytest

from edgebench.spans import events_to_phases
from edgebench.workloads.events import Descriptors
from edgebench.workloads.recorder import NO_DESCRIPTORS, Recorder

MIB = 1 << 20


class Kernel:
    """Counter files as a kernel would show them, and the events written so far."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._fds: list[int] = []
        self._faults = 0
        for name in ("usage", "peak", "swap", "events"):
            (folder / name).write_text("")

    def set(self, **values: int) -> None:
        """Have files show these values, after a page fault."""
        self._faults += 1
        self.set_without_fault(**values)

    def set_without_fault(self, **values: int) -> None:
        """Have files show these values."""
        for name, value in values.items():
            (self._folder / name).write_text(f"{value}\n")

    def used(self, who: int) -> struct_rusage:
        """What the process has used, with the page faults that were made up."""
        real = getrusage(who)
        return struct_rusage((*real[:6], self._faults, 0, *real[8:]))

    def peak(self) -> int:
        """The high-water mark as it stands."""
        return int((self._folder / "peak").read_text())

    def descriptors(self, **changes: Any) -> Descriptors:
        """All files open."""
        opened = {name: self._open(name) for name in ("usage", "peak", "swap", "events")}
        fds: Descriptors = {
            **opened,
            "peak_resets": True,
            "swap_is_memsw": False,
            "control": None,
            "records": None,
            "swap_io": None,
            "swap_kind": "",
            **changes,
        }
        return fds

    def _open(self, name: str) -> int:
        flags = os.O_RDWR | (os.O_APPEND if name == "events" else 0)
        self._fds.append(os.open(self._folder / name, flags))
        return self._fds[-1]

    def events(self) -> list[dict[str, Any]]:
        """All events so far."""
        return [json.loads(line) for line in (self._folder / "events").read_text().splitlines()]

    def ends(self) -> dict[int, dict[str, Any]]:
        """The end of each span by its id."""
        return {e["id"]: e for e in self.events() if e["event"] == "end"}

    def close(self) -> None:
        """Close all that was opened."""
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


def test_a_span_has_a_start_and_an_end_with_all_their_keys(kernel: Kernel) -> None:
    """As the protocol names them, on the monotonic clock."""
    recorder = Recorder(kernel.descriptors())
    with recorder.span("load", round=1, network="lenet", layer=3, name="features.3"):
        pass
    start, end = kernel.events()
    assert start["t_ns"] <= end["t_ns"]
    assert {k: v for k, v in start.items() if k != "t_ns"} == {
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
    assert set(end) == {
        *("event", "id", "t_ns", "usage_bytes", "swap_bytes", "peak_bytes"),
        *("cpu_ns", "major_faults", "minor_faults", "maxrss_bytes"),
    }


def test_the_mark_is_reset_at_each_boundary_and_kept_for_spans_around(kernel: Kernel) -> None:
    """A peak inside belongs to both spans; one before belongs to neither; after, to the outer."""
    recorder = Recorder(kernel.descriptors())
    kernel.set(peak=90 * MIB)
    with recorder.span("round"):
        assert kernel.peak() == 0
        kernel.set(peak=10 * MIB)
        with recorder.span("load"):
            kernel.set(peak=30 * MIB)
        kernel.set(peak=20 * MIB)
    ends = kernel.ends()
    assert ends[1]["peak_bytes"] == 30 * MIB
    assert ends[0]["peak_bytes"] == 30 * MIB


def test_a_peak_between_inner_spans_is_the_outer_ones_alone(kernel: Kernel) -> None:
    """What happens between two layers belongs to neither."""
    recorder = Recorder(kernel.descriptors())
    with recorder.span("round"):
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
    """Its peak is the usage; what another process held meanwhile is found at the next reading."""
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
    """More spans than there is room for: all of them arrive, in order and with their names."""
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


def test_swap_is_told_alone_where_the_kernel_counts_it_with_memory(kernel: Kernel) -> None:
    """Version 1 shows the sum."""
    kernel.set(usage=5 * MIB, swap=7 * MIB)
    recorder = Recorder(kernel.descriptors(swap_is_memsw=True))
    with recorder.span("load"):
        pass
    assert kernel.events()[0]["swap_bytes"] == 2 * MIB


def test_without_any_descriptor_time_is_still_told(tmp_path: Path, kernel: Kernel) -> None:
    """Whatever the kernel lacks is null."""
    recorder = Recorder({**NO_DESCRIPTORS, "events": kernel.descriptors()["events"]})
    with recorder.span("load"):
        pass
    start, end = kernel.events()
    assert (start["usage_bytes"], start["swap_bytes"], end["peak_bytes"]) == (None, None, None)
    assert end["cpu_ns"] >= 0


def test_a_span_cut_short_by_an_error_has_no_end(kernel: Kernel) -> None:
    """So the outcome can name it; the error goes on."""
    recorder = Recorder(kernel.descriptors())
    with pytest.raises(KeyError), recorder.span("load"):
        raise KeyError
    recorder.flush()
    assert [event["event"] for event in kernel.events()] == ["start"]


def test_spans_of_many_threads_are_whole_and_apart(kernel: Kernel) -> None:
    """Every event is one line, every span ends, every id is used once, threads have numbers."""
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


def test_what_is_recorded_is_what_the_reader_reads(kernel: Kernel) -> None:
    """The sums per phase come out of the recorder's own events."""
    recorder = Recorder(kernel.descriptors())
    with recorder.span("import"):
        pass
    with recorder.span("round", round=0):
        for layer in range(3):
            with recorder.span("load", round=0, network="n", layer=layer):
                kernel.set(peak=(layer + 1) * MIB)
    phases = {(p.phase, p.network): p for p in events_to_phases(kernel.events())}
    assert set(phases) == {("import", None), ("round", None), ("load", "n")}
    assert phases["load", "n"].peak_bytes == 3 * MIB
    assert phases["load", "n"].passes == 1
