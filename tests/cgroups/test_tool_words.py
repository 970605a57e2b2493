"""The words of the system's tools: which are called, in which order, and what is said of a failure.

Nothing is mounted or swapped here: tools are injected, and the kernel's files are plain ones.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edgebench.caller_process import CallError
from edgebench.cgroups import cleanup, ram_disk, swap
from edgebench.cgroups.cleanup import (
    clear_ram_disk,
    clear_swap_file,
    clear_zram,
    read_setting,
    restore_setting,
    run_tool,
    swap_off,
)
from edgebench.cgroups.leftovers import Ownership, claims
from edgebench.cgroups.ram_disk import RamDisk
from edgebench.cgroups.swap import SwapControl, SwapState
from edgebench.errors import MachineError

MIB = 1 << 20
DEVICE = "/dev/loop7"


class Tools:
    """In place of the system's tools: keeps their words; the first ``failing`` calls fail."""

    def __init__(self, failing: int = 0) -> None:
        self.called: list[list[str]] = []
        self.told: list[tuple[str, Path | None]] = []
        self.failing = failing

    def __call__(self, words: Sequence[str], remedy: str, where: Path | None = None) -> str:
        """As ``run_tool``."""
        self.called.append([*words])
        self.told.append((remedy, where))
        if self.failing:
            self.failing -= 1
            raise MachineError(f"{words[0]} failed: busy", remedy=remedy)
        return f"{DEVICE}\n"


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> Tools:
    """Every module's tools, of a root whose pauses are none."""
    made = Tools()
    for module in (cleanup, ram_disk, swap):
        monkeypatch.setattr(module, "run_tool", made)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(cleanup.time, "sleep", lambda _: None)
    return made


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands for ``/`` in what is cleared, with one zram device and one loop."""
    root = tmp_path / "root"
    for name in ("sys/block/zram3", "sys/class/zram-control", "sys/block/loop7/loop"):
        (root / name).mkdir(parents=True)
    (root / "sys/class/zram-control/hot_add").write_text("3\n")
    (root / "sys/class/zram-control/hot_remove").write_text("")

    def path(text: str | Path) -> Path:
        return root / str(text).lstrip("/") if str(text).startswith("/sys") else Path(text)

    monkeypatch.setattr(cleanup, "Path", path)
    monkeypatch.setattr(swap, "Path", path)
    monkeypatch.setattr(swap, "_ZRAM_CONTROL", root / "sys/class/zram-control")
    return root


def areas(**priorities: int) -> Callable[[], dict[Path, Any]]:
    """The machine's swap areas, by name."""
    found = {Path(f"/dev/{name}"): SimpleNamespace(priority=p) for name, p in priorities.items()}
    return lambda: found


def done(code: int, out: str = "", err: str = "") -> Callable[..., Any]:
    """In place of ``subprocess.run``."""

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
    monkeypatch.setattr(cleanup, "read_swap_areas", areas(sda2=-2))
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
    monkeypatch.setattr(cleanup, "read_swap_areas", lambda: None)
    swap_off(Path("/dev/sda2"))
    assert len(tools.called) == 5


def test_a_zram_device_is_reset_and_removed(
    tools: Tools, kernel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Swapped off first; a kernel that can't remove devices keeps it, empty."""
    monkeypatch.setattr(cleanup, "read_swap_areas", areas(zram3=100))
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
    """One that is no zram, or is gone."""
    assert clear_zram(Path("/dev") / name) is None
    assert tools.called == []
    assert not (kernel / f"sys/block/{name}/reset").exists()


def test_a_swap_file_goes_and_nothing_else(tools: Tools, tmp_path: Path) -> None:
    """Only a regular file of edgebench's name."""
    ours, link = tmp_path / "edgebench-swap", tmp_path / "edgebench-link"
    ours.write_text("")
    link.symlink_to(ours)
    (other := tmp_path / "swap").write_text("")
    assert [clear_swap_file(one) for one in (link, other, tmp_path / "edgebench-gone")] == [
        None
    ] * 3
    assert clear_swap_file(ours) == f"removed the swap file {ours}"
    assert [one.name for one in sorted(tmp_path.iterdir())] == ["edgebench-link", "swap"]


@pytest.mark.parametrize(
    ("text", "value"),
    [("60\n", "60"), ("always [madvise] never\n", "madvise"), ("[always] never", "always")],
)
def test_a_setting_is_the_chosen_one(tmp_path: Path, text: str, value: str) -> None:
    """Where the kernel shows all that it offers; else the file's words."""
    (tmp_path / "file").write_text(text)
    assert read_setting(tmp_path / "file") == value


def test_only_known_settings_are_put_back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And said only where that changed something."""
    file = tmp_path / "swappiness"
    file.write_text("100\n")
    assert restore_setting(file, "60") is None
    assert file.read_text() == "100\n"
    monkeypatch.setattr(cleanup, "is_setting", lambda _: True)
    assert restore_setting(file, "100") is None
    assert restore_setting(tmp_path / "gone", "60") is None
    assert restore_setting(file, "60") == f"put {file} back to 60"
    assert file.read_text() == "60"


def test_a_disk_in_memory_is_made_step_by_step(
    tools: Tools, ownership: Ownership, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ramfs, a file of full size in it, a loop device that reads ahead as disks do, a file system.

    Recorded before anything is made; the device is detached at once, so that it goes with its disk.
    """
    monkeypatch.setattr(ram_disk, "_OWN_BYTES", MIB)
    monkeypatch.setattr(ram_disk, "caller_identity", lambda: None)
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
    """One byte less than the disk, its own tables and that: refused, and nothing is made."""
    monkeypatch.setattr(ram_disk, "_fill", lambda *_: None)
    needed = int(100 * MIB * 1.02) + 112 * MIB + 512 * MIB
    disk = RamDisk(ownership, lambda: needed - missing, tmp_path)
    if not missing:
        assert disk.need(100 * MIB)
        return
    with pytest.raises(MachineError) as refused:
        disk.need(100 * MIB)
    assert "no memory for a disk of 214.0 MiB in it: 726.0 MiB are free" in refused.value.what
    assert "512.0 MiB stay so" in refused.value.what
    assert str(refused.value.remedy).startswith("ask for less swap")
    assert tools.called == []


def test_what_is_copied_to_a_disk_in_memory_is_the_callers(
    tools: Tools, ownership: Ownership, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once for each folder, into one of its own, with the caller's rights; a failure says what."""
    called: list[tuple[Any, ...]] = []
    monkeypatch.setattr(ram_disk, "_fill", lambda *_: None)
    monkeypatch.setattr(ram_disk, "caller_identity", lambda: "caller")

    def call(*words: Any, limit_s: float) -> None:
        called.append((*words, limit_s))
        assert Path(words[1]["copy"]).is_dir()
        if words[1]["source"].endswith("bad"):
            raise CallError("no space left")

    monkeypatch.setattr(ram_disk, "call_as_caller", call)
    disk = RamDisk(ownership, lambda: 1 << 40, tmp_path)
    folder = disk.need(MIB)
    one, two = disk.copy(Path("/one")), disk.copy(Path("/two"))
    assert disk.copy(Path("/one")) == one == folder / "files-0"
    assert two == folder / "files-1"
    assert called[0] == (
        *("edgebench.cgroups.ram_disk:copy_files", {"source": "/one", "copy": str(one)}),
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
    """The file is emptied for who still has the mount; its device goes, and no other one."""
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
    monkeypatch.setattr(cleanup, "run_tool", run)
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
    """Three pauses; then the tool's words, and the disk stays."""
    folder = tmp_path / "edgebench-ram-disk-1"
    (folder / "disk").mkdir(parents=True)
    monkeypatch.setattr(Path, "is_mount", lambda self: self.name == "disk")
    tools.failing = 9
    with pytest.raises(MachineError, match="umount failed: busy"):
        clear_ram_disk(folder)
    assert len(tools.called) == 4
    assert folder.exists()


def test_a_swap_file_is_made_on_first_and_removed(
    tools: Tools, ownership: Ownership, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """0600 in a folder of 0700, at full size, at a priority above all others'; then gone."""
    monkeypatch.setattr(swap, "read_swap_areas", areas(sda2=-2, sdb=7))
    monkeypatch.setattr(swap, "_SPARE_BYTES", 0)
    control = SwapControl(ownership, tmp_path)
    assert control.state == SwapState("none")
    state = control.use("file", MIB)
    file = state.device
    assert file is not None
    assert state == SwapState("file", file, MIB) == control.state
    assert tools.called == [["mkswap", str(file)], ["swapon", "--priority", "8", str(file)]]
    assert set(tools.told) == {("use another folder's disk, or another kind of swap", file)}
    assert file.stat().st_size == MIB
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    held = [("temp-folder", str(file.parent)), ("swap-file", str(file))]
    assert claims(ownership.path) == held
    assert control.use("file", MIB) is state
    control.off()
    assert (control.state, file.parent.exists()) == (SwapState("none"), False)
    assert claims(ownership.path) == []
    control.off()


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({}, ["--priority", "0"]),
        ({"sda2": -2}, ["--priority", "0"]),
        ({"sda2": 0}, ["--priority", "1"]),
        ({"sda2": 32767}, ["--priority", "32767"]),
        (None, []),
    ],
)
def test_ours_is_filled_first(
    monkeypatch: pytest.MonkeyPatch, found: dict[str, int] | None, words: list[str]
) -> None:
    """One above the highest, as far as swapon(2) goes; none where areas can't be read."""
    monkeypatch.setattr(
        swap, "read_swap_areas", (lambda: None) if found is None else areas(**found)
    )
    assert swap._first_in_use() == words


def test_zram_is_sized_switched_on_and_removed(
    tools: Tools, kernel: Path, ownership: Ownership, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel chooses its number; it is recorded before it is used."""
    monkeypatch.setattr(swap, "read_swap_areas", areas(sda2=5))
    control = SwapControl(ownership)
    state = control.use("zram", 16 * MIB)
    device = Path("/dev/zram3")
    assert state == SwapState("zram", device, 16 * MIB)
    assert (kernel / "sys/block/zram3/disksize").read_text() == str(16 * MIB)
    assert tools.called == [["mkswap", str(device)], ["swapon", "--priority", "6", str(device)]]
    assert claims(ownership.path) == [("zram", str(device))]
    control.off()
    assert (kernel / "sys/block/zram3/reset").read_text() == "1"
    assert claims(ownership.path) == []


def test_zram_that_the_kernel_refuses_is_told(
    tools: Tools, kernel: Path, ownership: Ownership
) -> None:
    """A size it doesn't take, or no device at all: what to do instead."""
    (kernel / "sys/block/zram3/disksize").mkdir()
    control = SwapControl(ownership)
    with pytest.raises(MachineError) as refused:
        control.use("zram", 16 * MIB)
    assert refused.value.what.startswith("zram swap of 16.0 MiB can't be created: ")
    assert refused.value.where == "/dev/zram3"
    assert refused.value.remedy == swap.ANOTHER_SWAP
    assert control.state == SwapState("none")
    (kernel / "sys/class/zram-control/hot_add").unlink()
    with pytest.raises(MachineError) as refused:
        control.use("zram", 16 * MIB)
    assert refused.value.what.startswith("can't create a zram device: No such file")
    assert refused.value.remedy == "modprobe zram, or use swap of kind file"


def test_a_zram_device_that_can_not_be_recorded_goes_at_once(
    tools: Tools, kernel: Path, ownership: Ownership, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody would remove it after a crash."""

    def refuse(*_: str) -> None:
        raise MachineError("can't record")

    monkeypatch.setattr(ownership, "claim", refuse)
    with pytest.raises(MachineError, match="can't record"):
        SwapControl(ownership).use("zram", 16 * MIB)
    assert (kernel / "sys/class/zram-control/hot_remove").read_text() == "3"


def test_room_for_a_swap_file_is_asked_for_first(
    tools: Tools, ownership: Ownership, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """256 MiB of the machine's disk stay free; a disk of our own may be filled."""
    free = MIB + (256 << 20) - 1
    monkeypatch.setattr(swap.shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    control = SwapControl(ownership, tmp_path)
    with pytest.raises(MachineError) as refused:
        control.use("file", MIB)
    words = "no room for a swap file of 1.0 MiB: 257.0 MiB are free"
    assert (refused.value.what, refused.value.where) == (words, str(tmp_path))
    assert refused.value.remedy == "free some space, or ask for a smaller swap"
    (own := tmp_path / "own").mkdir()
    assert control.use("file", MIB, own).kind == "file"
    with pytest.raises(MachineError) as refused:
        control.use("file", MIB, tmp_path / "gone")
    assert refused.value.what == "no folder for a swap file"
    assert (refused.value.where, refused.value.remedy) == (
        str(tmp_path / "gone"),
        swap.ANOTHER_SWAP,
    )


def test_a_swap_file_that_can_not_be_created_is_told(
    tools: Tools, ownership: Ownership, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the kernel's words; nothing is switched on."""

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    monkeypatch.setattr(swap, "_SPARE_BYTES", 0)
    with pytest.raises(MachineError) as refused:
        SwapControl(ownership, tmp_path).use("file", MIB)
    assert refused.value.what == (
        "a swap file of 1.0 MiB can't be created: No space left on device"
    )
    assert (refused.value.where, refused.value.remedy) == (str(tmp_path), swap.ANOTHER_SWAP)
    assert tools.called == []


def test_the_machines_own_swap_is_used_where_there_is_some(
    tools: Tools, ownership: Ownership, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never changed, with the limit that was asked for; where there is none, how to get some."""
    control = SwapControl(ownership)
    monkeypatch.setattr(swap, "read_swap_areas", areas(sda2=-2))
    assert control.use("system", 5) == SwapState("system", None, 5)
    control.off()
    assert tools.called == []
    monkeypatch.setattr(swap, "read_swap_areas", areas())
    with pytest.raises(MachineError, match="no swap of its own") as refused:
        control.use("system")
    assert refused.value.remedy == swap.NO_SYSTEM_SWAP
    with pytest.raises(MachineError) as refused:
        control.use("file")
    assert refused.value.what == "swap of kind file needs a size"
    assert refused.value.remedy == 'add to its table: size = "2G"'


@pytest.mark.parametrize(("kind", "what"), [("file", "a swap file"), ("zram", "zram swap")])
def test_only_root_sets_swap_up(
    ownership: Ownership, monkeypatch: pytest.MonkeyPatch, kind: str, what: str
) -> None:
    """Anybody else is told what to do instead."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(MachineError) as refused:
        SwapControl(ownership).use(kind, MIB)
    assert refused.value.what == f"{what} can be set up by root only"
    assert refused.value.remedy == swap.NOT_ROOT
