"""A timed trial under a limit is watched only through files that flush nothing."""

from __future__ import annotations

import ctypes
import gzip
import json
import os
import select
import struct
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgebench.records import LimitSetting, TrialRecord
from edgebench.run.trial.record import TrialRequest
from edgebench.run.trial.session import Session, TrialSetup
from edgebench.run.trial.trial import TrialFiles, run_trial
from tests.chance import given_time
from tests.own_path import python_path

MIB = 1 << 20
#: Reading any of these makes the kernel flush: of version 1 in memory's folder, of version 2.
FLUSHING = ("memory.stat", "memory.numa_stat", "cpu.stat", "io.stat")
_IN_ACCESS, _IN_OPEN = 0x1, 0x20
#: Fills memory beyond its limit, and tells when it begins and when it ends.
FILL = (
    "import sys, time; print(time.monotonic_ns(), flush=True); b = bytearray(60 << 20)\n"
    "for _ in range({times}): b[::4096] = b'x' * len(b[::4096]); time.sleep(0.1)\n"
    "print(time.monotonic_ns())"
)


@contextmanager
def looks(place: Path) -> Iterator[list[int]]:
    """Whenever anybody opens or reads a flushing file of a cgroup that is made there, ns."""
    libc = ctypes.CDLL(None, use_errno=True)
    inotify = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    seen: list[int] = []
    through = threading.Event()

    def watch() -> None:
        watched: set[Path] = set()
        while not through.is_set():
            for folder in place.glob(f"edgebench-{os.getpid()}-*"):
                for file in (folder / name for name in FLUSHING):
                    if file not in watched and file.exists():
                        libc.inotify_add_watch(inotify, os.fsencode(file), _IN_OPEN | _IN_ACCESS)
                        watched.add(file)
            if select.select([inotify], [], [], 0.002)[0]:
                data = os.read(inotify, 1 << 16)
                at = 0
                while at < len(data):
                    _, mask, _, length = struct.unpack_from("iIII", data, at)
                    at += 16 + length
                    if mask & (_IN_OPEN | _IN_ACCESS):
                        seen.append(time.monotonic_ns())

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        through.set()
        thread.join()
        os.close(inotify)


def trial(
    setup: TrialSetup, folder: Path, times: int = 3, **asked: object
) -> tuple[TrialRecord, list[int]]:
    """A trial that fills memory so many times, and the looks at flushing files while it ran."""
    files = TrialFiles(
        folder / "s.npz", folder / "e.gz", folder / "log", folder, live=folder / "live.json"
    )
    settings = {
        "kind": "command",
        "command": [sys.executable, "-I", "-S", "-c", FILL.format(times=times)],
        "env": {"PYTHONPATH": python_path()},
    }
    limits = LimitSetting("100M", 100 * MIB)
    request = TrialRequest("0001", "p1", 0, 0, settings, limits, 60)
    request = replace(request, **asked)  # type: ignore[arg-type]
    with looks(setup.parent.path) as seen:
        record = run_trial(setup, request, files)
    assert record.outcome == "ok", record.reason
    if words := files.log.read_text().split():
        begin, end = int(words[0]), int(words[-1])
    else:
        # A worker tells its last event before it ends.
        events = gzip.decompress(files.events.read_bytes()).splitlines()
        begin, end = 0, max(int(json.loads(line)["t_ns"]) for line in events)
    return record, [t for t in seen if begin <= t <= end]


@pytest.mark.promise(
    "While a timed trial runs under a limit, edgebench opens or reads no file of its cgroup "
    "that makes the kernel flush its statistics (checked with inotify)."
)
@pytest.mark.own_cgroup
def test_nobody_opens_or_reads_what_flushes_under_a_limit(session: Session, tmp_path: Path) -> None:
    """The kernel itself tells (inotify): no open and no read while a limited command runs."""
    record, looked = trial(session.setup, tmp_path)
    assert looked == []
    assert record.watched is not None
    assert record.watched.flushes is False
    assert record.watched.stat_interval_s is None
    assert not {*FLUSHING} & {*record.watched.files}
    assert record.watched.marks_reset_at_boundaries is False
    assert "flush" in record.missing["stat_samples"]
    stat = np.load(tmp_path / "s.npz")["stat"]
    assert "anon_bytes" not in (stat.dtype.names or ())
    # Read once after the end, when nothing can be killed any more.
    assert record.major_faults is not None
    assert record.cpu_s is not None


@pytest.mark.promise(
    "While a timed trial runs under a limit, edgebench opens or reads no file of its cgroup "
    "that makes the kernel flush its statistics (checked with inotify)."
)
@pytest.mark.own_cgroup
def test_nor_does_a_worker_that_tells_its_phases(session: Session, tmp_path: Path) -> None:
    """A worker inherits no descriptor of such a file, and reads none at its boundaries."""
    area = {
        "of": "anon", "planned_share": 1.0, "size_bytes": 64 * MIB, "file": None, "disk": None,
        "passes": ["fill", *["read"] * 20], "seed": 1,
    }  # fmt: skip
    settings = {"kind": "scan", "areas": [area]}
    record, looked = trial(
        session.setup, tmp_path, settings=settings, limits=LimitSetting("200M", 200 * MIB)
    )
    assert looked == []
    assert record.watched is not None
    assert record.watched.marks_reset_at_boundaries is True


@pytest.mark.promise(
    "While a timed trial runs under a limit, edgebench opens or reads no file of its cgroup "
    "that makes the kernel flush its statistics (checked with inotify)."
)
@pytest.mark.own_cgroup
def test_the_look_itself_is_seen_where_it_is_asked_for(session: Session, tmp_path: Path) -> None:
    """The same test sees the readings of a trial that is to be watched with ``memory.stat``."""
    setup = replace(session.setup, statistics_always=True)

    def check(held_s: float) -> TrialRecord:
        record, looked = trial(setup, tmp_path, times=int(10 * held_s))
        assert looked
        return record

    record = given_time(check, (1.0, 10.0))
    assert record.watched is not None
    assert record.watched.flushes is True
    assert record.watched.stat_interval_s == 0.01
    assert "memory.stat" in record.watched.files


@pytest.mark.own_cgroup
@pytest.mark.parametrize("asked", [{"limits": LimitSetting()}, {"strategy": "statistics"}])
def test_without_a_limit_and_in_own_trials_the_statistics_are_sampled(
    session: Session, tmp_path: Path, asked: dict[str, object]
) -> None:
    """Nothing is reclaimed for an unlimited group's sake; an own trial is not timed."""

    def check(held_s: float) -> None:
        record, looked = trial(session.setup, tmp_path, times=int(10 * held_s), **asked)
        assert looked
        assert record.watched is not None
        assert record.watched.flushes is True
        stat = np.load(tmp_path / "s.npz")["stat"]
        assert stat["anon_bytes"].max() >= 50 * MIB

    given_time(check, (0.3, 10.0))
