"""What a program leaves outside its trial, seen in real cgroups by what happens."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from edgebench.records import LimitSetting, TrialRecord
from edgebench.run.outside_watch import grown_files, held_in_memory
from edgebench.run.session import Session
from edgebench.run.trial import TrialFiles, run_trial
from edgebench.run.trial_record import TrialRequest
from tests.chance import given_time

pytestmark = pytest.mark.own_cgroup
MIB = 1 << 20
_PYTHON = [sys.executable, "-I", "-S", "-c"]
_IN_MEMORY = Path("/dev/shm")
#: Starts what outlives it: a process in a session of its own, which takes 60 MiB and waits.
_LINGERS = (
    "import os, signal\n"
    "read, write = os.pipe()\n"
    "if os.fork():\n"
    "    os.read(read, 1)\n"
    "    os._exit(0)\n"
    "os.setsid()\n"
    "held = b'x' * (60 << 20)\n"
    "os.write(write, b'1')\n"
    "signal.pause()\n"
)
#: Joins the cgroup, as what a daemon starts for a client is in another one, and takes 60 MiB there.
_ELSEWHERE = (
    "import os, sys, time\n"
    "open(sys.argv[1] + '/cgroup.procs', 'w').write(str(os.getpid()))\n"
    "held = b'x' * (60 << 20)\n"
    "time.sleep(float(sys.argv[2]))\n"
)
_LOCKS = (
    "import ctypes, mmap, sys, time\n"
    "held = mmap.mmap(-1, 8 << 20)\n"
    "libc = ctypes.CDLL(None)\n"
    "address = ctypes.addressof((ctypes.c_char * len(held)).from_buffer(held))\n"
    "assert libc.mlock(ctypes.c_void_p(address), ctypes.c_size_t(8 << 20)) == 0\n"
    "time.sleep(float(sys.argv[1]))\n"
)


def seen(session: Session, folder: Path, *command: str, **settings: object) -> TrialRecord:
    """The record of a trial without a limit."""
    made = {"kind": "command", "command": [*_PYTHON, *command], **settings}
    request = TrialRequest("0001", "p001", 0, 0, made, LimitSetting(), 60)
    record = run_trial(session.setup, request, TrialFiles.scratch(folder))
    assert record.outcome == "ok", record.reason
    assert record.outside is not None
    return record


@pytest.mark.v2_core
def test_what_outlives_the_command_is_seen_and_can_be_waited_for(
    session: Session, tmp_path: Path
) -> None:
    """It is ended, counted and named; a program that is to run for a time is measured with it."""
    ended = seen(session, tmp_path, _LINGERS)
    assert (ended.outside.processes, len(ended.outside.names)) == (1, 1)

    def check(held_s: float) -> None:
        waited = seen(session, tmp_path, _LINGERS, stop_after_s=held_s)
        assert waited.outside.processes == 0
        assert waited.wall_s >= held_s
        assert waited.demand_bytes > 60 * MIB

    given_time(check)


@pytest.mark.v2_core
@pytest.mark.skipif(not os.access(_IN_MEMORY, os.W_OK), reason="no /dev/shm")
def test_a_file_that_stays_in_memory_is_found_by_its_growth(
    session: Session, tmp_path: Path
) -> None:
    """Whatever it is called; a file that was there before is not named."""
    left = _IN_MEMORY / f"{uuid.uuid4().hex}.data"
    code = f"open({str(left)!r}, 'wb').write(b'x' * (8 << 20))"
    try:
        record = seen(session, tmp_path, code)
        assert record.outside.left_bytes >= 8 * MIB
        # Other programs may write files there meanwhile.
        sizes = {one.path: one.size_bytes for one in record.outside.files}
        assert sizes[str(left)] == 8 * MIB
        assert held_in_memory(tmp_path)[str(left)] == 8 * MIB
        again = seen(session, tmp_path, f"open({str(left)!r}, 'rb').read()")
        assert str(left) not in [one.path for one in again.outside.files]
    finally:
        left.unlink(missing_ok=True)


#: Makes a segment of 8 MiB with the key, fills it, tells its number and waits until it was seen.
_SEGMENT = (
    "import ctypes, sys, time\n"
    "libc = ctypes.CDLL(None)\n"
    "libc.shmat.restype = ctypes.c_void_p\n"
    "number = libc.shmget(int(sys.argv[2]), 8 << 20, 0o1600)\n"
    "ctypes.memset(libc.shmat(number, None, 0), 1, 8 << 20)\n"
    "time.sleep(float(sys.argv[1]))\n"
)


@pytest.mark.v2_core
@pytest.mark.skipif(not Path("/proc/sysvipc/shm").exists(), reason="no shared segments")
def test_a_segment_that_nobody_can_find_is_removed(session: Session, tmp_path: Path) -> None:
    """One with a key stays: the next run may look for it."""

    def left(held_s: float, key: int) -> tuple[str, bool]:
        record = seen(session, tmp_path, _SEGMENT, str(held_s), str(key))
        assert record.outside.left_bytes >= 8 * MIB
        segments = [one for one in record.outside.files if one.path.startswith("segment ")]
        assert 8 * MIB in [one.size_bytes for one in segments], record.outside
        file = next(one for one in segments if one.size_bytes == 8 * MIB)
        return file.path, file.removed

    def check(held_s: float) -> None:
        path, removed = left(held_s, 0)
        assert removed
        assert path not in held_in_memory(tmp_path)

    def check_kept(held_s: float) -> None:
        key = uuid.uuid4().int & 0x7FFFFFFF
        try:
            path, removed = left(held_s, key)
            assert not removed
            assert path in held_in_memory(tmp_path)
        finally:
            subprocess.run(["ipcrm", "-M", str(key)], check=False)

    given_time(check)
    given_time(check_kept)


def test_what_grew_by_more_than_stayed_charged_is_of_another_program() -> None:
    """Files are named that can be its own; the kernel's batches of pages are allowed for."""
    before = {"/dev/shm/a": 10 * MIB, "/dev/shm/old": 300 * MIB}
    after = {"/dev/shm/a": 30 * MIB, "/dev/shm/old": 300 * MIB, "/dev/shm/other": 90 * MIB}
    assert [one.path for one in grown_files(before, after, 20 * MIB)] == ["/dev/shm/a"]
    assert [one.size_bytes for one in grown_files(before, after, 20 * MIB - 4096)] == [20 * MIB]
    names = [one.path for one in grown_files(before, after, 90 * MIB)]
    assert names == ["/dev/shm/other", "/dev/shm/a"]


@pytest.mark.root
def test_another_cgroup_that_grows_is_named(session: Session, tmp_path: Path) -> None:
    """The client waits while another process holds 60 MiB in a cgroup of its own."""
    other = session.setup.parent.path.parent / f"field-{uuid.uuid4().hex[:8]}"
    if not (session.setup.parent.path.parent / "cgroup.procs").exists():
        other = session.setup.parent.path / other.name
    other.mkdir()
    try:

        def check(held_s: float) -> None:
            words = [*_PYTHON, _ELSEWHERE, str(other), str(held_s)]
            record = seen(session, tmp_path, f"import subprocess; subprocess.run({words!r})")
            assert record.outside.grown_bytes >= 60 * MIB
            assert record.outside.grown_cgroup.endswith(other.name)

        given_time(check)
    finally:
        other.rmdir()


def test_locked_memory_is_seen(session: Session, tmp_path: Path) -> None:
    """What mlock holds, though it is no more than the rest."""

    def check(held_s: float) -> None:
        record = seen(session, tmp_path, _LOCKS, str(held_s))
        assert record.outside.locked_bytes >= 8 * MIB

    given_time(check)
