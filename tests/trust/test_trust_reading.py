"""What lies in a results folder is read safely: regular files alone, with their owner's rights."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from edgebench.safe_files import read_end, read_file, read_text
from edgebench.safe_folders import rights_of
from tests.trust.stranger import STRANGER


@pytest.fixture
def place() -> Iterator[Path]:
    with TemporaryDirectory(prefix="trust-", dir="/var/tmp") as name:
        top = Path(name)
        top.chmod(0o755)
        (top / "secret").write_text("root's")
        (top / "secret").chmod(0o600)
        (top / "own").mkdir()
        (top / "own" / "file").write_text("theirs\r\nof\rtwo")
        for path in (top / "own", top / "own" / "file"):
            os.chown(path, STRANGER, STRANGER)
        yield top


def link(path: Path, target: Path | str, owner: int = STRANGER) -> Path:
    path.symlink_to(target)
    os.chown(path, owner, owner, follow_symlinks=False)
    return path


@pytest.mark.promise(
    "A FIFO, device, socket, link, folder or endless file in a results folder hangs no verb, and "
    "root follows no link there that its maker may not follow."
)
@pytest.mark.parametrize(
    ("make", "what"),
    [
        (os.mkfifo, "a FIFO"),
        (os.mkdir, "a folder"),
        (lambda path: path.symlink_to("/dev/zero"), "a device"),
        (lambda path: path.symlink_to("fifo"), "a FIFO"),
    ],
    ids=["FIFO", "folder", "link to a device", "link to a FIFO"],
)
def test_only_regular_files_are_read(
    tmp_path: Path, make: Callable[[Path], None], what: str
) -> None:
    """Anything else is named, and nothing waits for a FIFO's writer."""
    os.mkfifo(tmp_path / "fifo")
    make(tmp_path / "it")
    with pytest.raises(OSError, match=f"it is {what}, not a file"):
        read_file(tmp_path / "it")


def test_a_huge_file_is_not_read_whole(tmp_path: Path) -> None:
    with (tmp_path / "it").open("wb") as file:
        file.truncate(40 << 30)
        file.seek(0, 2)
        file.write(b"end")
    with pytest.raises(OSError, match=r"it has 40\.00 GiB; at most 512\.0 MiB are read"):
        read_file(tmp_path / "it")
    assert read_end(tmp_path / "it", 4) == b"\0end"


@pytest.mark.root
@pytest.mark.promise("What root reads for another user is what that user may read.")
@pytest.mark.promise(
    "A FIFO, device, socket, link, folder or endless file in a results folder hangs no verb, and "
    "root follows no link there that its maker may not follow."
)
def test_root_reads_with_the_owner_s_rights(place: Path) -> None:
    """Below a folder of somebody else a link leads to what its owner may read, and no further."""
    own = place / "own"
    assert read_text(own / "file") == "theirs\nof\ntwo"
    link(own / "stolen", place / "secret")
    (own / "taken").write_text("root's too")
    (own / "taken").chmod(0o600)
    for path in (own / "stolen", own / "taken"):
        with pytest.raises(PermissionError) as caught:
            read_file(path)
        assert caught.value.filename == str(path)
    (place / "public").write_text("for all")
    assert read_text(link(own / "fine", "../public")) == "for all"
    assert read_text(place / "secret") == "root's"


@pytest.mark.root
def test_links_of_folders_are_no_way_around(place: Path) -> None:
    own = place / "own"
    (place / "private").mkdir(mode=0o700)
    for folder in ("private", "."):
        (place / folder / "data").write_text("data")
    (place / "data").chmod(0o600)
    for name, target in {"in": "../private", "up": "..", "slash": place}.items():
        with pytest.raises(PermissionError):
            read_file(link(own / name, target) / "data")
    (place / "data").chmod(0o644)
    assert read_text(own / "up" / "data") == "data"
    # The kernel's links lead there without the folders on the way.
    with (place / "private" / "data").open() as file, pytest.raises(PermissionError):
        read_file(link(own / "magic", f"/proc/self/fd/{file.fileno()}"))


@pytest.mark.root
def test_a_third_user_s_link_is_not_followed(place: Path) -> None:
    """Neither user's rights would do: each could have what is the other's read for them."""
    (place / "own" / "theirs").mkdir()
    path = link(place / "own" / "theirs" / "it", "../file", STRANGER + 1)
    with pytest.raises(PermissionError, match="somebody else could have put there"):
        read_file(path)


@pytest.mark.root
def test_in_a_shared_folder_a_link_is_its_maker_s(place: Path) -> None:
    (place / "shared").mkdir()
    (place / "shared").chmod(0o1777)
    assert read_text(link(place / "shared" / "mine", place / "secret", 0)) == "root's"
    with pytest.raises(PermissionError):
        read_file(link(place / "shared" / "theirs", place / "secret"))


@pytest.mark.root
def test_root_s_groups_are_no_way_around(place: Path) -> None:
    """What group root may read is as closed as what root alone may; afterwards they are back."""
    (place / "secret").chmod(0o640)
    before = os.getgroups()
    os.setgroups([0])
    try:
        with pytest.raises(PermissionError):
            read_file(link(place / "own" / "stolen", place / "secret"))
        with rights_of(STRANGER, 0), pytest.raises(PermissionError):
            (place / "secret").read_text()
        assert os.getgroups() == [0]
    finally:
        os.setgroups(before)
