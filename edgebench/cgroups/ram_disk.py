"""A disk in memory: as fast as memory, so only the declared speed decides how fast it is read.

A file in ramfs, whose pages the kernel never swaps, becomes a loop device with a file system on it.
The kernel holds a loop device to a speed as any other disk, while the machine's own disk, however
slow or busy, has no part in it (docs/decisions.md).
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from edgebench.caller_process import CallError, call_as_caller
from edgebench.cgroups.cleanup import clear_ram_disk, run_tool
from edgebench.cgroups.leftovers import Ownership
from edgebench.errors import MachineError
from edgebench.identity import caller_identity
from edgebench.safe_files import created, make_folder, make_private_folder
from edgebench.safe_reading import open_to_read
from edgebench.units import MIB, format_size

#: What is left free in memory besides the disk.
_SPARE_BYTES = 512 * MIB
#: Beside what is asked for: the file system's own tables, and the file that proves a speed.
_OWN_BYTES, _OWN_SHARE = 112 * MIB, 0.02
#: 128 KiB, as disks read ahead by default.
_READ_AHEAD_SECTORS = "256"
_MAKE_FILE_SYSTEM = ("mkfs.ext4", "-q", "-F", "-m", "0", "-b", "4096", "-N", "4096")
#: Nothing that the kernel would go on doing while trials run.
_AT_ONCE = ("-O", "^has_journal", "-E", "nodiscard,lazy_itable_init=0")
_SMALLER = "ask for less swap, or use the machine's own disk: leave disk=ram out"
_COPY, _COPY_LIMIT_S = "edgebench.cgroups.ram_disk:copy_files", 3600.0
_OTHER_DISK = "leave disk=ram out: then the machine's own disk is used"


class RamDisk:
    """Makes a disk in memory when it is first needed, and removes it. A context manager.

    Args:
        ownership: records the disk before it is made.
        free_bytes: tells how much memory there is for it.
        place: where its folder is made; None takes ``/var/tmp``.
    """

    def __init__(
        self, ownership: Ownership, free_bytes: Callable[[], int], place: Path | None = None
    ) -> None:
        self._ownership, self._free_bytes = ownership, free_bytes
        self._place = place or Path("/var/tmp")  # noqa: S108 - a private folder is made in it
        self._made: Path | None = None
        self._copies: dict[Path, Path] = {}
        self._room_bytes = 0

    @property
    def folder(self) -> Path | None:
        """Where its files are; None while there is none."""
        return self._made / "disk" if self._made else None

    def has_room(self, room_bytes: int) -> bool:
        """Whether the disk is there, and large enough."""
        return self._made is not None and self._room_bytes >= room_bytes

    def need(self, room_bytes: int) -> Path:
        """The folder of a disk with so much room; one that is too small is made anew, empty.

        Raises:
            MachineError: not root, too little memory, or a tool that is missing.
        """
        if not self.has_room(room_bytes):
            self.off()
            self._make(room_bytes)
        assert self.folder
        return self.folder

    def copy(self, source: Path) -> Path:
        """A copy of a folder of files on the disk, made once, by the caller and for them alone.

        Raises:
            MachineError: there is no room for it, or one is no file that the caller may read.
        """
        if source not in self._copies:
            assert self.folder
            copy = self.folder / f"files-{len(self._copies)}"
            try:
                # It belongs to the caller.
                make_folder(copy)
                request = {"source": str(source), "copy": str(copy)}
                call_as_caller(_COPY, request, caller_identity(), limit_s=_COPY_LIMIT_S)
            except (OSError, CallError) as error:
                raise MachineError(
                    f"files can't be copied to the disk in memory: {error}",
                    where=str(source),
                    remedy=_SMALLER,
                ) from error
            self._copies[source] = copy
        return self._copies[source]

    def off(self) -> None:
        """Remove the disk and what is on it; swap on it must be off. Safe to call twice."""
        made, self._made = self._made, None
        self._copies.clear()
        self._room_bytes = 0
        if made:
            clear_ram_disk(made)
            self._ownership.release("ram-disk", str(made))

    def _make(self, room_bytes: int) -> None:
        if os.geteuid() != 0:
            remedy = "call edgebench with sudo, or leave disk=ram out"
            raise MachineError("a disk in memory can be made by root only", remedy=remedy)
        size_bytes = int(room_bytes * (1 + _OWN_SHARE)) + _OWN_BYTES
        free = self._free_bytes()
        if free < size_bytes + _SPARE_BYTES:
            raise MachineError(
                f"no memory for a disk of {format_size(size_bytes)} in it: {format_size(free)} "
                f"are free, of which {format_size(_SPARE_BYTES)} stay so",
                remedy=_SMALLER,
            )
        folder = self._place / f"edgebench-ram-disk-{secrets.token_hex(6)}"
        self._ownership.claim("ram-disk", str(folder))
        self._made, self._room_bytes = folder, room_bytes
        make_private_folder(folder, reachable=caller_identity() is not None)
        for name in ("memory", "disk"):
            make_private_folder(folder / name)
        run_tool(
            ["mount", "-t", "ramfs", "-o", "mode=0700", "edgebench", str(folder / "memory")],
            _OTHER_DISK,
        )
        file = folder / "memory" / "disk"
        _fill(file, size_bytes)
        device = run_tool(["losetup", "--find", "--show", str(file)], _OTHER_DISK).strip()
        run_tool(["blockdev", "--setra", _READ_AHEAD_SECTORS, device], _OTHER_DISK)
        run_tool([*_MAKE_FILE_SYSTEM, *_AT_ONCE, device], _OTHER_DISK)
        run_tool(["mount", "-o", "noatime,nosuid,nodev", device, str(folder / "disk")], _OTHER_DISK)
        # From now on the kernel lets the device go as soon as it is unmounted.
        run_tool(["losetup", "--detach", device], _OTHER_DISK)

    def __enter__(self) -> RamDisk:
        return self

    def __exit__(self, *_: object) -> None:
        self.off()


def _fill(file: Path, size_bytes: int) -> None:
    """Take all of its memory now: pages that a trial makes the kernel add would be the trial's."""
    zeros = bytes(MIB)
    with created(file, 0o600) as disk:
        for _ in range(-(-size_bytes // MIB)):
            disk.write(zeros)


def copy_files(request: Mapping[str, str]) -> None:
    """Copy all in the folder ``source`` to the empty folder ``copy``; follows no link in it.

    Raises:
        OSError: something in it is neither a file nor a folder, or can't be read; no room.
    """
    _copy_below(Path(request["source"]), Path(request["copy"]))


def _copy_below(source: Path, copy: Path) -> None:
    for one in sorted(source.iterdir()):
        if one.is_dir() and not one.is_symlink():
            make_folder(copy / one.name)
            _copy_below(one, copy / one.name)
            continue
        with open_to_read(one, links=False) as old, created(copy / one.name, 0o600) as new:
            shutil.copyfileobj(old, new, MIB)
            new.flush()
            # Dirty pages would still be on their way while the first trial is timed.
            os.fsync(new.fileno())
