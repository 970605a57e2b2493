"""Dumps of gperftools' heap profiler: read whole, or refused with a reason."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebench.errors import ResultsError
from edgebench.measures.strategies.tcmalloc import (
    Dump,
    Libraries,
    Tcmalloc,
    find_dumps,
    parse_dump,
    to_points,
)

DUMP = """\
heap profile:     11:     1100 [    20:     5000] @ heapprofile
     1:     1000 [     2:     3000] @ 0x3010 0x2020
    10:      100 [    18:     2000] @

MAPPED_LIBRARIES:
1000-2000 r-xp 00000000 fe:00 1          /usr/lib/libtcmalloc.so.4.5.10
2000-3000 r-xp 00001000 fe:00 2          /opt/with space/libtorch.so (deleted)
3000-4000 r-xp 00000000 fe:00 3          /usr/lib/libc.so
5000-6000 r-xp 00000000 00:00 0
6000-7000 rw-p 00001000 fe:00 3          /usr/lib/libc.so
4000-5000 rw-p 00000000 00:00 0
"""


def parsed() -> Dump:
    return parse_dump(DUMP, "heap.0001.heap")


def test_a_dump_is_read_whole() -> None:
    dump = parsed()
    assert (dump.live_bytes, dump.allocated_bytes) == (1100, 5000)
    assert [stack.live_bytes for stack in dump.stacks] == [1000, 100]
    assert [stack.addresses for stack in dump.stacks] == [(0x3010, 0x2020), ()]
    assert [mapping.path for mapping in dump.mappings] == [
        "/usr/lib/libtcmalloc.so.4.5.10",
        "/opt/with space/libtorch.so (deleted)",
        "/usr/lib/libc.so",
    ]


def test_addresses_are_named_by_library_and_offset() -> None:
    libraries = Libraries(parsed().mappings)
    assert libraries.name(0x2010) == "libtorch.so (deleted)+0x1010"
    assert libraries.name(0x9999) == "0x9999"
    assert libraries.name(0x10) == "0x10"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "not a heap dump"),
        ("desc: massif\n", "not a heap dump"),
        (DUMP[:40], "cut short"),
        (DUMP[: DUMP.index("MAPPED")], "cut short"),
        (DUMP[:-20], "cut short"),
        (DUMP.replace("@ heapprofile", "@ heap_v2/524288"), "sampled"),
        (DUMP.replace("0x3010", "here"), "no stack"),
        (DUMP.replace("rw-p", "no mapping at all"), "no mapping"),
    ],
)
def test_what_is_no_whole_dump_is_refused_by_name(text: str, what: str) -> None:
    with pytest.raises(ResultsError, match=what) as error:
        parse_dump(text, "heap.0007.heap")
    assert "heap.0007.heap" in str(error.value)


@given(st.integers(0, len(DUMP) - 1))
def test_a_dump_cut_anywhere_is_whole_or_refused(cut: int) -> None:
    """Whatever survives a cut has the header's figures and all stacks: never part of a figure."""
    try:
        dump = parse_dump(DUMP[:cut], "d")
    except ResultsError:
        return
    assert replace(dump, mappings=parsed().mappings) == parsed()


def test_the_largest_stacks_of_a_dump_are_kept() -> None:
    lines = DUMP.splitlines(keepends=True)
    stacks = [f"1: {size} [1: {size}] @ 0x3010\n" for size in range(1, 21)]
    dump = parse_dump("".join([lines[0], *stacks, *lines[3:]]), "d")
    assert [stack.live_bytes for stack in dump.stacks] == list(range(20, 12, -1))


def test_the_good_dumps_are_kept(tmp_path: Path) -> None:
    (tmp_path / "heap_77.0001.heap").write_text(DUMP)
    (tmp_path / "heap_77.0002.heap").write_text(DUMP.replace("5000", "6000"))
    (tmp_path / "heap_77.0003.heap").write_text(DUMP[:100])
    (tmp_path / "heap.0001.heap").write_text(DUMP.replace("5000", "4000"))
    (tmp_path / "command.json").write_text("[]")
    dumps, notes = find_dumps(tmp_path)
    assert [dump.number for dump in dumps] == [1, 2]
    assert notes == ["the heap dump is cut short and left out (heap_77.0003.heap)"]


def test_points_follow_the_order_of_allocation(tmp_path: Path) -> None:
    """A dump at a boundary has its time; a file's time before an earlier dump's is moved up."""
    for number, wall_ns in ((1, 5_000_000_000), (2, 4_000_000_000), (3, 9_000_000_000)):
        path = tmp_path / f"heap.{number:04}.heap"
        path.write_text(DUMP)
        os.utime(path, ns=(wall_ns, wall_ns))
    dumps, _ = find_dumps(tmp_path)
    points = to_points(dumps, {3: 4_500_000_000}, 1_000_000_000)
    assert [point.t_ns for point in points] == [4_000_000_000, 4_000_000_000, 4_500_000_000]
    assert [point.boundary for point in points] == [None, None, 3]
    assert {point.live_bytes for point in points} == {1100}
    assert points[0].stacks[0].frames == ("libc.so+0x10", "libtorch.so (deleted)+0x1020")


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
        "EDGEBENCH_VIEW": "edgebench.measures.strategies.tcmalloc:TcmallocView",
        "EDGEBENCH_VIEW_FOLDER": str(tmp_path),
    }
    assert json.loads((tmp_path / "command.json").read_text()) == command
    assert (tmp_path / "clock").is_file()
