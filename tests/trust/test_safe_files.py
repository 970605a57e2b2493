"""Safe files are plain files of ours with one name; nothing in their place is written to."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from edgebench import safe_files
from edgebench.errors import UnsafePathError
from edgebench.processes import Identity

ANOTHER = 1000


def put(fd: int) -> None:
    with os.fdopen(fd, "wb") as file:
        file.write(b"new")


#: Each way to write to a path.
WRITERS: dict[str, Callable[[Path], object]] = {
    "write": lambda path: safe_files.write(path, b"new"),
    "write_whole": lambda path: safe_files.write_whole(path, b"new"),
    "open_file": lambda path: put(safe_files.open_file(path, os.O_CREAT | os.O_WRONLY)),
    "open_to_read_too": lambda path: put(safe_files.open_file(path, os.O_CREAT | os.O_RDWR)),
    "open_empty": lambda path: put(safe_files.open_empty(path)),
}


def hard_link(path: Path, kept: Path) -> None:
    path.hardlink_to(kept)


def device(path: Path, kept: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))


#: What may lie at the path, with a file outside that it may lead to.
PLANTS: dict[str, Callable[[Path, Path], object]] = {
    "a link": lambda path, kept: path.symlink_to(kept),
    "a link that leads nowhere": lambda path, kept: path.symlink_to(kept.with_name("made")),
    "a hard link": hard_link,
    "a FIFO": lambda path, kept: os.mkfifo(path),
    "a device": device,
    "a folder": lambda path, kept: path.mkdir(),
}


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    (tmp_path / "outside").mkdir()
    (tmp_path / "own").mkdir()
    file = tmp_path / "outside" / "kept"
    file.write_bytes(b"kept")
    return file


@pytest.mark.timeout(20)
@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("plant", PLANTS)
def test_what_lies_in_a_file_s_place_is_not_written_to(
    tmp_path: Path, kept: Path, plant: str, writer: str
) -> None:
    path = tmp_path / "own" / "file"
    PLANTS[plant](path, kept)
    before = path.lstat()
    with pytest.raises(UnsafePathError) as refused:
        WRITERS[writer](path)
    assert refused.value.where == str(path)
    assert (path.lstat().st_ino, path.lstat().st_mode) == (before.st_ino, before.st_mode)
    assert list(path.parent.iterdir()) == [path]
    assert [(one.name, one.read_bytes()) for one in kept.parent.iterdir()] == [("kept", b"kept")]


@pytest.mark.root
@pytest.mark.parametrize("writer", sorted(set(WRITERS) - {"write_whole"}))
def test_a_file_of_another_user_is_not_written_to(tmp_path: Path, writer: str) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"theirs")
    os.chown(file, ANOTHER, ANOTHER)
    with pytest.raises(UnsafePathError, match=f"user {ANOTHER}"):
        WRITERS[writer](file)
    assert file.read_bytes() == b"theirs"
    safe_files.write_whole(file, b"new")
    assert (file.read_bytes(), file.stat().st_uid) == (b"new", 0)


@pytest.mark.parametrize("old", [None, b"longer than before"])
@pytest.mark.parametrize("writer", WRITERS)
def test_what_is_written_is_there(tmp_path: Path, writer: str, old: bytes | None) -> None:
    file = tmp_path / "file"
    if old:
        file.write_bytes(old)
    WRITERS[writer](file)
    rest = old[3:] if old and writer in ("open_file", "open_to_read_too") else b""
    assert file.read_bytes() == b"new" + rest
    os.close(safe_files.open_empty(file))
    assert file.read_bytes() == b""
    assert list(tmp_path.iterdir()) == [file]


def test_a_file_is_put_there_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What fails leaves nothing, and the old file; else file and folder are on the disk."""
    file = safe_files.write_whole(tmp_path / "file", b"old", 0o600)
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.fstat(fd).st_mode))
    with contextlib.suppress(KeyError), safe_files.replaced(file) as new:
        new.write(b"half of it")
        assert len(list(tmp_path.iterdir())) == 2
        raise KeyError
    assert [(one.name, one.read_bytes()) for one in tmp_path.iterdir()] == [("file", b"old")]
    synced.clear()
    safe_files.write_whole(file, b"new", 0o600)
    assert [stat.S_ISDIR(mode) for mode in synced] == [False, True]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    synced.clear()
    for path in (file, tmp_path):
        safe_files.sync(path)
    (tmp_path / "link").symlink_to(file)
    os.mkfifo(tmp_path / "fifo")
    for name in ("link", "fifo"):
        safe_files.sync(tmp_path / name)
    assert [stat.S_ISDIR(mode) for mode in synced] == [False, True]


@pytest.mark.root
def test_owner_and_mode_are_those_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "file"
    owner = Identity(ANOTHER, 2000, (2000,), Path("/"))
    os.close(safe_files.open_empty(file, 0o666, owner=owner))
    found = file.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (ANOTHER, 2000, 0o666)


def test_private_folders_are_for_us_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that others may pass through can't be looked into; who may write to one is asked for."""
    monkeypatch.delenv("SUDO_UID", raising=False)
    umask = os.umask(0o077)
    for name, reachable, mode in (("alone", False, 0o700), ("passed", True, 0o711)):
        safe_files.make_private_folder(tmp_path / name, reachable=reachable)
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == mode
    os.umask(umask)
    with pytest.raises(FileExistsError):
        safe_files.make_private_folder(tmp_path / "alone")
    safe_files.make_folder(tmp_path / "a" / "b", parents=True)
    assert not safe_files.is_own_folder(tmp_path / "a" / "none")
    (tmp_path / "a" / "b").chmod(0o777)
    with pytest.raises(UnsafePathError, match="other users can write"):
        safe_files.is_own_folder(tmp_path / "a" / "b")


def test_what_is_removed_is_what_is_named(tmp_path: Path, kept: Path) -> None:
    gone = tmp_path / "own" / "gone"
    (gone / "deep" / "deeper").mkdir(parents=True)
    (gone / "deep" / "deeper" / "file").write_bytes(b"x")
    for folder in (gone, gone / "deep"):
        (folder / "link").symlink_to(kept.parent)
        (folder / "fifo").touch()
    safe_files.remove_folder(gone)
    assert not gone.exists()
    gone.symlink_to(kept.parent)
    safe_files.remove_folder(gone)
    safe_files.remove_file(gone)
    safe_files.remove_file(gone)
    assert not gone.is_symlink()
    safe_files.rename(kept, "renamed")
    assert (kept.parent / "renamed").read_bytes() == b"kept"
