"""Settings of the whole machine: made for a while, and put back, also after a crash."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from edgebench.cgroups.cleanup import KERNEL_VALUE
from edgebench.cgroups.kernel_values import kernel_values
from edgebench.cgroups.leftovers import Ownership, clear_leftovers
from edgebench.errors import MachineError

#: All of these tests write the same file of the one kernel.
pytestmark = pytest.mark.exclusive

FILE = Path("/proc/sys/vm/page-cluster")
_DIE = """
import os, signal, sys
from pathlib import Path
from edgebench.cgroups.kernel_values import kernel_values
from edgebench.cgroups.leftovers import Ownership
with kernel_values({sys.argv[2]: sys.argv[3]}, Ownership(Path(sys.argv[1]))):
    print("set", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
#: The same, ended by the end of its input.
_SET = _DIE.replace("os.kill(os.getpid(), signal.SIGKILL)", "sys.stdin.read()")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder for state files."""
    path = tmp_path / "claims"
    path.mkdir(mode=0o700)
    return path


def other_value() -> str:
    """A value that the file has not."""
    return "1" if FILE.read_text().strip() != "1" else "2"


@pytest.mark.root
def test_a_value_is_set_and_put_back(folder: Path):
    """As the kernel has it meanwhile; nothing is claimed after that."""
    before, other = FILE.read_text(), other_value()
    with Ownership(folder) as ownership:
        with kernel_values({str(FILE): other}, ownership) as values:
            assert values == {str(FILE): other}
            assert FILE.read_text().strip() == other
        assert FILE.read_text() == before


@pytest.mark.root
def test_a_crash_leaves_a_value_that_the_next_start_puts_back(folder: Path):
    """A harness that is killed in the middle: said in one sentence, once."""
    before, other = FILE.read_text(), other_value()
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    words = [sys.executable, "-c", _DIE, str(folder), str(FILE), other]
    done = subprocess.run(words, env=env, check=False)
    assert done.returncode == -9
    assert FILE.read_text().strip() == other
    assert clear_leftovers(folder) == [f"put {FILE} back to {before.strip()}"]
    assert FILE.read_text() == before
    assert clear_leftovers(folder) == []


@pytest.mark.root
@pytest.mark.promise("A value of the kernel that several harnesses change is put back by the last.")
@pytest.mark.parametrize("is_killed", [False, True])
def test_two_harnesses_with_the_same_value(folder: Path, is_killed: bool):
    """The first one ends or is killed: the other goes on with it, and puts it back."""
    before, other = FILE.read_text(), other_value()
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    words = [sys.executable, "-c", _SET if not is_killed else _DIE, str(folder), str(FILE), other]
    first = subprocess.Popen(words, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert first.stdout
    assert first.stdout.readline() == b"set\n"
    with Ownership(folder) as second, kernel_values({str(FILE): other}, second):
        first.communicate()
        assert clear_leftovers(folder) == []
        assert FILE.read_text().strip() == other
        with (
            Ownership(folder) as third,
            pytest.raises(MachineError, match="another edgebench measures with"),
            kernel_values({str(FILE): before.strip()}, third),
        ):
            pass
        assert FILE.read_text().strip() == other
    assert FILE.read_text() == before


@pytest.mark.root
def test_a_value_that_the_kernel_refuses(folder: Path):
    """It is told, and the file is as it was."""
    before = FILE.read_text()
    with (
        Ownership(folder) as ownership,
        pytest.raises(MachineError, match="does not take nonsense"),
        kernel_values({str(FILE): "nonsense"}, ownership),
    ):
        pass
    assert FILE.read_text() == before


def test_no_other_file_is_written(folder: Path, tmp_path: Path):
    """Neither when it is asked for, nor when a state file claims it."""
    precious = tmp_path / "precious"
    precious.write_text("old")
    for file in (str(precious), f"/proc/sys/vm/../../..{precious}"):
        with Ownership(folder) as ownership:
            with (
                pytest.raises(MachineError, match="sets no such file"),
                kernel_values({file: "new"}, ownership),
            ):
                pass
            ownership.claim(KERNEL_VALUE, f"{file}=new")
    assert clear_leftovers(folder) == []
    assert precious.read_text() == "old"
