"""The words of the system's tools: which are called, in which order, and what is said of a failure.

Nothing is mounted here: tools are injected, and the kernel's files are plain ones.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tool_fakes import DEVICE, Tools, areas

from edgebench.caller_process import CallError
from edgebench.cgroups import leftovers, storage
from edgebench.cgroups.leftovers import (
    Ownership,
    claims,
    clear_ram_disk,
    clear_swap_file,
    clear_zram,
    run_tool,
    swap_off,
)
from edgebench.cgroups.storage import RamDisk
from edgebench.errors import MachineError

MIB = 1 << 20


def done(code: int, out: str = "", err: str = "") -> Callable[..., Any]:
    def run(words: Sequence[str], **options: Any) -> Any:
        assert options == {"capture_output": True, "text": True, "check": False}
        return subprocess.CompletedProcess(words, code, out, err)

    return run


def test_a_tool_that_fails_is_named_with_its_own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """And with the place and the remedy of who called it; else its output is returned."""
    monkeypatch.setattr(subprocess, "run", done(1, "out", " no space\n"))
    with pytest.raises(MachineError) as failed:
        run_tool(["mkswap", "/file"], "free some space", Path("/file"))
    error = failed.value
    assert (error.what, error.where) == ("mkswap failed: no space", "/file")
    assert error.remedy == "free some space"
    with pytest.raises(MachineError) as failed:
        run_tool(["mkswap", "/file"], "free some space")
    assert failed.value.where is None
    monkeypatch.setattr(subprocess, "run", done(0, "/dev/loop7\n"))
    assert run_tool(["losetup"], "none") == "/dev/loop7\n"


def test_a_tool_that_is_missing_is_named_with_its_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """What to install, or what else to do."""

    def run(*_: Any, **__: Any) -> None:
        raise FileNotFoundError

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(MachineError) as missing:
        run_tool(["swapon", "/file"], "use another swap")
    assert missing.value.what == "swapon is not on this machine"
    words = "apt-get install util-linux mount e2fsprogs, or use another swap"
    assert missing.value.remedy == words


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
    assert tools.told[-1][1] == Path("/dev/sda2")
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


@pytest.mark.parametrize("name", ["loop7", "zram4"])
def test_another_device_is_never_reset(tools: Tools, kernel: Path, name: str) -> None:
    assert clear_zram(Path("/dev") / name) is None
    assert tools.called == []
    assert not (kernel / f"sys/block/{name}/reset").exists()


def test_a_swap_file_goes_and_nothing_else(tools: Tools, tmp_path: Path) -> None:
    ours, link = tmp_path / "edgebench-swap", tmp_path / "edgebench-link"
    ours.write_text("")
    link.symlink_to(ours)
    (other := tmp_path / "swap").write_text("")
    assert [clear_swap_file(one) for one in (link, other, tmp_path / "edgebench-gone")] == [
        None
    ] * 3
    assert clear_swap_file(ours) == f"removed the swap file {ours}"
    assert [one.name for one in sorted(tmp_path.iterdir())] == ["edgebench-link", "swap"]


def test_a_disk_in_memory_is_made_step_by_step(
    tools: Tools, ownership: Ownership, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ramfs, a file of full size in it, a loop device that reads ahead as disks do, a file system.

    Recorded before anything is made; the device is detached at once, so that it goes with its disk.
    """
    monkeypatch.setattr(storage, "_OWN_BYTES", MIB)
    monkeypatch.setattr(storage, "caller_identity", lambda: None)
    disk = RamDisk(ownership, lambda: 1 << 40, tmp_path)
    assert (disk.folder, disk.has_room(0)) == (None, False)
    folder = disk.need(2 * MIB)
    made = folder.parent
    assert folder == disk.folder == made / "disk"
    assert made.parent == tmp_path
    assert made.name.startswith("edgebench-ram-disk-")
    assert ("ram-disk", str(made)) in claims(ownership.path)
    file = made / "memory" / "disk"
    # The part of a MiB that the share makes is rounded up.
    assert file.stat().st_size == 4 * MIB
    assert file.stat().st_mode & 0o777 == 0o600
    assert tools.called == [
        ["mount", "-t", "ramfs", "-o", "mode=0700", "edgebench", str(made / "memory")],
        ["losetup", "--find", "--show", str(file)],
        ["blockdev", "--setra", "256", DEVICE],
        [
            *("mkfs.ext4", "-q", "-F", "-m", "0", "-b", "4096", "-N", "4096"),
            *("-O", "^has_journal", "-E", "nodiscard,lazy_itable_init=0", DEVICE),
        ],
        ["mount", "-o", "noatime,nosuid,nodev", DEVICE, str(folder)],
        ["losetup", "--detach", DEVICE],
    ]
    assert all("leave disk=ram out" in remedy for remedy, _ in tools.told)
    assert [disk.has_room(size) for size in (2 * MIB, 2 * MIB + 1)] == [True, False]
    assert disk.need(MIB) == folder
    disk.off()
    assert (disk.folder, disk.has_room(0), made.exists()) == (None, False, False)
    assert ("ram-disk", str(made)) not in claims(ownership.path)


@pytest.mark.parametrize("missing", [0, 1])
def test_a_disk_in_memory_leaves_half_a_gib_free(
    tools: Tools,
    ownership: Ownership,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    missing: int,
) -> None:
    monkeypatch.setattr(storage, "_fill", lambda *_: None)
    needed = int(100 * MIB * 1.02) + 112 * MIB + 512 * MIB
    disk = RamDisk(ownership, lambda: needed - missing, tmp_path)
    if not missing:
        assert disk.need(100 * MIB)
        return
    with pytest.raises(MachineError, match=r"726\.0 MiB are free, of which 512\.0 MiB stay"):
        disk.need(100 * MIB)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(MachineError, match="by root only"):
        disk.need(1)
    assert (disk.folder, tools.called) == (None, [])


def test_what_is_copied_to_a_disk_in_memory_is_the_callers(
    tools: Tools, ownership: Ownership, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[tuple[Any, ...]] = []
    monkeypatch.setattr(storage, "_fill", lambda *_: None)
    monkeypatch.setattr(storage, "caller_identity", lambda: "caller")

    def call(*words: Any, limit_s: float) -> None:
        called.append((*words, limit_s))
        assert Path(words[1]["copy"]).is_dir()
        if words[1]["source"].endswith("bad"):
            raise CallError("no space left")

    monkeypatch.setattr("edgebench.caller_process.call_as_caller", call)
    disk = RamDisk(ownership, lambda: 1 << 40, tmp_path)
    folder = disk.need(MIB)
    one, two = disk.copy(Path("/one")), disk.copy(Path("/two"))
    assert disk.copy(Path("/one")) == one == folder / "files-0"
    assert two == folder / "files-1"
    assert called[0] == (
        *("edgebench.cgroups.storage:copy_files", {"source": "/one", "copy": str(one)}),
        *("caller", 3600.0),
    )
    assert len(called) == 2
    with pytest.raises(MachineError) as failed:
        disk.copy(Path("/bad"))
    assert failed.value.what == "files can't be copied to the disk in memory: no space left"
    assert (failed.value.where, failed.value.remedy is None) == ("/bad", False)


def test_a_disk_in_memory_is_unmounted_and_its_memory_freed(
    tools: Tools, kernel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "edgebench-ram-disk-1"
    (folder / "disk").mkdir(parents=True)
    (folder / "memory").mkdir()
    file = folder / "memory" / "disk"
    file.write_text("full")
    (kernel / "sys/block/loop7/loop/backing_file").write_text(f"{file}\n")
    (kernel / "sys/block/loop8/loop").mkdir(parents=True)
    (kernel / "sys/block/loop8/loop/backing_file").write_text("/another\n")
    sizes: list[int] = []

    def run(words: Sequence[str], remedy: str, where: Path | None = None) -> str:
        if words[0] == "losetup":
            sizes.append(file.stat().st_size)
        mounted.discard(words[-1])
        return tools(words, remedy, where)

    mounted = {str(folder / "disk"), str(folder / "memory")}
    monkeypatch.setattr(leftovers, "run_tool", run)
    monkeypatch.setattr(Path, "is_mount", lambda self: str(self) in mounted)
    assert clear_ram_disk(folder) == f"removed the disk in memory {folder}"
    assert tools.called == [
        ["umount", str(folder / "disk")],
        ["losetup", "--detach", "/dev/loop7"],
        ["umount", "--lazy", str(folder / "memory")],
    ]
    assert tools.told[0][0] == f"end what uses it, then: umount {folder / 'disk'}"
    assert tools.told[1][0] == "losetup --detach /dev/loop7"
    assert sizes == [0]
    assert not folder.exists()


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
