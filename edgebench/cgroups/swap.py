"""Swap for a sweep: none, a temporary file, zram, or the machine's own, which is never changed."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from edgebench.cgroups.cleanup import clear_swap_file, clear_zram, run_tool
from edgebench.cgroups.leftovers import Ownership
from edgebench.errors import MachineError
from edgebench.safe_files import make_private_folder, open_file, remove_empty_folder
from edgebench.swap_areas import read_swap_areas
from edgebench.units import format_size

_ZRAM_CONTROL = Path("/sys/class/zram-control")
#: Left free on the machine's disk besides the swap file itself.
_SPARE_BYTES = 256 << 20
#: swapon(2).
_HIGHEST_PRIORITY = 32767
NOT_ROOT = 'call edgebench with sudo, or use swap = "system" or "none"'
ANOTHER_SWAP = "ask for a smaller swap, or for another kind"
NO_SYSTEM_SWAP = 'swapon one of your own, or use swap = { kind = "file", size = "2G" }'


@dataclass(frozen=True)
class SwapState:
    """The swap a trial has: its kind, the device or file, its size."""

    kind: str
    device: Path | None = None
    size_bytes: int | None = None


class SwapControl:
    """Sets up one kind of swap at a time and removes it again. A context manager.

    Args:
        ownership: records each file and device before it is created.
        folder: where a swap file's own folder is made; None takes ``/var/tmp``, which is a disk
            where ``/tmp`` often is not.
    """

    def __init__(self, ownership: Ownership, folder: Path | None = None) -> None:
        self._ownership = ownership
        self._folder = folder or Path("/var/tmp")  # noqa: S108 - a private folder is made in it
        self._in_use = self._folder
        self.state = SwapState("none")

    def use(
        self, kind: str, size_bytes: int | None = None, folder: Path | None = None
    ) -> SwapState:
        """Use this kind of swap from now on; does nothing if it is already set up.

        Args:
            kind: ``none``, ``file``, ``zram`` or ``system``.
            size_bytes: None where there is none, or the machine's own is used.
            folder: where a swap file goes this time; None: where they go.

        Raises:
            MachineError: not root, no room, no zram, no swap of the machine's own.
        """
        wanted = (folder or self._folder) if kind == "file" else self._in_use
        at_present = self.state.kind, self.state.size_bytes, self._in_use
        if (kind, size_bytes, wanted) != at_present:
            self.off()
            self._in_use = wanted
            makers = {"file": self._file, "zram": self._zram}
            if kind in makers:
                self.state = makers[kind](_required(kind, size_bytes))
            elif kind == "system":
                self.state = _system(size_bytes)
        return self.state

    def off(self) -> None:
        """Remove edgebench's swap. Safe to call twice; never touches other swap."""
        state, self.state = self.state, SwapState("none")
        if state.device is None:
            return
        if state.kind == "file":
            clear_swap_file(state.device)
            self._ownership.release("swap-file", str(state.device))
            remove_empty_folder(state.device.parent)
            self._ownership.release("temp-folder", str(state.device.parent))
        elif state.kind == "zram":
            clear_zram(state.device)
            self._ownership.release("zram", str(state.device))

    def _file(self, size_bytes: int) -> SwapState:
        _need_root("a swap file")
        # A disk in memory is ours alone.
        spare_bytes = _SPARE_BYTES if self._in_use == self._folder else 0
        _need_room(self._in_use, size_bytes, spare_bytes)
        file = self._in_use / f"edgebench-swap-{secrets.token_hex(6)}" / "edgebench-swap"
        self._ownership.claim("temp-folder", str(file.parent))
        self._ownership.claim("swap-file", str(file))
        try:
            _make_file(file, size_bytes)
        except OSError as error:
            raise MachineError(
                f"a swap file of {format_size(size_bytes)} can't be created: {error.strerror}",
                where=str(self._in_use),
                remedy=ANOTHER_SWAP,
            ) from error
        _swap_on(file)
        return SwapState("file", file, size_bytes)

    def _zram(self, size_bytes: int) -> SwapState:
        _need_root("zram swap")
        device = self._new_zram()
        try:
            Path(f"/sys/block/{device.name}/disksize").write_text(str(size_bytes))
        except OSError as error:
            raise MachineError(
                f"zram swap of {format_size(size_bytes)} can't be created: {error.strerror}",
                where=str(device),
                remedy=ANOTHER_SWAP,
            ) from error
        _swap_on(device)
        return SwapState("zram", device, size_bytes)

    def _new_zram(self) -> Path:
        try:
            if not _ZRAM_CONTROL.exists():
                load = ["modprobe", "zram", "num_devices=0"]
                subprocess.run(load, capture_output=True, check=False)
            with _signals_held():
                number = int((_ZRAM_CONTROL / "hot_add").read_text(errors="replace"))
                device = Path(f"/dev/zram{number}")
                # Its number is the kernel's to choose, so it can be claimed only now.
                self._claim_zram(device)
        except OSError as error:
            raise MachineError(
                f"can't create a zram device: {error.strerror}",
                remedy="modprobe zram, or use swap of kind file",
            ) from error
        return device

    def _claim_zram(self, device: Path) -> None:
        try:
            self._ownership.claim("zram", str(device))
        except MachineError:
            clear_zram(device)
            raise

    def __enter__(self) -> SwapControl:
        return self

    def __exit__(self, *_: object) -> None:
        self.off()


@contextlib.contextmanager
def _signals_held() -> Iterator[None]:
    """Signals that end the program wait until what was made is written down."""
    ends = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _system(size_bytes: int | None) -> SwapState:
    if not read_swap_areas():
        raise MachineError("this machine has no swap of its own", remedy=NO_SYSTEM_SWAP)
    return SwapState("system", None, size_bytes)


def _required(kind: str, size_bytes: int | None) -> int:
    if size_bytes is None:
        raise MachineError(
            f"swap of kind {kind} needs a size", remedy='add to its table: size = "2G"'
        )
    return size_bytes


def can_make_swap() -> bool:
    """Whether this process may make swap files and zram."""
    return os.geteuid() == 0


def _need_root(what: str) -> None:
    if not can_make_swap():
        raise MachineError(f"{what} can be set up by root only", remedy=NOT_ROOT)


def _make_file(file: Path, size_bytes: int) -> None:
    """A file of full size that nobody else can read or replace."""
    make_private_folder(file.parent)
    fd = open_file(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        os.posix_fallocate(fd, 0, size_bytes)
    finally:
        os.close(fd)


def _need_room(folder: Path, size_bytes: int, spare_bytes: int) -> None:
    if not folder.is_dir():
        raise MachineError("no folder for a swap file", where=str(folder), remedy=ANOTHER_SWAP)
    free = shutil.disk_usage(folder).free
    if free < size_bytes + spare_bytes:
        raise MachineError(
            f"no room for a swap file of {format_size(size_bytes)}: {format_size(free)} are free",
            where=str(folder),
            remedy="free some space, or ask for a smaller swap",
        )


def _first_in_use() -> list[str]:
    """Flags of swapon: a priority above all others', or the kernel fills those first."""
    areas = read_swap_areas()
    if areas is None:
        return []
    highest = max((area.priority for area in areas.values()), default=-1)
    return ["--priority", str(min(max(highest, -1) + 1, _HIGHEST_PRIORITY))]


def _swap_on(device: Path) -> None:
    remedy = "use another folder's disk, or another kind of swap"
    for words in (["mkswap", str(device)], ["swapon", *_first_in_use(), str(device)]):
        run_tool(words, remedy, device)
