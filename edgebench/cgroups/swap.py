"""Swap for a sweep: none, a temporary file, zram, or the machine's own, which is never changed.

No cgroup is charged for the RAM that pages in zram take (Linux:
Documentation/admin-guide/blockdev/zram.rst). zswap's is charged on version 2, and on version 1 not
told by group; ``doctor`` warns of it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from edgebench.cgroups.leftovers import Ownership, clear_swap_file, clear_zram, run_tool
from edgebench.errors import MachineError
from edgebench.safe_files import make_private_folder, open_file, remove_empty_folder
from edgebench.swap_areas import read_swap_areas
from edgebench.text import format_size

_ZRAM_CONTROL = Path("/sys/class/zram-control")
#: Left free on the machine's disk besides the swap file itself.
_SPARE_BYTES = 256 << 20
#: swapon(2).
_HIGHEST_PRIORITY = 32767
NOT_ROOT = 'call edgebench with sudo, or use swap = "system" or "none"'
ANOTHER_SWAP = "ask for a smaller swap, or for another kind"
NO_SYSTEM_SWAP = 'swapon one of your own, or use swap = { kind = "file", size = "2G" }'
#: In ``mm_stat`` of zram: the data that lies in it, and all that it takes, its free room included.
_HELD, _USED = 0, 2
_ALL = "of all programs, since whose pages they are is not shown"


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
        """Use this kind of swap from now on; do nothing if it is already set up.

        Args:
            kind: ``none``, ``file``, ``zram`` or ``system``.
            size_bytes: None where there is none, or the machine's own is used.
            folder: where a swap file goes this time; None: in :class:`SwapControl`'s folder.

        Raises:
            MachineError: not root, no room, no zram, no swap of the machine's own.
        """
        wanted = (folder or self._folder) if kind == "file" else self._in_use
        at_present = self.state.kind, self.state.size_bytes, self._in_use
        if (kind, size_bytes, wanted) != at_present:
            self.off()
            self._in_use = wanted
            if kind == "system":
                if not read_swap_areas():
                    raise MachineError("this machine has no swap of its own", remedy=NO_SYSTEM_SWAP)
                self.state = SwapState("system", None, size_bytes)
            elif kind != "none":
                if size_bytes is None:
                    raise MachineError(
                        f"swap of kind {kind} needs a size", remedy='add to its table: size = "2G"'
                    )
                self.state = self._file(size_bytes) if kind == "file" else self._zram(size_bytes)
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
        folder = self._in_use
        if not folder.is_dir():
            raise MachineError("no folder for a swap file", where=str(folder), remedy=ANOTHER_SWAP)
        # A disk in memory is ours alone.
        spare_bytes = _SPARE_BYTES if folder == self._folder else 0
        free = shutil.disk_usage(folder).free
        if free < size_bytes + spare_bytes:
            raise MachineError(
                f"no room for a swap file of {format_size(size_bytes)}: {format_size(free)} are "
                "free",
                where=str(folder),
                remedy="free some space, or ask for a smaller swap",
            )
        file = folder / f"edgebench-swap-{os.urandom(6).hex()}" / "edgebench-swap"
        self._ownership.claim("temp-folder", str(file.parent))
        self._ownership.claim("swap-file", str(file))
        try:
            # Of full size, and nobody else can read or replace it.
            make_private_folder(file.parent)
            fd = open_file(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            try:
                os.posix_fallocate(fd, 0, size_bytes)
            finally:
                os.close(fd)
        except OSError as error:
            raise MachineError(
                f"a swap file of {format_size(size_bytes)} can't be created: {error.strerror}",
                where=str(folder),
                remedy=ANOTHER_SWAP,
            ) from error
        _swap_on(file)
        return SwapState("file", file, size_bytes)

    def _zram(self, size_bytes: int) -> SwapState:
        _need_root("zram swap")
        try:
            if not _ZRAM_CONTROL.exists():
                load = ["modprobe", "zram", "num_devices=0"]
                subprocess.run(load, capture_output=True, check=False)
            device = self._claimed_zram()
        except OSError as error:
            raise MachineError(
                f"can't create a zram device: {error.strerror}",
                remedy="modprobe zram, or use swap of kind file",
            ) from error
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

    def _claimed_zram(self) -> Path:
        """Make a device and claim it: its number is the kernel's to choose, so not before.

        Signals that would end the program wait meanwhile.
        """
        ends = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ends)
        try:
            number = int((_ZRAM_CONTROL / "hot_add").read_text(errors="replace"))
            device = Path(f"/dev/zram{number}")
            try:
                self._ownership.claim("zram", str(device))
            except MachineError:
                clear_zram(device)
                raise
            return device
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def __enter__(self) -> SwapControl:
        return self

    def __exit__(self, *_: object) -> None:
        self.off()


def _need_root(what: str) -> None:
    if os.geteuid() != 0:
        raise MachineError(f"{what} can be set up by root only", remedy=NOT_ROOT)


def _swap_on(device: Path) -> None:
    flags: list[str] = []
    if (areas := read_swap_areas()) is not None:
        # Above all others, or the kernel fills those first.
        highest = max((area.priority for area in areas.values()), default=-1)
        flags = ["--priority", str(min(max(highest, -1) + 1, _HIGHEST_PRIORITY))]
    remedy = "use another folder's disk, or another kind of swap"
    for words in (["mkswap", str(device)], ["swapon", *flags, str(device)]):
        run_tool(words, remedy, device)


@dataclass(frozen=True)
class Compressed:
    """How much lies compressed in RAM, and what it takes there, in bytes."""

    held_bytes: int
    taken_bytes: int

    @property
    def share(self) -> float:
        """What a page takes, of its size."""
        return self.taken_bytes / self.held_bytes if self.held_bytes else 0.0


@dataclass(frozen=True)
class SwapRam:
    """RAM that zram takes beside a cgroup's charge.

    Args:
        read: what lies there now; None where that can't be read any more.
        doubt: what is not known of it; empty for nothing.
    """

    read: Callable[[], Compressed | None]
    doubt: str = ""


def swap_ram(state: SwapState, root: Path = Path("/")) -> SwapRam | None:
    """Find what RAM a trial with this swap takes beside its charge; None: nothing.

    Args:
        state: the swap that it has.
        root: where the machine's files are.
    """
    if state.kind == "zram" and state.device:
        device = state.device.name
        return SwapRam(lambda: _in_zram(root, [device]))
    areas = read_swap_areas(root / "proc/swaps") or {}
    devices = [path.name for path in areas if path.name.startswith("zram")]
    if state.kind != "system" or not devices:
        return None
    before = _in_zram(root, devices)

    def growth() -> Compressed | None:
        now = _in_zram(root, devices)
        if now is None or before is None:
            return None
        held, taken = now.held_bytes - before.held_bytes, now.taken_bytes - before.taken_bytes
        return Compressed(max(0, held), max(0, taken))

    return SwapRam(growth, _ALL)


def _in_zram(root: Path, devices: list[str]) -> Compressed | None:
    try:
        texts = [(root / "sys/block" / name / "mm_stat").read_bytes() for name in devices]
        numbers = [list(map(int, text.split())) for text in texts]
        return Compressed(
            sum(stat[_HELD] for stat in numbers), sum(stat[_USED] for stat in numbers)
        )
    except (OSError, ValueError, IndexError):
        return None
