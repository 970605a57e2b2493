"""Swap files and zram: with injected tools (words, claims, refusals), and set up for real."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest

from edgebench.cgroups import swap
from edgebench.cgroups.leftovers import Ownership, claims, clear_leftovers
from edgebench.cgroups.swap import SwapControl, SwapState
from edgebench.errors import MachineError
from tests.cgroups.conftest import Tools, areas

MIB = 1 << 20
SIZE = 16 * MIB


@pytest.mark.parametrize(
    ("found", "flags"),
    [
        # One above the highest, or the kernel fills those first; as far as swapon(2) goes.
        ({"sda2": -2, "sdb": 7, "sdc": 3}, ["--priority", "8"]),
        ({}, ["--priority", "0"]),
        ({"sda2": -2}, ["--priority", "0"]),
        ({"sda2": 0}, ["--priority", "1"]),
        ({"sda2": 32767}, ["--priority", "32767"]),
        (None, []),
    ],
)
def test_swap_is_filled_before_all_other(
    tools: Tools, monkeypatch: pytest.MonkeyPatch, found: dict[str, int] | None, flags: list[str]
) -> None:
    read = (lambda: None) if found is None else areas(**found)
    monkeypatch.setattr(swap, "read_swap_areas", read)
    swap._swap_on(Path("/file"))
    assert tools.called == [["mkswap", "/file"], ["swapon", *flags, "/file"]]


def test_zram_is_sized_switched_on_and_removed(
    tools: Tools, kernel: Path, ownership: Ownership, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel chooses its number; it is recorded before it is used."""
    monkeypatch.setattr(swap, "read_swap_areas", areas(sda2=5))
    control = SwapControl(ownership)
    state = control.use("zram", SIZE)
    device = Path("/dev/zram3")
    assert state == SwapState("zram", device, SIZE)
    assert (kernel / "sys/block/zram3/disksize").read_text() == str(SIZE)
    assert tools.called == [["mkswap", str(device)], ["swapon", "--priority", "6", str(device)]]
    assert claims(ownership.path) == [("zram", str(device))]
    control.off()
    assert (kernel / "sys/block/zram3/reset").read_text() == "1"
    assert claims(ownership.path) == []


def refusal(control: SwapControl, kind: str, *about: object) -> MachineError:
    """Why there is no such swap; nothing is left switched on."""
    with pytest.raises(MachineError) as refused:
        control.use(kind, *about)  # type: ignore[arg-type]
    assert control.state == SwapState("none")
    return refused.value


def test_zram_that_the_kernel_refuses_is_told(
    tools: Tools, kernel: Path, ownership: Ownership, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A size it doesn't take, no device at all, or one that nobody would remove after a crash."""
    (kernel / "sys/block/zram3/disksize").mkdir()
    control = SwapControl(ownership)
    assert refusal(control, "zram", SIZE).where == "/dev/zram3"
    with monkeypatch.context() as patch:

        def refuse(*_: str) -> None:
            raise MachineError("can't record")

        patch.setattr(ownership, "claim", refuse)
        assert refusal(control, "zram", SIZE).what == "can't record"
        assert (kernel / "sys/class/zram-control/hot_remove").read_text() == "3"
    (kernel / "sys/class/zram-control/hot_add").unlink()
    assert "modprobe zram" in str(refusal(control, "zram", SIZE).remedy)


def test_why_there_is_no_swap_file(
    tools: Tools, ownership: Ownership, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the machine's disk 256 MiB stay free; no folder, no size, a full disk, no root."""
    free = MIB + (256 << 20) - 1
    monkeypatch.setattr(swap.shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    control = SwapControl(ownership, tmp_path)
    refused = refusal(control, "file", MIB)
    assert refused.what == "no room for a swap file of 1.0 MiB: 257.0 MiB are free"
    assert refused.where == str(tmp_path)
    (own := tmp_path / "own").mkdir()
    assert control.use("file", MIB, own).kind == "file"
    gone = tmp_path / "gone"
    assert refusal(control, "file", MIB, gone).where == str(gone)
    assert "needs a size" in refusal(control, "file").what
    tools.called.clear()

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    assert "No space left" in refusal(control, "file", MIB, own).what
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for kind in ("file", "zram"):
        assert "sudo" in str(refusal(SwapControl(ownership), kind, MIB).remedy)
    assert tools.called == []


def test_the_machines_own_swap_is_used_where_there_is_some(
    tools: Tools, ownership: Ownership, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never changed, with the limit that was asked for; where there is none, how to get some."""
    control = SwapControl(ownership)
    monkeypatch.setattr(swap, "read_swap_areas", areas(sda2=-2))
    assert control.use("system", 5) == SwapState("system", None, 5)
    control.off()
    assert control.use("none") == SwapState("none")
    monkeypatch.setattr(swap, "read_swap_areas", areas())
    assert refusal(control, "system").remedy == swap.NO_SYSTEM_SWAP
    assert tools.called == []


def swaps() -> dict[str, list[str]]:
    lines = Path("/proc/swaps").read_text().splitlines()[1:]
    return {line.split()[0]: line.split()[1:] for line in lines}


def of_others() -> set[str]:
    return {name for name in swaps() if "edgebench" not in name and "zram" not in name}


@pytest.mark.promise("A swap file is 0600 in a folder of 0700.")
@pytest.mark.root
@pytest.mark.swap
@pytest.mark.parametrize("kind", ["file", "zram"])
def test_swap_comes_and_goes(ownership: Ownership, kind: str) -> None:
    """It is on, first of all areas, for root's eyes alone; then gone, others' are as before."""
    before, control = of_others(), SwapControl(ownership)
    try:
        device = control.use(kind, SIZE).device
    except MachineError as error:
        pytest.skip(f"no swap of kind {kind} here: {error.what}")
    assert device
    assert int(swaps()[str(device)][1]) * 1024 == pytest.approx(SIZE, abs=64 << 10)
    # The kernel fills the area of the highest priority first.
    assert int(swaps()[str(device)][-1]) == max(int(words[-1]) for words in swaps().values())
    if kind == "file":
        modes = [stat.S_IMODE(path.stat().st_mode) for path in (device, device.parent)]
        assert (modes, device.stat().st_size) == ([0o600, 0o700], SIZE)
    assert control.use(kind, SIZE).device == device
    larger = control.use(kind, 2 * SIZE).device
    assert str(larger) in swaps()
    assert kind == "zram" or not device.parent.exists()
    assert control.use("none") == SwapState("none")
    assert str(larger) not in swaps()
    assert of_others() == before
    control.off()


@pytest.mark.promise("Swap files and zram devices of a killed harness are removed.")
@pytest.mark.root
@pytest.mark.swap
@pytest.mark.parametrize("kind", ["file", "zram"])
def test_what_a_killed_harness_left_is_cleared_by_the_next(state: Path, kind: str) -> None:
    ownership = Ownership(state)
    try:
        device = SwapControl(ownership).use(kind, SIZE).device
    except MachineError as error:
        ownership.close()
        pytest.skip(f"no swap of kind {kind} here: {error.what}")
    # As the kernel does when the harness is killed.
    os.close(ownership._fd)
    assert device
    assert str(device) in swaps()
    sentences = clear_leftovers(state)
    assert f"removed the swap {'file' if kind == 'file' else 'device'} {device}" in sentences
    assert str(device) not in swaps()
    assert not device.exists()


@pytest.mark.root
@pytest.mark.swap
def test_a_swap_that_could_not_be_switched_on_leaves_nothing(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = state.parent / "swap"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    with Ownership(state) as ownership, SwapControl(ownership, folder) as control:
        with pytest.raises(MachineError, match="mkswap is not on this machine") as caught:
            control.use("file", SIZE)
        assert control.state == SwapState("none")
    assert "util-linux" in str(caught.value.remedy)
    assert not list(folder.iterdir())
