"""Nothing that another user plants where root writes leads root anywhere."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from edgebench import safe_files
from edgebench.cli.verbs import VERBS
from edgebench.errors import UnsafePathError
from tests.trust.stranger import STRANGER
from tests.trust.tried_verbs import READERS, SWEEPS, WRITERS

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.root
#: Made in scratch folders of root's own, by root's trials: a cgroup is needed.
_TRIALS = {"measure", "run", "resume", "calibrate"}
_SAMPLE = 4
#: Every third case: of the five plants one or two at each path. 1 is each plant at each path.
_STEP = int(os.environ.get("EDGEBENCH_PLANT_STEP", "3"))


def planted(verb: str, at_most: int = 10**9, step: int = 1) -> dict[str, Any]:
    """What the plants did to one verb."""
    words = [verb, str(at_most), str(step)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.trust.planting", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def writers() -> list[Any]:
    """Each of what writes, with what it needs."""
    marks = {name: [pytest.mark.own_cgroup] if name in _TRIALS else [] for name in WRITERS}
    return [pytest.param(name, marks=marks[name], id=name) for name in WRITERS]


@pytest.mark.process
@pytest.mark.promise(
    "If another user places a link, a FIFO or a hard link at a path that a command writes, "
    "temporary names included, root changes nothing outside."
)
@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("verb", writers())
def test_no_plant_leads_root_astray(verb: str) -> None:
    """At every path that it writes a plant changes nothing outside, and it ends in words."""
    found = planted(verb, step=_STEP)
    assert found["wrong"] == []
    assert found["tried"] >= len(found["paths"]) > 0


@pytest.mark.process
@pytest.mark.promise(
    "If another user places a link, a FIFO or a hard link at a path that a command writes, "
    "temporary names included, root changes nothing outside."
)
@pytest.mark.parametrize("verb", ["fit", "resume"])
def test_some_plants_lead_root_nowhere(verb: str) -> None:
    """The same for a few of its paths and plants."""
    found = planted(verb, _SAMPLE)
    assert found["wrong"] == []
    assert found["tried"] > 0


@pytest.mark.process
@pytest.mark.promise(
    "If another user places a link, a FIFO or a hard link at a path that a command writes, "
    "temporary names included, root changes nothing outside."
)
@pytest.mark.exclusive
def test_who_only_reads_writes_nothing() -> None:
    """As root in another's folder the other verbs make nothing at all; the doctor tries swap."""
    found = planted("readers")
    assert found["tried"] == len(READERS)
    assert found["paths"] == []


def test_every_verb_is_tried() -> None:
    """No verb is forgotten."""
    assert set(VERBS) <= {*WRITERS, *READERS, *SWEEPS}


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder of root's that others may pass through, with one of the stranger's in it."""
    with TemporaryDirectory(prefix="trust-", dir="/var/tmp") as name:
        top = Path(name)
        top.chmod(0o755)
        (top / "own").mkdir()
        os.chown(top / "own", STRANGER, STRANGER)
        yield top


@pytest.mark.promise(
    "What root creates in a user's folder belongs to that user and is created with that "
    "user's rights."
)
def test_what_is_made_is_the_folder_s_owner_s(place: Path) -> None:
    """Files and folders, with the modes asked for; root's stay root's."""
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


def test_links_that_lead_in_a_circle_end(place: Path) -> None:
    """As the kernel's own way ends."""
    (place / "a").symlink_to("b")
    (place / "b").symlink_to("a")
    with pytest.raises(OSError, match="symbolic links"):
        safe_files.write(place / "a" / "file", b"x")


@pytest.mark.promise(
    "What root creates in a user's folder belongs to that user and is created with that "
    "user's rights."
)
def test_root_gets_its_own_rights_back(place: Path) -> None:
    """Also after a failure, with the owner's rights alone in between."""
    (place / "own").chmod(0o500)
    with pytest.raises(PermissionError) as caught:
        safe_files.write(place / "own" / "file", b"x")
    assert caught.value.filename == str(place / "own" / "file")
    (place / "own" / "by root").write_text("x")
    assert (place / "own" / "by root").stat().st_uid == 0


def test_a_file_of_somebody_else_is_not_written_to(place: Path) -> None:
    """In a folder where anybody may put files, root's words would become theirs."""
    (place / "shared").mkdir()
    (place / "shared").chmod(0o777)
    theirs = place / "shared" / "file"
    theirs.write_text("theirs")
    os.chown(theirs, STRANGER, STRANGER)
    with pytest.raises(UnsafePathError, match="somebody else"):
        safe_files.write(theirs, b"secret")
    assert theirs.read_text() == "theirs"


def test_of_a_folder_removed_links_lead_nowhere(place: Path) -> None:
    """Only what is in it goes."""
    (place / "kept").mkdir()
    (place / "kept" / "file").write_text("x")
    gone = place / "own" / "gone"
    (gone / "deep").mkdir(parents=True)
    (gone / "deep" / "link").symlink_to(place / "kept")
    os.mkfifo(gone / "fifo")
    for made in (gone, gone / "deep"):
        os.chown(made, STRANGER, STRANGER)
    safe_files.remove_folder(gone)
    assert not gone.exists()
    assert (place / "kept" / "file").read_text() == "x"
    gone.symlink_to(place / "kept")
    safe_files.remove_folder(gone)
    assert (place / "kept" / "file").exists()


def test_folders_of_any_depth_are_removed(place: Path) -> None:
    """Nested too deep for a call, or a descriptor, for each."""
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
    """A folder of root's that somebody could rename into theirs keeps what is in it."""
    roots = place / "own" / "roots"
    roots.mkdir(mode=0o700)
    (roots / "file").write_text("x")
    safe_files.remove_folder(roots)
    assert (roots / "file").read_text() == "x"
