"""A disk in memory: made, held to a speed, copied to, and gone afterwards, also after SIGKILL."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgebench.cgroups.leftovers import Ownership, clear_leftovers
from edgebench.cgroups.storage import RamDisk
from edgebench.cgroups.swap import SwapControl
from edgebench.errors import MachineError
from edgebench.measures.machine.system_files import SystemFiles, disk_of, whole_disk
from edgebench.swap_areas import SWAPS

MIB = 1 << 20
ROOM = 24 * MIB
GIB = 1 << 30
NOBODY = 65534
#: Makes a disk with swap on it as a harness would, then dies by SIGKILL, at once or in the middle.
DIE = """
import os, sys
from pathlib import Path
from edgebench.cgroups import storage
from edgebench.cgroups.leftovers import Ownership
from edgebench.cgroups.swap import SwapControl
own = Ownership(Path(sys.argv[1]))
disk = storage.RamDisk(own, lambda: 1 << 40, Path(sys.argv[1]).parent)
usual, left = storage.run_tool, int(sys.argv[2])
def run(words, *more):
    global left
    if left == 0:
        print(words, flush=True)
        os.kill(os.getpid(), 9)
    left -= 1
    return usual(words, *more)
storage.run_tool = run
SwapControl(own).use("file", 16 << 20, disk.need(24 << 20))
os.kill(os.getpid(), 9)
"""
pytestmark = [pytest.mark.root, pytest.mark.swap]


@pytest.fixture
def disk(ownership: Ownership, tmp_path: Path) -> Iterator[RamDisk]:
    with RamDisk(ownership, lambda: 8 * GIB, tmp_path) as disk:
        yield disk


def loops(folder: Path) -> list[str]:
    files = Path("/sys/block").glob("loop*/loop/backing_file")
    return [text for one in files if str(folder) in (text := one.read_text())]


def test_it_is_a_disk_of_its_own_that_the_kernel_can_hold(disk: RamDisk) -> None:
    folder = disk.need(ROOM)
    assert folder.is_mount()
    found = whole_disk(SystemFiles(), folder)
    assert found.name.startswith("loop")
    assert found.read_ahead_kb == 128
    assert shutil.disk_usage(folder).free >= ROOM
    assert disk_of(SystemFiles(), folder)["disk"] == found.name


def test_swap_and_copies_lie_on_it_and_all_of_it_goes(
    disk: RamDisk, ownership: Ownership, tmp_path: Path
) -> None:
    weights = tmp_path / "weights"
    (weights / "below").mkdir(parents=True)
    (weights / "below" / "layer.bin").write_bytes(data := os.urandom(3 * MIB))
    folder = disk.need(ROOM)
    with SwapControl(ownership) as swap:
        state = swap.use("file", 16 * MIB, folder)
        assert state.device
        assert folder in state.device.parents
        assert str(state.device) in SWAPS.read_text()
        assert swap.use("file", 16 * MIB, folder) is state
        copy = disk.copy(weights)
        assert folder in copy.parents
        assert (copy / "below" / "layer.bin").read_bytes() == data
        assert disk.copy(weights) is copy
        elsewhere = swap.use("file", 16 * MIB).device
        assert elsewhere
        assert folder not in elsewhere.parents
    disk.off()
    assert (disk.folder, loops(tmp_path), folder.parent.exists()) == (None, [], False)


def test_a_larger_one_takes_its_place(disk: RamDisk, tmp_path: Path) -> None:
    first = disk.need(ROOM)
    assert disk.need(ROOM // 2) is not None
    assert disk.folder == first
    second = disk.need(4 * ROOM)
    assert second != first
    assert not first.exists()
    assert len(loops(tmp_path)) == 1


@pytest.mark.promise("The disk in memory holds nothing that the caller could not read before.")
def test_files_are_copied_with_the_callers_rights(
    ownership: Ownership, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUDO_UID", str(NOBODY))
    monkeypatch.setenv("SUDO_GID", str(NOBODY))
    with (
        tempfile.TemporaryDirectory(prefix="ram-", dir="/var/tmp") as name,
        RamDisk(ownership, lambda: 8 * GIB, Path(name)) as disk,
    ):
        place, folder = Path(name), disk.need(MIB)
        place.chmod(0o711)
        secret = place / "secret"
        secret.write_text("secret")
        secret.chmod(0o600)
        for one in ("linked", "roots", "waiting", "plain"):
            (place / one).mkdir()
        (place / "linked" / "layer.bin").symlink_to(secret)
        (place / "roots" / "layer.bin").write_text("secret")
        (place / "roots" / "layer.bin").chmod(0o600)
        os.mkfifo(place / "waiting" / "layer.bin")
        for one in ("linked", "roots", "waiting"):
            with pytest.raises(MachineError, match="can't be copied to the disk in memory"):
                disk.copy(place / one)
        assert [file for file in folder.rglob("*.bin") if file.stat().st_size] == []
        (place / "plain" / "layer.bin").write_text("weights")
        (place / "plain" / "below").mkdir()
        copy = disk.copy(place / "plain")
        found = (copy / "layer.bin").stat()
        assert (copy / "layer.bin").read_text() == "weights"
        assert (found.st_uid, found.st_mode & 0o777) == (NOBODY, 0o600)
        assert (copy / "below").stat().st_uid == NOBODY


@pytest.mark.parametrize("step", [0, 1, 2, 3, 4, 99])
def test_what_a_killed_harness_left_is_cleaned_up(state: Path, step: int) -> None:
    """Killed before its first, second … command, or with swap on it: nothing is left of it."""
    words = [sys.executable, "-c", DIE, str(state), str(step)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == -9, done.stderr
    sentences = clear_leftovers(state)
    assert sum("the disk in memory" in one for one in sentences) == 1
    assert sum("the swap file" in one for one in sentences) == (step == 99)
    assert (loops(state.parent), [*state.iterdir()]) == ([], [])
    assert str(state.parent) not in Path("/proc/mounts").read_text()


def test_what_others_see_does_not_keep_it(disk: RamDisk, tmp_path: Path) -> None:
    folder = disk.need(ROOM)
    with subprocess.Popen(
        ["unshare", "--mount", "--propagation", "private", "sleep", "60"]
    ) as other:
        try:
            # Until it has a copy of the mounts.
            deadline = time.monotonic() + 200
            while str(folder) not in Path(f"/proc/{other.pid}/mounts").read_text() or (
                Path("/proc/self/ns/mnt").readlink() == Path(f"/proc/{other.pid}/ns/mnt").readlink()
            ):
                assert time.monotonic() < deadline
                time.sleep(0.02)
            disk.off()
            assert not folder.parent.exists()
            backing = [text.split(" ")[0] for text in loops(tmp_path)]
            assert all(not Path(text.strip()).exists() for text in backing)
        finally:
            other.kill()


def test_a_missing_tool_is_named(
    disk: RamDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was made until then is gone."""
    monkeypatch.setattr("edgebench.cgroups.storage._MAKE_FILE_SYSTEM", ("mkfs.none",))
    with pytest.raises(MachineError, match=r"mkfs\.none is not on this machine"):
        disk.need(ROOM)
    disk.off()
    assert loops(tmp_path) == []
