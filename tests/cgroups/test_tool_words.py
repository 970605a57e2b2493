"""What is removed, tried again and refused, with injected tools: nothing is mounted here."""

from __future__ import annotations

from pathlib import Path

import pytest
from tool_fakes import Tools, areas

from edgebench.cgroups import leftovers, storage
from edgebench.cgroups.leftovers import (
    Ownership,
    clear_ram_disk,
    clear_swap_file,
    clear_zram,
    swap_off,
)
from edgebench.cgroups.storage import RamDisk
from edgebench.errors import MachineError

MIB = 1 << 20


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
