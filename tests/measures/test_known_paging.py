"""What is recorded of a program that knows what it swaps, maps, faults and holds, on both versions.

Rounds: it fills more than its limit, reads all of it back, and reads a mapped file that is not in
the page cache.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgebench.errors import MachineError
from edgebench.measures.strategies.recorded import BATCH_PAGES
from edgebench.records import LimitSetting, TrialRecord
from edgebench.run.trial.launch import KINDS, Launch, Settings
from edgebench.run.trial.record import TrialRequest
from edgebench.run.trial.session import Session
from edgebench.run.trial.trial import TrialFiles, run_trial
from edgebench.text import AS_IS
from edgebench.workloads.events import Descriptors
from edgebench.workloads.worker import WORKLOADS
from tests.own_path import python_path

pytestmark = [
    pytest.mark.own_cgroup,
    pytest.mark.root,
    pytest.mark.swap,
    pytest.mark.v2_core,
]

MIB = 1 << 20
PAGE = os.sysconf("SC_PAGE_SIZE")
KIND = "known paging"
FILL, LIMIT, FILE = 44 * MIB, 28 * MIB, 12 * MIB
ROUNDS = ("fill", "read", "file")
#: What the interpreter holds and may have swapped; its faults in a round; the kernel's batches.
BASE = 12 * MIB
FEW, SLACK = 500, 2 * BATCH_PAGES * PAGE + MIB // 4
#: By what it asks the kernel itself: mincore, its status and its usage, beside the recorder.
PROGRAM = """
import ctypes, json, mmap, os, re, resource, sys
from edgebench.workloads.recorder import Recorder
fill, path, descriptors = json.loads(sys.argv[1])
libc, page = ctypes.CDLL(None), mmap.PAGESIZE
libc.mincore.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p
flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
opened = open(path, "rb")
os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
# Writable, or ctypes gives no address; no page around one that is touched comes with it.
mapped = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_COPY)
mapped.madvise(mmap.MADV_RANDOM)

def absent(memory):
    found = (ctypes.c_ubyte * (len(memory) // page))()
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    assert libc.mincore(start, len(memory), ctypes.addressof(found)) == 0
    return sum(not one & 1 for one in bytes(found)) * page

def size(file, name):
    return int(re.search(name + r":\\s+(\\d+)", open(file).read())[1]) << 10

large = mmap.mmap(-1, fill, flags=flags)
large.madvise(mmap.MADV_NOHUGEPAGE)

def fill_all():
    large[::page] = bytes([1]) * (fill // page)

steps = {"fill": fill_all, "read": lambda: large[::page], "file": lambda: mapped[::page]}
recorder = Recorder(descriptors)
known = {}
for number, (name, step) in enumerate(steps.items()):
    about = {"absent": absent(large) if number < 2 else absent(mapped)}
    with recorder.phases(number, "made-up") as phases:
        phases.begin("load")
        before = resource.getrusage(resource.RUSAGE_SELF)
        step()
        about["swapped"] = size("/proc/self/status", "VmSwap")
        about["cached"] = size("/proc/meminfo", "SwapCached")
        after = resource.getrusage(resource.RUSAGE_SELF)
    about["minor"] = after.ru_minflt - before.ru_minflt
    about["major"] = after.ru_majflt - before.ru_majflt
    known[name] = about
recorder.note(known=known)
"""


def launch(settings: Settings, descriptors: Descriptors) -> Launch:
    given = json.dumps([FILL, settings["file"], descriptors])
    return Launch((sys.executable, "-c", PROGRAM, given), env={"PYTHONPATH": python_path()})


Seen = tuple[TrialRecord, dict[str, dict[str, int]], dict[str, list[dict[str, Any]]]]


@pytest.fixture(scope="module")
def seen(session: Session, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    folder = tmp_path_factory.mktemp("paging")
    (folder / "file").write_bytes(os.urandom(FILE))
    os.sync()
    kind = "file"
    try:
        session.setup.storage.use(kind, 2 * FILL, AS_IS)
    except MachineError as error:
        # As in scripts/vm, whose files lie on another machine: it has a disk for swap.
        kind = "system"
        if len(Path("/proc/swaps").read_text().splitlines()) < 2:
            pytest.skip(f"no swap file can be had: {error.what}")
        session.setup.storage.use(kind, 2 * FILL, AS_IS)
    KINDS[KIND], WORKLOADS[KIND] = launch, ""
    files = TrialFiles(folder / "s.npz", folder / "e.jsonl.gz", folder / "log", folder)
    settings = {"kind": KIND, "file": str(folder / "file")}
    limits = LimitSetting("28M", LIMIT, kind, 2 * FILL)
    record = run_trial(session.setup, TrialRequest("1", "p", 0, 0, settings, limits, 200), files)
    assert record.outcome == "ok", (record.reason, files.log.read_text())
    events = [json.loads(line) for line in gzip.decompress(files.events.read_bytes()).splitlines()]
    loads = [event for event in events if event.get("phase") == "load"]
    ends = {event["id"]: event for event in events if event["event"] == "end"}
    pairs = {ROUNDS[event["round"]]: [event, ends[event["id"]]] for event in loads}
    yield record, record.notes["known"], pairs
    session.swap.off()
    del KINDS[KIND], WORKLOADS[KIND]


@pytest.mark.parametrize("name", ROUNDS)
def test_faults_are_those_that_the_program_counts(seen: Seen, name: str) -> None:
    record, known, events = seen
    start, end = events[name]
    for kind in ("minor", "major"):
        assert 0 <= end[f"{kind}_faults"] - known[name][kind] < FEW
    number = start["round"]
    (phase,) = (one for one in record.phases if (one.round, one.phase) == (number, "load"))
    assert phase.major_faults == end["major_faults"]
    counts = record.round_counts[number]
    assert counts.round == number
    assert 0 <= counts.major_faults - known[name]["major"] < FEW


def test_faults_are_of_the_pages_that_are_touched(seen: Seen) -> None:
    """Each page that is new is a minor fault; one that a file or swap holds is none, or a major."""
    record, known, _ = seen
    assert known["fill"]["absent"] == FILL
    assert 0 <= known["fill"]["minor"] - FILL // PAGE < FEW
    # Reading from swap the kernel reads others beside a page: these are minor faults.
    assert known["read"]["major"] > FEW
    read = known["read"]["minor"] + known["read"]["major"]
    assert known["read"]["absent"] // PAGE <= read < FILL // PAGE + FEW
    assert abs(known["file"]["major"] - known["file"]["absent"] // PAGE) < FEW
    for kind in ("minor", "major"):
        total = sum(one[kind] for one in known.values())
        whole = getattr(record, f"{kind}_faults")
        # The start of the interpreter, GNU time and the recorder come on top.
        assert total <= whole < total + 20_000


def test_bytes_that_are_swapped_are_those_that_did_not_fit(seen: Seen) -> None:
    record, known, events = seen
    fewest = known["read"]["absent"]
    assert FILL - LIMIT <= fewest < FILL - LIMIT + BASE
    swapped = events["fill"][1]["swap_bytes"]
    # The kernel counts the interpreter too; on version 2 also pages that are in memory
    # again and keep their slot.
    more = LIMIT if Path("/sys/fs/cgroup/cgroup.controllers").exists() else BASE / 2
    # Pages that are still being written have a slot, and are charged as memory.
    least = known["fill"]["swapped"] - known["fill"]["cached"] - SLACK
    assert least <= swapped < known["fill"]["swapped"] + more
    assert fewest - SLACK <= swapped
    assert record.swap_peak_bytes is not None
    assert swapped - SLACK <= record.swap_peak_bytes < FILL + BASE
    fill, read, file = record.round_counts
    if record.swapped_in_bytes is None:
        assert record.missing["swapped_in_bytes"]
    else:
        assert record.swapped_out_bytes is not None
        assert fewest <= record.swapped_in_bytes < FILL + BASE
        assert fewest <= record.swapped_out_bytes < 2 * FILL
    assert fewest <= (read.in_bytes or 0) < FILL + BASE
    assert abs((file.in_bytes or 0) - known["file"]["absent"]) < 3 * MIB
    if read.swap_in_bytes is None:
        assert record.missing["round_swap_in_bytes"]
        return
    assert fill.out_bytes is not None
    assert fewest <= fill.out_bytes + SLACK < FILL
    assert (fill.swap_in_bytes or 0) < BASE
    assert fewest <= read.swap_in_bytes <= (read.in_bytes or 0)
    assert (file.swap_in_bytes or 0) < BASE
