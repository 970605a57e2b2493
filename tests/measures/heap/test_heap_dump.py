"""Dumps of gperftools' heap profiler: their totals are read, or they are left out by name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from edgebench.errors import ResultsError
from edgebench.measures.strategies.heap_profilers import Tcmalloc, find_dumps

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
