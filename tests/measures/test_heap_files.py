"""What heap profilers leave is read, or refused, and the heap's points are given to spans."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebench.errors import ResultsError
from edgebench.measures.strategies import HeapPoint, boundaries, boundary_times, link
from edgebench.measures.strategies.heap_profilers import (
    LiveSet,
    Massif,
    Tcmalloc,
    find_dumps,
    parse_massif,
)
from edgebench.spans import finished_spans

DUMP = """\
heap profile:     11:     1100 [    20:     5000] @ heapprofile
     1:     1000 [     2:     3000] @ 0x3010 0x2020
    10:      100 [    18:     2000] @

MAPPED_LIBRARIES:
1000-2000 r-xp 00000000 fe:00 1          /usr/lib/libtcmalloc.so.4.5.10
"""


def test_the_dumps_of_the_process_that_allocated_most_count(tmp_path: Path) -> None:
    (tmp_path / "heap_77.0002.heap").write_text(DUMP.replace("5000", "6000"))
    (tmp_path / "heap_77.0001.heap").write_text(DUMP)
    (tmp_path / "heap_77.0003.heap").write_text(DUMP[:40])
    (tmp_path / "heap_77.0004.heap").write_text(DUMP.replace("heapprofile", "heap_v2/524288"))
    (tmp_path / "heap.0001.heap").write_text(DUMP.replace("5000", "5500"))
    (tmp_path / "another").write_text("")
    dumps, notes = find_dumps(tmp_path)
    assert [(d.number, d.live_bytes, d.allocated_bytes) for d in dumps] == [
        (1, 1100, 5000),
        (2, 1100, 6000),
    ]
    assert notes == [
        f"a heap dump is cut short and left out (heap_77.000{number}.heap)" for number in (3, 4)
    ]


def test_points_follow_the_order_of_allocation(tmp_path: Path) -> None:
    """A dump at a boundary has its time; a file's time before an earlier dump's is moved up."""
    for number, wall_ns in ((1, 5_000_000_000), (2, 4_000_000_000), (3, 9_000_000_000)):
        path = tmp_path / f"heap.{number:04}.heap"
        path.write_text(DUMP.replace("1100", str(100 * number)))
        os.utime(path, ns=(wall_ns, wall_ns))
    profile = Tcmalloc(7).profile(tmp_path, {(0, "end"): (3, 4_500_000_000)}, 1_000_000_000)
    assert [(point.t_ns, point.live_bytes, point.boundary) for point in profile.points] == [
        (4_000_000_000, 100, None),
        (4_000_000_000, 200, None),
        (4_500_000_000, 300, 3),
    ]
    assert profile.unseen_bytes == 7


def test_no_dump_at_all_is_explained(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match=r"ended before it allocated 32\.0 MiB"):
        Tcmalloc().profile(tmp_path, {}, 0)


@pytest.mark.promise("A FIFO, a link or a huge file among a profiler's dumps hangs nothing.")
def test_what_is_no_plain_dump_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "heap.0001.heap").write_text(DUMP)
    os.mkfifo(tmp_path / "heap.0002.heap")
    (tmp_path / "heap.0003.heap").symlink_to("/dev/zero")
    (tmp_path / "heap.0004.heap").touch()
    os.truncate(tmp_path / "heap.0004.heap", 40 << 30)
    dumps, notes = find_dumps(tmp_path)
    assert [dump.number for dump in dumps] == [1]
    assert [note.partition(" and left out")[0] for note in notes] == [
        "a heap dump can't be read: it is a FIFO, not a file",
        "a heap dump can't be read: it is a device, not a file",
        "a heap dump can't be read: it has 40.00 GiB; at most 16.0 MiB are read",
    ]


@pytest.mark.parametrize(
    ("library", "preloaded", "expected"),
    [
        ("libtcmalloc.so.9", None, "libtcmalloc.so.9"),
        ("libtcmalloc.so.9", "mine.so", "libtcmalloc.so.9 mine.so"),
        (None, "mine.so", "libtcmalloc.so.4 mine.so"),
    ],
)
def test_tcmalloc_is_preloaded_before_the_program_s_own_libraries(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    library: str | None,
    preloaded: str | None,
    expected: str,
) -> None:
    monkeypatch.setattr("ctypes.util.find_library", {"tcmalloc": library}.get)
    own = {"A": "b"} | ({"LD_PRELOAD": preloaded} if preloaded else {})
    command, variables = Tcmalloc(3 << 20).wrap(["net", "--batch=2"], own, tmp_path)
    assert command == ["net", "--batch=2"]
    assert variables == {
        "A": "b",
        "LD_PRELOAD": expected,
        "HEAPPROFILE": f"{tmp_path}/heap",
        "HEAP_PROFILE_ALLOCATION_INTERVAL": "3145728",
        "HEAP_PROFILE_DEALLOCATION_INTERVAL": "3145728",
        "HEAP_PROFILE_INUSE_INTERVAL": "3145728",
        "EDGEBENCH_VIEW": "edgebench.measures.strategies.heap_profilers:TcmallocView",
        "EDGEBENCH_VIEW_FOLDER": str(tmp_path),
    }


MASSIF = """\
desc: --time-unit=ms
cmd: ./program
time_unit: ms
#-----------
snapshot=0
#-----------
time=0
mem_heap_B=0
mem_heap_extra_B=0
mem_stacks_B=0
heap_tree=empty
#-----------
snapshot=1
#-----------
time=120
mem_heap_B=1000
mem_heap_extra_B=24
mem_stacks_B=0
heap_tree=peak
n2: 1000 (heap allocation functions) malloc/new/new[], --alloc-fns, etc.
 n1: 700 0x1091: load (program.c:7)
  n0: 700 0x1092: main (program.c:9)
 n0: 300 in 12 places, all below massif's threshold (1.00%)
"""


@pytest.mark.parametrize("text", ["", "heap profile: 1", MASSIF[:20], "desc: x\ncmd: y\n"])
def test_what_is_no_massif_file_is_refused(text: str) -> None:
    with pytest.raises(ResultsError, match="massif"):
        parse_massif(text)


@given(st.integers(MASSIF.index("time_unit") + 20, len(MASSIF)))
def test_a_file_cut_anywhere_keeps_its_whole_figures(cut: int) -> None:
    whole = [(0, 0), (120, 1000)]
    snapshots = parse_massif(MASSIF[:cut])
    assert snapshots == whole[: len(snapshots)]
    assert len(snapshots) == 2 or cut < MASSIF.index("mem_heap_B=1000") + 16


def test_snapshots_are_on_the_workers_clock(tmp_path: Path) -> None:
    """Milliseconds from valgrind's start: its log's last line was 1 d 2 h 3 min 4.5 s after it."""
    (tmp_path / "massif.out").write_text(MASSIF)
    log = tmp_path / "valgrind.log"
    log.write_text("==00:00:00:00.001 7== begins\n==01:02:03:04.500 7== ends\n")
    os.utime(log, ns=(0, 200_000 * 10**9))
    points = Massif().profile(tmp_path, {}, 1000 * 10**9).points
    start_ns = (200_000 - 1000) * 10**9 - 93_784_500_000_000
    assert [(one.t_ns - start_ns, one.live_bytes) for one in points] == [
        (0, 0),
        (120_000_000, 1000),
    ]


@pytest.mark.process
@pytest.mark.skipif(
    not (shutil.which("valgrind") and shutil.which("ms_print")),
    reason="needs valgrind (apt-get install valgrind)",
)
def test_figures_are_those_of_ms_print(tmp_path: Path) -> None:
    out = tmp_path / "massif.out"
    words = [sys.executable, "-I", "-S", "-c", "[bytes(n * 1000) for n in range(300)]"]
    massif = ["valgrind", "-q", "--tool=massif", "--time-unit=ms", f"--massif-out-file={out}"]
    subprocess.run([*massif, *words], check=True)
    printed = subprocess.run(["ms_print", out], check=True, capture_output=True, text=True).stdout
    rows = re.findall(r"^ *\d+ +([\d,]+) +[\d,]+ +([\d,]+) +[\d,]+ +0$", printed, re.M)
    told = [tuple(int(figure.replace(",", "")) for figure in row) for row in rows]
    assert parse_massif(out.read_text()) == told
    assert told


STEPS = st.lists(
    st.tuples(st.sampled_from(["map", "unmap"]), st.integers(0, 12), st.integers(1, 6))
)


@given(STEPS)
def test_mappings_are_counted_byte_by_byte(steps: list[tuple[str, int, int]]) -> None:
    heap, model = LiveSet(), set[int]()
    for step, start, size in steps:
        if step == "map":
            heap.map(start, size)
            model |= set(range(start, start + size))
        else:
            heap.unmap(start, size)
            model -= set(range(start, start + size))
        assert heap.live_bytes == len(model)


def test_blocks_are_given_back_by_their_address() -> None:
    """A free of what was never seen changes nothing; an address used again replaces its block."""
    heap = LiveSet()
    heap.free(5)
    heap.allocate(5, 100)
    heap.allocate(5, 30)
    heap.allocate(6, 7)
    assert heap.live_bytes == 37
    heap.free(5)
    assert heap.live_bytes == 7


def span(number: int, start: int, end: int, seen: tuple[int, int] | None) -> list[dict[str, Any]]:
    """A layer's two events; ``seen``: what the profiler was told at them."""
    views = [{"boundary": boundary} for boundary in seen] if seen else [{}, {}]
    place = {"phase": "load", "round": 0, "network": "n", "layer": number, "name": f"l{number}"}
    return [
        {"event": "start", "id": number, "t_ns": start, "view": views[0], **place},
        {"event": "end", "id": number, "t_ns": end, "view": views[1]},
    ]


def linked(
    points: list[HeapPoint], events: list[dict[str, Any]]
) -> list[tuple[int | None, int | None, int | None]]:
    """Before, peak and after of each span."""
    readings = link(points, finished_spans(events), boundaries(events))
    return [(one.before_bytes, one.peak_bytes, one.after_bytes) for one in readings]


def test_boundaries_decide_whatever_the_clocks_say() -> None:
    points = [
        HeapPoint(900, 10, boundary=1),
        HeapPoint(5, 70),
        HeapPoint(900, 40, peak_bytes=90, boundary=2),
        # A profiler's mark may be of an earlier moment: no less was held than at the end.
        HeapPoint(900, 60, peak_bytes=50, boundary=3),
    ]
    events = [*span(0, 100, 200, (1, 2)), *span(1, 200, 300, (2, 3))]
    assert linked(points, events) == [(10, 90, 40), (40, 60, 60)]


def test_without_boundaries_time_decides() -> None:
    """A point counts to the span it lies in; a span without one keeps what was there before."""
    points = [HeapPoint(50, 10), HeapPoint(150, 80), HeapPoint(190, 30)]
    events = [*span(0, 100, 200, None), *span(1, 200, 300, None), *span(2, 10, 20, None)]
    assert linked(points, events) == [(10, 80, 30), (30, 30, 30)]


def test_a_span_with_one_boundary_is_linked_by_time() -> None:
    """Its other end is in no point: the profiler was ended before."""
    points = [HeapPoint(50, 10, boundary=1), HeapPoint(150, 80), HeapPoint(190, 30)]
    assert linked(points, span(0, 100, 200, (1, 9))) == [(10, 80, 30)]


def test_a_layer_that_changed_nothing_shares_a_boundary() -> None:
    events = span(0, 100, 200, (4, 4))
    points = [HeapPoint(100, 25, boundary=4)]
    assert linked(points, events) == [(25, 25, 25)]
    assert boundary_times(boundaries(events)) == {4: 100}


@pytest.mark.parametrize("view", [None, [], {"boundary": "1"}, {"rss": 3}])
def test_events_that_tell_no_boundary_are_no_boundaries(view: object) -> None:
    assert boundaries([{"event": "end", "id": 1, "t_ns": 5, "view": view}]) == {}
