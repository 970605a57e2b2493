"""Swap files and zram set up with injected tools: which words, which claims, which refusals."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from tool_fakes import Tools, areas

from edgebench.cgroups import swap
from edgebench.cgroups.leftovers import Ownership, claims
from edgebench.cgroups.swap import SwapControl, SwapState
from edgebench.errors import MachineError

MIB = 1 << 20


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
