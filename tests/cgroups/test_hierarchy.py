"""Where this process is in each hierarchy, from the texts of many machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgebench.cgroups.parent import Hierarchy, hierarchies


def seen(tmp_path: Path, mounts: str, cgroup: str, folders: str = "") -> list[Hierarchy]:
    """The hierarchies of a machine with these mounts below ``tmp_path`` and these folders."""
    for folder in folders.split():
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    proc = tmp_path / "proc"
    proc.mkdir()
    (proc / "mountinfo").write_text(mounts.replace("@", str(tmp_path)))
    (proc / "cgroup").write_text(cgroup)
    return hierarchies(proc)


def test_version_1_with_a_hierarchy_for_each_controller(tmp_path: Path):
    """Our own cgroup is below each mount; a named hierarchy and an unused controller are none."""
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


def test_a_container_that_sees_only_its_part(tmp_path: Path):
    """The mount's root is taken off the path: its own cgroup is the mount point itself."""
    mounts = "35 31 0:32 /docker/abc @/memory ro,relatime - cgroup cgroup rw,memory\n"
    (memory,) = seen(tmp_path, mounts, "4:memory:/docker/abc\n", "memory")
    assert memory.folder == tmp_path / "memory"
    assert memory.read_only


@pytest.mark.parametrize("path", ["/elsewhere", "/../outside", "/docker/abc/gone"])
def test_a_cgroup_that_no_mount_shows(tmp_path: Path, path: str):
    """A path outside the mount's part, outside the namespace, or without a folder is no folder."""
    mounts = "35 31 0:32 /docker/abc @/memory rw - cgroup cgroup rw,memory\n"
    (memory,) = seen(tmp_path, mounts, f"4:memory:{path}\n", "memory")
    assert memory.folder is None


def test_version_2_tells_its_controllers_by_file(tmp_path: Path):
    """On version 2 the controllers are those passed down to our own cgroup."""
    mine = tmp_path / "unified/mine"
    mine.mkdir(parents=True)
    (mine / "cgroup.controllers").write_text("cpu memory pids\n")
    mounts = "30 23 0:26 / @/unified rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
    (unified,) = seen(tmp_path, mounts, "0::/mine\n")
    assert (unified.version, unified.folder) == (2, mine)
    assert unified.controllers == {"cpu", "memory", "pids"}


def test_a_mount_point_with_a_space(tmp_path: Path):
    """The octal escapes of mountinfo are undone."""
    mounts = "35 31 0:32 / @/my\\040cgroups rw - cgroup cgroup rw,memory\n"
    (tmp_path / "my cgroups").mkdir()
    (memory,) = seen(tmp_path, mounts, "4:memory:/\n")
    assert memory.folder == tmp_path / "my cgroups"


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
