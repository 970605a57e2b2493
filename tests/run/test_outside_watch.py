"""What a program leaves outside its trial, seen in real cgroups by what happens."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import pytest

from edgebench.records import TrialRecord
from edgebench.run.trial.session import Session
from tests.chance import given_time
from tests.run.made_trials import python_trial

pytestmark = pytest.mark.own_cgroup
MIB = 1 << 20
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


def seen(session: Session, folder: Path, code: str, **settings: object) -> TrialRecord:
    record = python_trial(session.setup, folder, code, **settings)
    assert record.outcome == "ok", record.reason
    assert record.outside is not None
    return record


@pytest.mark.v2_core
def test_what_outlives_the_command_is_seen_and_can_be_waited_for(
    session: Session, tmp_path: Path
) -> None:
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
def test_shared_memory_that_stays_is_counted(session: Session, tmp_path: Path) -> None:
    left = _IN_MEMORY / f"{uuid.uuid4().hex}.data"
    try:
        record = seen(session, tmp_path, f"open({str(left)!r}, 'wb').write(b'x' * (8 << 20))")
        assert record.outside.left_bytes >= 8 * MIB
        again = seen(session, tmp_path, f"open({str(left)!r}, 'rb').read()")
        assert again.outside.left_bytes < MIB
    finally:
        left.unlink(missing_ok=True)


def test_a_name_that_is_no_text_is_shown_all_the_same(session: Session, tmp_path: Path) -> None:
    name = "open('/proc/self/comm', 'wb').write(b'\\xff\\xfe')\nos.setsid()\n"
    record = seen(session, tmp_path, _LINGERS.replace("os.setsid()\n", name))
    assert record.outside.names == ["\ufffd\ufffd"]
