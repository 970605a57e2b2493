"""Nothing that another user plants where root writes leads root anywhere."""

from __future__ import annotations

import itertools
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from edgebench import safe_files
from edgebench.errors import UnsafePathError
from tests.made_sweep import Shape, make
from tests.own_path import call
from tests.trust.stranger import STRANGER

pytestmark = pytest.mark.root
#: Verbs that write into the folder that they are started in; the trials of the others are in
#: test_trust_workloads.py.
_WRITERS = (
    "report results --markdown",
    "export results -o trials.csv",
    "init lenet --out new.toml",
)


@pytest.fixture
def place() -> Iterator[Path]:
    with TemporaryDirectory(prefix="trust-", dir="/var/tmp") as name:
        top = Path(name)
        top.chmod(0o755)
        (top / "own").mkdir()
        os.chown(top / "own", STRANGER, STRANGER)
        yield top


def files_in(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


def verb(place: Path, words: str) -> int:
    done = call(*words.split(), folder=place / "own")
    assert "Traceback" not in done.stderr
    return done.returncode


@pytest.fixture
def made(place: Path) -> Path:
    make(place / "own" / "results", Shape(networks={"lenet": 3}, repeats=2, rounds=1), "board")
    for path in files_in(place / "own"):
        os.chown(path, STRANGER, STRANGER)
    return place


@pytest.mark.process
@pytest.mark.promise(
    "If another user places a link, a FIFO or a hard link at a path that a command writes, "
    "root changes nothing outside."
)
@pytest.mark.parametrize("words", _WRITERS)
def test_what_a_verb_writes_is_the_folders_owners(made: Path, words: str) -> None:
    """All of it; and with a link, a FIFO or a hard link at each path, nothing outside changes."""
    before = files_in(made / "own")
    assert verb(made, words) == 0
    written = [path for path in files_in(made / "own") - before if path.is_file()]
    assert written
    assert {path.lstat().st_uid for path in files_in(made / "own")} == {STRANGER}
    precious = made / "precious"
    precious.write_text("precious")
    precious.chmod(0o666)
    for path, plant in zip(sorted(written), itertools.cycle(("symlink_to", "hardlink_to", "fifo"))):
        path.unlink()
        if plant == "fifo":
            os.mkfifo(path)
        else:
            getattr(path, plant)(precious)
    assert verb(made, words) in (0, 1, 2)
    assert precious.read_text() == "precious"


@pytest.mark.promise(
    "What root creates in a user's folder belongs to that user and is created with that "
    "user's rights."
)
def test_what_is_made_is_the_folder_s_owner_s(place: Path) -> None:
    safe_files.make_folder(place / "own" / "a" / "b", parents=True)
    token = safe_files.write_whole(place / "own" / "a" / "b" / "token", b"x", 0o600)
    safe_files.write(place / "mine", b"x")
    owners = {path.stat().st_uid for path in (token, token.parent, token.parent.parent)}
    assert owners == {STRANGER}
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    assert (place / "mine").stat().st_uid == 0


def test_under_sudo_a_folder_in_root_s_is_the_caller_s(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or a later start without sudo could not write there; one of our own stays ours."""
    monkeypatch.setenv("SUDO_UID", str(STRANGER))
    monkeypatch.setenv("SUDO_GID", str(STRANGER))
    safe_files.make_folder(place / "results" / "board", parents=True)
    safe_files.make_private_folder(place / "scratch", reachable=True)
    owners = [(place / name).stat().st_uid for name in ("results", "results/board", "scratch")]
    assert owners == [STRANGER, STRANGER, 0]
    assert stat.S_IMODE((place / "scratch").stat().st_mode) == 0o711


def test_root_s_own_links_are_followed(place: Path) -> None:
    """On the way, where nobody else could have put them, and through no folder of anybody else."""
    (place / "disk").mkdir()
    (place / "results").symlink_to("disk")
    safe_files.write_whole(place / "results" / "file", b"x")
    assert (place / "disk" / "file").read_bytes() == b"x"
    (place / "own" / "results").symlink_to(place / "disk")
    with pytest.raises(UnsafePathError, match="link lies on the way") as caught:
        safe_files.write_whole(place / "own" / "results" / "file", b"y")
    assert str(place / "disk") in str(caught.value.remedy)
    (place / "results").unlink()
    (place / "results").symlink_to("disk")
    os.chown(place / "results", STRANGER, STRANGER, follow_symlinks=False)
    with pytest.raises(UnsafePathError):
        safe_files.write_whole(place / "results" / "file", b"y")
    assert (place / "disk" / "file").read_bytes() == b"x"


@pytest.mark.promise(
    "What root creates in a user's folder belongs to that user and is created with that "
    "user's rights."
)
def test_root_gets_its_own_rights_back(place: Path) -> None:
    (place / "own").chmod(0o500)
    with pytest.raises(PermissionError) as caught:
        safe_files.write(place / "own" / "file", b"x")
    assert caught.value.filename == str(place / "own" / "file")
    (place / "own" / "by root").write_text("x")
    assert (place / "own" / "by root").stat().st_uid == 0


def test_folders_of_any_depth_are_removed(place: Path) -> None:
    gone = place / "gone"
    gone.mkdir()
    inner = os.open(gone, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=inner)
        outer, inner = inner, os.open("d", os.O_RDONLY, dir_fd=inner)
        os.close(outer)
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=inner))
    os.close(inner)
    safe_files.remove_folder(gone)
    assert not gone.exists()


@pytest.mark.promise("Root removes below a user's folder only what that user could remove.")
def test_what_is_removed_is_removed_as_the_folders_owner(place: Path) -> None:
    roots = place / "own" / "roots"
    roots.mkdir(mode=0o700)
    (roots / "file").write_text("x")
    safe_files.remove_folder(roots)
    assert (roots / "file").read_text() == "x"
