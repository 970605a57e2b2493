"""Needs of programs whose peak is too short to be sampled."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from edgebench.need import need_of
from edgebench.run.trial.session import Session
from tests.chance import given_time
from tests.run.made_trials import python_trial

MIB = 1 << 20
#: A small interpreter and GNU time need more than the first and less than the second.
LEAST, MOST = 2 * MIB, 8 * MIB
#: Where no sample fell between, only what the interpreter had resident is known, with libraries.
RESIDENT = 20 * MIB
#: Each ends at its peak. What the first holds is of another process, at the same time.
ALONE = "bytearray(40 << 20)"
CHILD = f"""
import os
if os.fork() == 0:
    {ALONE}
    os._exit(0)
os.wait()
"""
# So long that its two processes are seen at once, also on a busy machine.
BESIDE = f"""
import os, time
told, tells = os.pipe()
ends, end = os.pipe()
if os.fork() == 0:
    held = bytearray(30 << 20)
    os.write(tells, b"x")
    os.read(ends, 1)
    os._exit(0)
os.read(told, 1)
time.sleep(HELD_S)
if os.fork() == 0:
    {ALONE}
    os._exit(0)
os.wait()
os.write(end, b"x")
os.wait()
"""
READS = """
with open("read.bin", "rb") as file:
    while file.read(1 << 16):
        pass
bytearray(20 << 20)
"""
WRITES = """
import os
with open("written.bin", "wb") as file:
    for _ in range(640):
        file.write(bytes(1 << 16))
os.unlink("written.bin")
"""


@pytest.mark.own_cgroup
@pytest.mark.parametrize(
    ("code", "known", "most"),
    [
        (ALONE, 40 * MIB, MOST),
        (CHILD, 40 * MIB, MOST),
        (BESIDE, (30 + 40) * MIB, MOST),
        (READS, 20 * MIB, MOST),
        (WRITES, 0, RESIDENT),
    ],
    ids=["alone", "child", "beside", "after a file", "removed file"],
)
def test_a_short_peak_is_needed(
    session: Session, tmp_path: Path, code: str, known: int, most: int
) -> None:
    """Whichever process has it; cached files are no need, nor are 40 MiB of a removed one."""
    (tmp_path / "read.bin").write_bytes(os.urandom(MIB) * 64)

    def check(held_s: float) -> None:
        held = code.replace("HELD_S", str(held_s))
        record = python_trial(session.setup, tmp_path, held, cwd=str(tmp_path))
        need = need_of(record)
        assert need is not None, (record.outcome, record.reason, record.missing)
        assert LEAST < need.total_bytes - known < most
        assert record.gnu_time_maxrss_bytes < 90 * MIB

    given_time(check, (0.5, 4.0, 20.0))
