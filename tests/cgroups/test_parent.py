"""Where cgroups can be created, or the cause and a remedy; mounts of many machines; limits hold."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edgebench.cgroups import parent as parent_module
from edgebench.cgroups.interface import Cgroup, Limits
from edgebench.cgroups.leftovers import Ownership
from edgebench.cgroups.parent import (
    Hierarchy,
    ParentCgroup,
    check_limit,
    find_parent,
    hierarchies,
)
from edgebench.errors import CgroupError
from edgebench.processes import Identity
from tests.cgroups.conftest import Run

REPOSITORY = Path(__file__).resolve().parents[2]
MIB = 1 << 20


def machine(monkeypatch: pytest.MonkeyPatch, *found: Hierarchy) -> None:
    monkeypatch.setattr(parent_module, "hierarchies", lambda: list(found))


def v1(folder: Path | None, *controllers: str, read_only: bool = False) -> Hierarchy:
    mount = folder or Path("/sys/fs/cgroup/x")
    return Hierarchy(1, frozenset(controllers), mount, folder, read_only)


def parent_here(folder: Path) -> ParentCgroup:
    with Ownership(folder) as ownership:
        return find_parent(ownership)


def refused() -> CgroupError:
    """Why there is no parent cgroup."""
    with tempfile.TemporaryDirectory() as folder, pytest.raises(CgroupError) as caught:
        parent_here(Path(folder))
    return caught.value


@pytest.mark.parametrize(
    ("command_line", "remedy"),
    [
        ("coherent_pool=1M cgroup_disable=memory\n", "/boot/firmware/cmdline.txt"),
        ("cgroup_disable=cpu,memory quiet\n", "started with cgroup_disable=memory"),
        ("root=/dev/sda1 cgroup_disable=cpu\n", "CONFIG_MEMCG"),
    ],
)
def test_memory_control_is_off(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command_line: str, remedy: str
):
    """Raspberry Pi OS disables it: the remedy is the kernel's command line."""
    (tmp_path / "cgroup.controllers").write_text("cpu io pids\n")
    (tmp_path / "cmdline").write_text(command_line)
    monkeypatch.setattr(parent_module, "_COMMAND_LINE", tmp_path / "cmdline")
    unified = Hierarchy(2, frozenset({"cpu", "io", "pids"}), tmp_path, tmp_path, False)
    machine(monkeypatch, v1(tmp_path, "cpu"), unified)
    assert remedy in str(refused().remedy)


@pytest.mark.promise(
    "`edgebench doctor` reports and says what to type: a cgroup that the mount does not show."
)
def test_our_own_cgroup_is_not_visible(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """As in a container that shows another part of the hierarchy; of version 2 the top is read."""
    (tmp_path / "cgroup.controllers").write_text("memory\n")
    for found in (v1(None, "memory"), Hierarchy(2, frozenset({"memory"}), tmp_path, None, False)):
        machine(monkeypatch, found)
        assert "not visible" in refused().what


def test_the_mount_is_read_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    machine(monkeypatch, v1(tmp_path, "memory", read_only=True))
    assert "--privileged" in str(refused().remedy)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("flags", "cause"), [(os.ST_RDONLY, "mounted read-only"), (0, "outside this container")]
)
def test_root_that_may_not_write_is_in_a_container(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: int, flags: int, cause: str
):
    """Its mount may say nothing of it: the file system is read-only, or root is another's there."""
    (tmp_path / "cgroup.controllers").write_text("memory\n")
    machine(monkeypatch, Hierarchy(version, frozenset({"memory"}), tmp_path, tmp_path, False))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    status = os.statvfs(tmp_path)
    values = (*status[:8], flags, status[9])
    monkeypatch.setattr(os, "statvfs", lambda path: os.statvfs_result(values))
    refusal = refused()
    assert cause in refusal.what
    assert "docker run --privileged" in str(refusal.remedy)


def test_only_what_can_be_written_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Memory is enough; a hierarchy that is read-only or not visible is left out."""
    machine(
        monkeypatch,
        v1(tmp_path, "memory"),
        v1(tmp_path, "cpu", read_only=True),
        v1(None, "cpuset"),
    )
    assert parent_here(tmp_path).bases == {"memory": tmp_path}


def test_version_2_s_base_passes_down_what_it_has(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Memory and what else is wanted, of the cgroup we are in; taken back at the end."""
    for name, text in (("controllers", "memory pids rdma"), ("procs", ""), ("subtree_control", "")):
        (tmp_path / f"cgroup.{name}").write_text(text)
    machine(monkeypatch, Hierarchy(2, frozenset({"memory"}), tmp_path, tmp_path, False))
    (tmp_path / "state").mkdir(mode=0o700)
    with Ownership(tmp_path / "state") as ownership:
        found = find_parent(ownership)
        assert (found.version, found.bases) == (2, {"memory": tmp_path, "pids": tmp_path})
        assert (tmp_path / "cgroup.subtree_control").read_text() == "+pids"
        (tmp_path / "cgroup.subtree_control").write_text("memory")
    assert (tmp_path / "cgroup.subtree_control").read_text() == "-memory"


@pytest.mark.own_cgroup
def test_the_ceiling_is_the_tightest_limit_above(cgroup: Cgroup, python: Run):
    cgroup.set_limits(Limits(256 << 20))
    kind = ParentCgroup(cgroup.version, {"memory": cgroup.path})
    assert kind.ceiling_bytes == 256 << 20


@pytest.fixture
def nobody(cgroup: Cgroup) -> Iterator[Identity]:
    for path in (cgroup.path, *cgroup.path.iterdir()):
        if path.name in (cgroup.path.name, "cgroup.procs", "tasks", "cgroup.subtree_control"):
            os.chown(path, 65534, 65534)
    yield Identity(65534, 65534, (65534,), Path("/"))
    assert not [inner for inner in cgroup.path.iterdir() if inner.is_dir()]


@pytest.fixture
def public_python() -> str:
    for path in (sys.executable, shutil.which("python3", path="/usr/bin:/usr/local/bin")):
        if path and all(parent.stat().st_mode & 0o001 for parent in Path(path).resolve().parents):
            return path
    pytest.skip("no Python here that another user can run")


_SWEEP_IN_SMALL = """
import json, sys
sys.path[:0] = json.loads(sys.argv[1])
from pathlib import Path
from edgebench.cgroups.leftovers import Ownership
from edgebench.cgroups.parent import check_limit, find_parent
with Ownership(Path(sys.argv[2])) as ownership:
    parent = find_parent(ownership)
    limit = check_limit(parent)
    made = parent.create("inner")
    print(json.dumps([str(parent.path), sorted(parent.bases), limit, made.missing()]))
    made.remove()
"""


@pytest.mark.own_cgroup
@pytest.mark.root
def test_a_user_with_a_cgroup_of_their_own(
    cgroup: Cgroup, run: Run, nobody: Identity, public_python: str, tmp_path: Path
):
    state = tmp_path / "nobody"
    state.mkdir()
    os.chown(state, nobody.uid, nobody.gid)
    for folder in (tmp_path, *tmp_path.parents[:3]):
        if folder.owner() == "root" and not folder.stat().st_mode & 0o001:
            folder.chmod(0o755)
    words = (json.dumps([str(REPOSITORY), *sys.path]), str(state))
    done = run(public_python, "-c", _SWEEP_IN_SMALL, *words, identity=nobody)
    assert done.returncode == 0, done.stderr
    path, bases, limit, missing = json.loads(done.stdout)
    assert path == str(cgroup.path)
    assert "memory" in bases
    assert limit == 64 << 20
    if cgroup.version == 1:
        assert missing["cpu_ns"] == "the cpuacct controller is not available here"


@pytest.mark.own_cgroup
@pytest.mark.root
def test_a_user_in_root_s_cgroup(run: Run, public_python: str, tmp_path: Path):
    nobody = Identity(65534, 65534, (65534,), Path("/"))
    words = (json.dumps([str(REPOSITORY), *sys.path]), str(tmp_path))
    code = _SWEEP_IN_SMALL.replace("Ownership(Path(sys.argv[2]))", "__import__('io').StringIO()")
    done = run(public_python, "-c", code.replace("(ownership)", "(None)"), *words, identity=nobody)
    assert "belongs to another user" in done.stderr
    assert "remedy: " in done.stderr


def seen(tmp_path: Path, mounts: str, cgroup: str, folders: str = "") -> list[Hierarchy]:
    for folder in folders.split():
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    proc = tmp_path / "proc"
    proc.mkdir()
    (proc / "mountinfo").write_text(mounts.replace("@", str(tmp_path)))
    (proc / "cgroup").write_text(cgroup)
    return hierarchies(proc)


def test_version_1_with_a_hierarchy_for_each_controller(tmp_path: Path):
    mounts = (
        "22 1 0:20 / / rw - ext4 /dev/sda rw\n"
        "35 31 0:32 / @/memory rw,relatime - cgroup cgroup rw,memory\n"
        "32 31 0:29 / @/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
        "36 31 0:33 / @/devices rw - cgroup cgroup rw,devices\n"
        "40 31 0:37 / @/systemd rw - cgroup cgroup rw,xattr,name=systemd\n"
    )
    cgroup = "9:name=systemd:/\n5:devices:/\n4:memory:/user/me\n2:cpu,cpuacct:/\n0::/\n"
    memory, cpu = seen(tmp_path, mounts, cgroup, "memory/user/me cpu devices")
    assert (memory.version, memory.controllers) == (1, {"memory"})
    assert memory.folder == tmp_path / "memory/user/me"
    assert (cpu.controllers, cpu.folder) == ({"cpu", "cpuacct"}, tmp_path / "cpu")


@pytest.mark.parametrize(
    ("mount", "path", "folder"),
    [
        # A container that sees its part only, and cgroups that no mount shows.
        ("/docker/abc @/memory ro", "/docker/abc", "memory"),
        ("/docker/abc @/memory rw", "/elsewhere", None),
        ("/docker/abc @/memory rw", "/../outside", None),
        ("/docker/abc @/memory rw", "/docker/abc/gone", None),
        ("/ @/my\\040cgroups rw", "/", "my cgroups"),
    ],
)
def test_where_a_mount_shows_our_cgroup(
    tmp_path: Path, mount: str, path: str, folder: str | None
) -> None:
    (tmp_path / "my cgroups").mkdir()
    mounts = f"35 31 0:32 {mount},relatime - cgroup cgroup rw,memory\n"
    (memory,) = seen(tmp_path, mounts, f"4:memory:{path}\n", "memory")
    assert memory.folder == (folder and tmp_path / folder)
    assert memory.read_only is mount.endswith("ro")


def test_version_2_tells_its_controllers_by_file(tmp_path: Path):
    mine = tmp_path / "unified/mine"
    mine.mkdir(parents=True)
    (mine / "cgroup.controllers").write_text("cpu memory pids\n")
    mounts = "30 23 0:26 / @/unified rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
    (unified,) = seen(tmp_path, mounts, "0::/mine\n")
    assert (unified.version, unified.folder) == (2, mine)
    assert unified.controllers == {"cpu", "memory", "pids"}


def test_what_a_mount_shows_comes_first(tmp_path: Path) -> None:
    """Of version 1, whatever was mounted first; version 2 last."""
    mounts = (
        "30 23 0:26 / @/unified rw - cgroup2 cgroup2 rw\n"
        "35 31 0:32 /docker @/memory rw - cgroup cgroup rw,memory\n"
        "36 31 0:33 / @/cpu rw - cgroup cgroup rw,cpu\n"
        "37 31 0:34 / @/pids rw - cgroup cgroup rw,pids\n"
    )
    found = seen(tmp_path, mounts, "4:memory:/else\n3:cpu:/\n2:pids:/\n0::/\n", "unified cpu pids")
    shown = [(one.version, sorted(one.controllers), one.folder is None) for one in found]
    assert shown == [
        *((1, ["cpu"], False), (1, ["pids"], False), (1, ["memory"], True)),
        (2, [], False),
    ]


class Made:
    path = Path("/sys/fs/cgroup/edgebench-1")
    limits: Limits | None = None
    removed = False

    def set_limits(self, limits: Limits) -> Limits:
        self.limits = limits
        return limits

    def remove(self) -> None:
        self.removed = True


def checked(monkeypatch: pytest.MonkeyPatch, *codes: int | None) -> tuple[Any, Made, list[int]]:
    """The check where its programs end so: its result or error, its cgroup, what they allocate."""
    left, sizes, cgroup = list(codes), list[int](), Made()

    def allocate(_: object, size_bytes: int) -> int | None:
        sizes.append(size_bytes)
        return left.pop(0)

    monkeypatch.setattr(parent_module, "allocate", allocate)
    try:
        result: Any = check_limit(SimpleNamespace(create=lambda name: cgroup))  # type: ignore[arg-type]
    except CgroupError as error:
        result = error
    assert cgroup.removed
    return result, cgroup, sizes


def test_less_than_the_limit_ends_well_and_more_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    result, cgroup, sizes = checked(monkeypatch, 0, -signal.SIGKILL)
    assert cgroup.limits == Limits(memory_bytes=64 * MIB, swap_bytes=0)
    assert sizes == [32 * MIB, 96 * MIB]
    assert result == 64 * MIB


@pytest.mark.promise(
    "`edgebench doctor` reports and says what to type: a limit that can be read but is not "
    "enforced."
)
@pytest.mark.parametrize(
    ("codes", "words"),
    [
        # A tighter one above, one that is only shown, one that is reached and not enforced.
        ((-signal.SIGKILL,), "allocating 32.0 MiB under a limit of 64.0 MiB ended with -9"),
        ((0, 0), "allocating 96.0 MiB under a limit of 64.0 MiB ended with 0"),
        ((0, None), "allocating 96.0 MiB under a limit of 64.0 MiB did not end"),
    ],
)
def test_a_limit_that_does_not_hold_is_told(
    monkeypatch: pytest.MonkeyPatch, codes: tuple[int | None, ...], words: str
) -> None:
    error, cgroup, _ = checked(monkeypatch, *codes)
    assert words in error.what
    assert error.where == str(cgroup.path)
    assert "edgebench doctor" in str(error.remedy)


@pytest.mark.own_cgroup
def test_a_limit_is_enforced(parent: ParentCgroup):
    assert check_limit(parent) == 64 * MIB
    assert not list(parent.path.glob(f"edgebench-{os.getpid()}-proof"))
