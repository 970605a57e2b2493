"""Nothing outlives the harness, even one killed with SIGKILL; and nothing else is touched."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from edgebench.cgroups.interface import Cgroup
from edgebench.cgroups.join import join_command
from edgebench.cgroups.leftovers import Ownership, claims, clear_leftovers, state_folder
from edgebench.cgroups.parent import ParentCgroup
from edgebench.errors import MachineError

_DIE = """
import os, signal, sys
from pathlib import Path
from edgebench.cgroups.leftovers import Ownership
ownership = Ownership(Path(sys.argv[1]))
for claim in sys.argv[2:]:
    ownership.claim(*claim.split("=", 1))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "claims"
    path.mkdir(mode=0o700)
    return path


def die(folder: Path, *words: str) -> None:
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    done = subprocess.run([sys.executable, "-c", _DIE, str(folder), *words], env=env, check=False)
    assert done.returncode == -9


def test_the_end_takes_away_what_is_still_claimed(folder: Path, tmp_path: Path):
    kept, left = tmp_path / "edgebench-kept", tmp_path / "edgebench-left"
    for path in (kept, left):
        path.mkdir()
    with Ownership(folder) as ownership:
        for path in (kept, left):
            ownership.claim("temp-folder", str(path))
        ownership.release("temp-folder", str(kept))
    assert kept.exists()
    assert not left.exists()
    assert not list(folder.iterdir())


def test_the_state_folder_goes_with_the_last(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr("edgebench.cgroups.leftovers.state_folder", lambda: _made(tmp_path / "s"))
    with Ownership():
        with Ownership():
            pass
        assert len(list((tmp_path / "s").iterdir())) == 1
    assert not (tmp_path / "s").exists()


@pytest.mark.promise(
    "A harness killed before it locked its state file leaves none behind, and removes none of "
    "a running harness."
)
def test_a_file_of_a_start_that_died_at_once_goes(folder: Path):
    (folder / "1-dead.new").touch()
    living = folder / "2-living.new"
    with living.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        clear_leftovers(folder)
        assert list(folder.iterdir()) == [living]


@pytest.mark.promise(
    "A harness killed before it locked its state file leaves none behind, and removes none of "
    "a running harness."
)
def test_a_start_whose_file_is_cleared_makes_another(folder: Path, monkeypatch: pytest.MonkeyPatch):
    real, stolen = fcntl.flock, []

    def flock(fd: int, how: int) -> None:
        if not stolen:
            stolen.extend(folder.glob("*.new"))
            stolen[0].unlink()
        real(fd, how)

    monkeypatch.setattr("edgebench.cgroups.leftovers.fcntl.flock", flock)
    with Ownership(folder) as ownership:
        assert [ownership.path] == list(folder.iterdir())
    assert len(stolen) == 1


def _made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder


@pytest.mark.process
@pytest.mark.promise("Nothing that a running harness has created is touched.")
def test_a_dead_harness_is_cleared_and_a_living_one_is_not(folder: Path, tmp_path: Path):
    dead, living = tmp_path / "edgebench-dead", tmp_path / "edgebench-living"
    for path in (dead, living):
        path.mkdir()
        (path / "file").write_text("x")
    die(folder, f"temp-folder={dead}", "temp-folder=/tmp/edgebench-never-made")
    with Ownership(folder) as ownership:
        ownership.claim("temp-folder", str(living))
        assert clear_leftovers(folder) == [f"removed the temporary folder {dead}"]
        assert not dead.exists()
        assert (living / "file").exists()
        assert len(list(folder.iterdir())) == 1


@pytest.mark.process
@pytest.mark.promise("Nothing without edgebench's name is touched, even through links or `..`.")
def test_nothing_without_our_name_is_touched(folder: Path, tmp_path: Path):
    precious = tmp_path / "precious"
    precious.mkdir()
    link = tmp_path / "edgebench-link"
    link.symlink_to(precious)
    round_about = tmp_path / "edgebench-x" / ".." / "precious"
    die(folder, *(f"temp-folder={path}" for path in (precious, link, round_about)))
    assert clear_leftovers(folder) == []
    assert precious.exists()


def test_a_torn_last_line_loses_nothing_else(tmp_path: Path):
    file = tmp_path / "1.claims"
    file.write_text('["claim", "zram", "/dev/zram0"]\n["claim", "cgroup", "/a"]\n["relea')
    assert claims(file) == [("zram", "/dev/zram0"), ("cgroup", "/a")]


@pytest.mark.own_cgroup
def test_a_dead_harness_s_cgroup_goes_with_all_in_it(
    folder: Path, parent: ParentCgroup, cgroup: Cgroup
):
    words = join_command(cgroup, ["sleep", "1000"], None, None)
    with subprocess.Popen(words) as process:
        while not cgroup.pids():
            pass
        die(folder, *(f"cgroup={path.parent}" for path in cgroup.join_files()))
        assert f"removed the cgroup {cgroup.path}" in clear_leftovers(folder)
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


def test_what_can_not_be_recorded_is_not_made(folder: Path, monkeypatch: pytest.MonkeyPatch):
    """A full disk takes a part of the line: it says so, with the file and what to do."""
    with Ownership(folder) as ownership:
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", lambda _, line: len(line) - 1)
            with pytest.raises(MachineError) as full:
                ownership.claim("temp-folder", "/edgebench-1")
            ownership.release("temp-folder", "/edgebench-1")
        words = "can't record what edgebench creates: No space left on device"
        assert (full.value.what, full.value.where) == (words, str(ownership.path))
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
