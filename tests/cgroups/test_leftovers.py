"""Nothing outlives the harness, even one killed with SIGKILL; and nothing else is touched."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from edgebench.cgroups import leftovers, storage
from edgebench.cgroups.interface import Cgroup
from edgebench.cgroups.join import join_command
from edgebench.cgroups.leftovers import (
    Ownership,
    claims,
    clear_leftovers,
    clear_ram_disk,
    clear_swap_file,
    clear_zram,
    state_folder,
    swap_off,
)
from edgebench.cgroups.parent import ParentCgroup
from edgebench.cgroups.storage import RamDisk
from edgebench.errors import MachineError
from tests.cgroups.conftest import Tools, areas

MIB = 1 << 20
_DIE = """
import os, signal, sys
from pathlib import Path
from edgebench.cgroups.leftovers import Ownership
ownership = Ownership(Path(sys.argv[1]))
for claim in sys.argv[2:]:
    ownership.claim(*claim.split("=", 1))
os.kill(os.getpid(), signal.SIGKILL)
"""


def die(state: Path, *words: str) -> None:
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    done = subprocess.run([sys.executable, "-c", _DIE, str(state), *words], env=env, check=False)
    assert done.returncode == -9


def test_the_end_takes_away_what_is_still_claimed(state: Path, tmp_path: Path):
    kept, left = tmp_path / "edgebench-kept", tmp_path / "edgebench-left"
    for path in (kept, left):
        path.mkdir()
    with Ownership(state) as ownership:
        for path in (kept, left):
            ownership.claim("temp-folder", str(path))
        ownership.release("temp-folder", str(kept))
    assert kept.exists()
    assert not left.exists()
    assert not list(state.iterdir())


def test_the_state_folder_goes_with_the_last(monkeypatch: pytest.MonkeyPatch, state: Path):
    monkeypatch.setattr(leftovers, "state_folder", lambda: state)
    with Ownership():
        with Ownership():
            pass
        assert len(list(state.iterdir())) == 1
    assert not state.exists()


@pytest.mark.promise(
    "A harness killed before it locked its state file leaves none behind, and removes none of "
    "a running harness."
)
def test_a_file_of_a_start_that_died_at_once_goes(state: Path):
    (state / "1-dead.new").touch()
    living = state / "2-living.new"
    with living.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        clear_leftovers(state)
        assert list(state.iterdir()) == [living]


def test_a_start_whose_file_is_cleared_makes_another(state: Path, monkeypatch: pytest.MonkeyPatch):
    real, stolen = fcntl.flock, []

    def flock(fd: int, how: int) -> None:
        if not stolen:
            stolen.extend(state.glob("*.new"))
            stolen[0].unlink()
        real(fd, how)

    monkeypatch.setattr("edgebench.cgroups.leftovers.fcntl.flock", flock)
    with Ownership(state) as ownership:
        assert [ownership.path] == list(state.iterdir())
    assert len(stolen) == 1


@pytest.mark.process
@pytest.mark.promise("Nothing that a running harness has created is touched.")
def test_a_dead_harness_is_cleared_and_a_living_one_is_not(state: Path, tmp_path: Path):
    dead, living = tmp_path / "edgebench-dead", tmp_path / "edgebench-living"
    for path in (dead, living):
        path.mkdir()
        (path / "file").write_text("x")
    die(state, f"temp-folder={dead}", "temp-folder=/tmp/edgebench-never-made")
    with Ownership(state) as ownership:
        ownership.claim("temp-folder", str(living))
        assert clear_leftovers(state) == [f"removed the temporary folder {dead}"]
        assert not dead.exists()
        assert (living / "file").exists()
        assert len(list(state.iterdir())) == 1


@pytest.mark.process
@pytest.mark.promise("Nothing without edgebench's name is touched, even through links or `..`.")
def test_nothing_without_our_name_is_touched(state: Path, tmp_path: Path):
    precious = tmp_path / "precious"
    precious.mkdir()
    link = tmp_path / "edgebench-link"
    link.symlink_to(precious)
    round_about = tmp_path / "edgebench-x" / ".." / "precious"
    die(state, *(f"temp-folder={path}" for path in (precious, link, round_about)))
    assert clear_leftovers(state) == []
    assert precious.exists()


def test_a_torn_last_line_loses_nothing_else(tmp_path: Path):
    file = tmp_path / "1.claims"
    file.write_text('["claim", "zram", "/dev/zram0"]\n["claim", "cgroup", "/a"]\n["relea')
    assert claims(file) == [("zram", "/dev/zram0"), ("cgroup", "/a")]


@pytest.mark.own_cgroup
def test_a_dead_harness_s_cgroup_goes_with_all_in_it(
    state: Path, parent: ParentCgroup, cgroup: Cgroup
):
    words = join_command(cgroup, ["sleep", "1000"], None, None)
    with subprocess.Popen(words) as process:
        while not cgroup.pids():
            pass
        die(state, *(f"cgroup={path.parent}" for path in cgroup.join_files()))
        assert f"removed the cgroup {cgroup.path}" in clear_leftovers(state)
        assert process.wait(200) == -9
    assert not any(path.parent.exists() for path in cgroup.join_files())


@pytest.mark.promise("A cgroup is recorded in the state file before it is created.")
@pytest.mark.own_cgroup
def test_a_cgroup_is_claimed_before_it_is_made(ownership: Ownership, parent: ParentCgroup):
    (file,) = ownership.path.parent.glob("*.claims")
    made = parent.create(f"{os.getpid()}-claimed")
    assert ("cgroup", str(made.path)) in claims(file)
    made.remove()
    # On version 2 what harnesses share stays claimed until the end.
    assert ("cgroup", str(made.path)) not in claims(file)


def test_a_state_folder_that_others_can_write_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A path in it would be taken away as root: it must be its owner's alone."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(MachineError, match="other users can write") as refused:
        state_folder()
    assert Path(str(refused.value.where)).name.startswith("edgebench")
    assert str(refused.value.remedy).endswith(f"rm -r {refused.value.where}")


def test_what_can_not_be_recorded_is_not_made(state: Path, monkeypatch: pytest.MonkeyPatch):
    """A full disk takes a part of the line: it says so, with the file and what to do."""
    with Ownership(state) as ownership, monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda _, line: len(line) - 1)
        with pytest.raises(MachineError, match="creates: No space left on device") as full:
            ownership.claim("temp-folder", "/edgebench-1")
        ownership.release("temp-folder", "/edgebench-1")
    assert full.value.where == str(ownership.path)
    assert full.value.remedy == "free some space there"


@pytest.mark.parametrize(
    ("uid", "runtime", "name"),
    [
        (0, "here", "/run/edgebench"),
        (1000, "here", "{tmp}/runtime/edgebench"),
        (1000, None, "{tmp}/edgebench-state-1000"),
    ],
)
def test_where_state_files_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uid: int, runtime: str | None, name: str
):
    """Root's in /run; a user's in their runtime folder, else in a folder of the user's number."""

    def refuse(path: Path) -> None:
        raise OSError(13, "Permission denied")

    monkeypatch.setattr(os, "geteuid", lambda: uid)
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr("edgebench.cgroups.leftovers.make_private_folder", refuse)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    if runtime is None:
        monkeypatch.delenv("XDG_RUNTIME_DIR")
    with pytest.raises(MachineError, match="Permission denied") as refused:
        state_folder()
    assert refused.value.where == name.format(tmp=tmp_path)


def test_only_what_is_on_is_swapped_off(tools: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
    """Again and again while the kernel refuses, four pauses at most; then its words remain."""
    monkeypatch.setattr(leftovers, "read_swap_areas", areas(sda2=-2))
    swap_off(Path("/dev/sdb"))
    assert tools.called == []
    tools.failing = 2
    swap_off(Path("/dev/sda2"))
    assert tools.called == [["swapoff", "/dev/sda2"]] * 3
    tools.called.clear()
    tools.failing = 9
    with pytest.raises(MachineError, match="swapoff failed: busy") as refused:
        swap_off(Path("/dev/sda2"))
    assert len(tools.called) == 5
    assert refused.value.remedy == "free some memory, then: swapoff /dev/sda2"
    assert refused.value.where == "/dev/sda2"
    monkeypatch.setattr(leftovers, "read_swap_areas", lambda: None)
    swap_off(Path("/dev/sda2"))
    assert len(tools.called) == 5


def test_a_zram_device_is_reset_and_removed(
    tools: Tools, kernel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Swapped off first; a kernel that can't remove devices keeps it, empty."""
    monkeypatch.setattr(leftovers, "read_swap_areas", areas(zram3=100))
    assert clear_zram(Path("/dev/zram3")) == "removed the swap device /dev/zram3"
    assert tools.called == [["swapoff", "/dev/zram3"]]
    assert (kernel / "sys/block/zram3/reset").read_text() == "1"
    remove = kernel / "sys/class/zram-control/hot_remove"
    assert remove.read_text() == "3"
    remove.unlink()
    assert clear_zram(Path("/dev/zram3")) is not None
    assert not remove.exists()


def test_another_device_is_never_reset(tools: Tools, kernel: Path) -> None:
    for name in ("loop7", "zram4"):
        assert clear_zram(Path("/dev") / name) is None
        assert tools.called == []
        assert not (kernel / f"sys/block/{name}/reset").exists()


def test_a_swap_file_goes_and_nothing_else(tools: Tools, tmp_path: Path) -> None:
    ours, link = tmp_path / "edgebench-swap", tmp_path / "edgebench-link"
    ours.write_text("")
    link.symlink_to(ours)
    (other := tmp_path / "swap").write_text("")
    others = (link, other, tmp_path / "edgebench-gone")
    assert not any(map(clear_swap_file, others))
    assert clear_swap_file(ours) == f"removed the swap file {ours}"
    assert [one.name for one in sorted(tmp_path.iterdir())] == ["edgebench-link", "swap"]


def test_a_disk_in_memory_leaves_half_a_gib_free(
    tools: Tools, ownership: Ownership, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "_fill", lambda *_: None)
    needed = int(100 * MIB * 1.02) + 112 * MIB + 512 * MIB
    assert RamDisk(ownership, lambda: needed, tmp_path).need(100 * MIB)
    tools.called.clear()
    disk = RamDisk(ownership, lambda: needed - 1, tmp_path)
    with pytest.raises(MachineError, match=r"726\.0 MiB are free, of which 512\.0 MiB stay"):
        disk.need(100 * MIB)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(MachineError, match="by root only"):
        disk.need(1)
    assert (disk.folder, tools.called) == (None, [])


def test_a_disk_in_use_is_tried_again_and_then_told(
    tools: Tools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "edgebench-ram-disk-1"
    (folder / "disk").mkdir(parents=True)
    monkeypatch.setattr(Path, "is_mount", lambda self: self.name == "disk")
    tools.failing = 9
    with pytest.raises(MachineError, match="umount failed: busy"):
        clear_ram_disk(folder)
    assert len(tools.called) == 4
    assert folder.exists()


def test_nothing_else_is_ever_unmounted(tmp_path: Path) -> None:
    other = tmp_path / "disk"
    other.mkdir()
    assert clear_ram_disk(tmp_path) is None
    link = tmp_path / "edgebench-ram-disk-1"
    link.symlink_to(other)
    assert clear_ram_disk(link) is None
    assert other.is_dir()
