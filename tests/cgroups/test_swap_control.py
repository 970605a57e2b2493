"""Swap set up and taken away for real; refused clearly where it can't be had."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgebench.cgroups.leftovers import Ownership, clear_leftovers
from edgebench.cgroups.swap import SwapControl, SwapState
from edgebench.errors import MachineError

MIB = 1 << 20
SIZE = 16 * MIB
ROOT = Path(__file__).parents[2]
#: Sets swap up as a harness would, then dies by SIGKILL.
DIE = """
import os, sys
from pathlib import Path
from edgebench.cgroups.leftovers import Ownership
from edgebench.cgroups.swap import SwapControl
control = SwapControl(Ownership(Path(sys.argv[1])))
print(control.use(sys.argv[2], 16 << 20).device, flush=True)
os.kill(os.getpid(), 9)
"""


@pytest.fixture
def control(ownership: Ownership) -> Iterator[SwapControl]:
    """The real thing, in its usual folder."""
    with SwapControl(ownership) as control:
        yield control


def swaps() -> dict[str, list[str]]:
    """The kernel's table of swap areas, by name."""
    lines = Path("/proc/swaps").read_text().splitlines()[1:]
    return {line.split()[0]: line.split()[1:] for line in lines}


def had(control: SwapControl, kind: str) -> Path:
    """Swap of this kind, set up for the test; skips where this machine refuses it."""
    try:
        device = control.use(kind, SIZE).device
    except MachineError as error:
        pytest.skip(f"no swap of kind {kind} here: {error.what}")
    assert device is not None
    return device


def of_others() -> set[str]:
    """What is on and is not edgebench's, which tests beside this one switch on and off."""
    return {name for name in swaps() if "edgebench" not in name and "zram" not in name}


@pytest.mark.root
@pytest.mark.swap
@pytest.mark.parametrize("kind", ["file", "zram"])
def test_swap_comes_and_goes(control: SwapControl, kind: str) -> None:
    """It is on at the size asked for, and afterwards it is gone and others' are as before."""
    before = of_others()
    device = had(control, kind)
    assert int(swaps()[str(device)][1]) * 1024 == pytest.approx(SIZE, abs=64 << 10)
    # Case 25: the kernel fills the area of the highest priority first.
    assert int(swaps()[str(device)][-1]) == max(int(words[-1]) for words in swaps().values())
    control.off()
    assert str(device) not in swaps()
    assert of_others() == before
    if kind == "file":
        assert not device.parent.exists()
    control.off()


@pytest.mark.promise("A swap file is 0600 in a folder of 0700.")
@pytest.mark.root
@pytest.mark.swap
def test_nobody_else_can_read_or_replace_a_swap_file(control: SwapControl) -> None:
    """0600 in a folder of 0700: swap holds whatever was in memory."""
    file = had(control, "file")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.stat().st_size == SIZE
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


@pytest.mark.root
@pytest.mark.swap
def test_the_same_swap_again_is_kept_and_another_replaces_it(control: SwapControl) -> None:
    """Trials of one kind share one swap; the next kind's takes its place."""
    first = had(control, "file")
    assert control.use("file", SIZE).device == first
    second = control.use("file", 2 * SIZE).device
    assert str(first) not in swaps()
    assert str(second) in swaps()
    assert control.use("none") == SwapState("none")
    assert str(second) not in swaps()


@pytest.mark.promise("Swap files and zram devices of a killed harness are removed.")
@pytest.mark.root
@pytest.mark.swap
@pytest.mark.parametrize("kind", ["file", "zram"])
def test_what_a_killed_harness_left_is_cleared_by_the_next(state: Path, kind: str) -> None:
    """Swap of a harness that died by SIGKILL is found by its claims, swapped off and removed."""
    words = [sys.executable, "-c", DIE, str(state), kind]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode != -signal.SIGKILL:
        clear_leftovers(state)
        pytest.skip(f"no swap of kind {kind} here: {done.stderr.splitlines()[-1:]}")
    device = Path(done.stdout.strip())
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
    """Without mkswap the error names the package, and the file made by then is gone at the end."""
    folder = state.parent / "swap"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    with Ownership(state) as ownership, SwapControl(ownership, folder) as control:
        with pytest.raises(MachineError, match="mkswap is not on this machine") as caught:
            control.use("file", SIZE)
        assert control.state == SwapState("none")
    assert "util-linux" in str(caught.value.remedy)
    assert not list(folder.iterdir())


@pytest.mark.root
def test_no_room_on_the_disk_is_said_before_anything_is_made(
    ownership: Ownership, tmp_path: Path
) -> None:
    """A petabyte of swap is refused with what is free."""
    with pytest.raises(
        MachineError, match=r"no room for a swap file of 1048576\.00 GiB: [0-9.]+ GiB are free\n"
    ) as caught:
        SwapControl(ownership, tmp_path).use("file", 1 << 50)
    assert caught.value.where == str(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


@pytest.mark.root
def test_a_folder_that_is_not_there_is_said(ownership: Ownership, tmp_path: Path) -> None:
    """One clear message, no traceback."""
    with pytest.raises(MachineError, match="no folder for a swap file"):
        SwapControl(ownership, tmp_path / "gone").use("file", SIZE)


@pytest.mark.root
def test_a_file_the_disk_refuses_is_said(
    ownership: Ownership, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the disk fills up at that moment the error says so in the machine's words."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(MachineError, match="can't be created: No space left on device"):
        SwapControl(ownership, tmp_path).use("file", SIZE)


@pytest.mark.parametrize("kind", ["file", "zram"])
def test_an_ordinary_user_is_told_what_remains(
    ownership: Ownership, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Without root the error names sudo and the kinds of swap that need none."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    what = {"file": "a swap file", "zram": "zram swap"}[kind]
    with pytest.raises(MachineError, match=f"^{what} can be set up by root only") as caught:
        SwapControl(ownership).use(kind, SIZE)
    assert "sudo" in str(caught.value.remedy)


def test_swap_of_our_own_needs_a_size(control: SwapControl) -> None:
    """No size is guessed."""
    with pytest.raises(MachineError, match="needs a size"):
        control.use("file")


def test_none_is_nothing_at_all(control: SwapControl) -> None:
    """The kind `none` sets nothing up and takes nothing of the machine's away."""
    before = of_others()
    assert control.use("none") == SwapState("none", None, None)
    assert of_others() == before


@pytest.mark.parametrize("there", [True, False])
def test_the_machines_own_swap_is_used_and_never_touched(
    control: SwapControl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    """Kind `system` takes what the machine has; where it has none, the error says what to do."""
    table = tmp_path / "swaps"
    line = "/dev/sda2 partition 1024 0 -2\n" if there else ""
    table.write_text("Filename Type Size Used Priority\n" + line)
    monkeypatch.setattr("edgebench.swap_areas.SWAPS", table)
    if there:
        assert control.use("system", SIZE) == SwapState("system", None, SIZE)
        control.off()
    else:
        with pytest.raises(MachineError, match="no swap of its own"):
            control.use("system")
