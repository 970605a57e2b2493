"""Which files a cgroup's processes map, and how much of them is resident.

Linux, Documentation/filesystems/proc.rst, "smaps". No page is looked at, only the kernel's counts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
#: A mapping's first line: permissions, device and inode (0: anonymous memory).
_MAPPING = re.compile(r"[0-9a-f]+-[0-9a-f]+ (\S+) \S+ (\S+) (\d+)")
#: Their pages are shared memory: the kernel can only swap them.
_MEMORY_FILE_SYSTEMS = ("tmpfs", "devtmpfs")


@dataclass(frozen=True)
class MappedFiles:
    """Resident bytes of mapped files, each page once, whoever is charged for it.

    What a process changed in a private mapping is anonymous and not counted.

    Args:
        library_bytes: of files that a process maps as code, their other mappings included.
        own_bytes: of all other files of a disk: weights, data.
        shared_bytes: of shared anonymous memory, memfds and files of a tmpfs.
    """

    library_bytes: int = 0
    own_bytes: int = 0
    shared_bytes: int = 0


class _File:
    """One file, as several processes map it."""

    def __init__(self) -> None:
        self.is_code = False
        self.resident: dict[int, int] = {}
        self.proportional = 0

    def bytes(self) -> int:
        """Its resident pages, each once.

        Processes that share pages hold at least what one of them holds, and at least the sum of
        their proportional shares, which is exact unless others map them too.
        """
        return max(self.proportional, *self.resident.values())


def mapped_files(pids: Iterable[int]) -> MappedFiles | None:
    """What these processes map now; None if the kernel shows it of none of them.

    Processes that have ended are left out.
    """
    texts: list[str] = []
    devices = {_device(_shared_memory_device())}
    namespaces: set[str] = set()
    for pid in pids:
        folder = _PROC / str(pid)
        try:
            # A mapped file's name may be any bytes.
            texts.append((folder / "smaps").read_text(errors="replace"))
            namespace = str((folder / "ns" / "mnt").readlink())
            if namespace not in namespaces:
                namespaces.add(namespace)
                devices |= memory_devices((folder / "mountinfo").read_text(errors="replace"))
        except OSError:
            continue
    return mapped_in(texts, devices) if any(texts) else None


def memory_devices(mountinfo: str) -> set[str]:
    """The devices of file systems in memory, as ``smaps`` writes them: ``00:1c``."""
    devices = set()
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        if after.split(" ", 1)[0] in _MEMORY_FILE_SYSTEMS:
            major, minor = before.split()[2].split(":")
            devices.add(_device((int(major), int(minor))))
    return devices


def mapped_in(smaps: Iterable[str], memory_devices: Collection[str]) -> MappedFiles:
    """The same from each process's ``smaps`` and the devices of file systems in memory."""
    files: dict[tuple[str, str], _File] = {}
    for process, text in enumerate(smaps):
        _add_process(files, process, text)
    sums = {"library": 0, "own": 0, "shared": 0}
    for (device, _), file in files.items():
        is_shared = device in memory_devices
        sums["shared" if is_shared else "library" if file.is_code else "own"] += file.bytes()
    return MappedFiles(sums["library"], sums["own"], sums["shared"])


def _add_process(files: dict[tuple[str, str], _File], process: int, smaps: str) -> None:
    file: _File | None = None
    resident = proportional = 0
    for line in smaps.splitlines():
        if line.startswith("Rss:"):
            resident = _bytes(line)
        elif line.startswith("Pss:"):
            proportional = _bytes(line)
        elif line.startswith("Anonymous:"):
            if file:
                changed = _bytes(line)
                held = file.resident.get(process, 0) + max(0, resident - changed)
                file.resident[process] = held
                file.proportional += max(0, proportional - changed)
        elif found := _MAPPING.match(line):
            rights, device, inode = found.groups()
            file = None if inode == "0" else files.setdefault((device, inode), _File())
            if file:
                file.is_code |= "x" in rights
                file.resident.setdefault(process, 0)


def _bytes(line: str) -> int:
    return int(line.split()[1]) * 1024


def _device(numbers: tuple[int, int]) -> str:
    return "{:02x}:{:02x}".format(*numbers)


def _shared_memory_device() -> tuple[int, int]:
    """That of memfds, shared anonymous and System V memory, which is mounted nowhere."""
    fd = os.memfd_create("edgebench")
    try:
        device = os.fstat(fd).st_dev
    finally:
        os.close(fd)
    return os.major(device), os.minor(device)
