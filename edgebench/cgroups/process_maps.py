"""What processes map, by the kernel's counts in ``/proc/PID/smaps``: files, and touched pages.

Linux, Documentation/filesystems/proc.rst. No page is looked at. ``clear_refs`` takes the marks of
touched pages away, ``smaps`` counts them as ``Referenced``; both need CONFIG_PROC_PAGE_MONITOR.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

_PROC = Path("/proc")
_PAGE = os.sysconf("SC_PAGE_SIZE")
#: A mapping's first line (permissions, device, inode), or one of its counts.
_LINE = re.compile(
    r"^(?:[0-9a-f]+-[0-9a-f]+ (\S+) \S+ (\S+) (\d+)"
    r"|(Rss|Pss|Referenced|Anonymous|AnonHugePages): +(\d+) kB)",
    re.MULTILINE,
)
#: Their pages are shared memory: the kernel can only swap them.
_MEMORY_FILE_SYSTEMS = ("tmpfs", "devtmpfs")
_ALL_PAGES = "1"


@dataclass(frozen=True)
class _Mapping:
    """One mapping of one process; ``sizes`` in bytes by the kernel's names."""

    rights: str
    device: str
    inode: str
    sizes: dict[str, int] = field(default_factory=dict)

    @property
    def is_file(self) -> bool:
        return self.inode != "0"

    def size(self, name: str) -> int:
        return self.sizes.get(name, 0)


def _mappings(smaps: str) -> Iterator[_Mapping]:
    mapping: _Mapping | None = None
    for rights, device, inode, name, kib in _LINE.findall(smaps):
        if name and mapping:
            mapping.sizes[name] = int(kib) * 1024
        elif rights:
            if mapping:
                yield mapping
            mapping = _Mapping(rights, device, inode)
    if mapping:
        yield mapping


def _read_smaps(pid: int) -> str:
    # A mapped file's name may be any bytes.
    return (_PROC / str(pid) / "smaps").read_text(errors="replace")


def mapped_bytes(pids: Iterable[int]) -> int:
    """What the processes map of files and shared memory, a page once for each of them."""
    pages = 0
    for pid in pids:
        try:
            pages += int((_PROC / str(pid) / "statm").read_text(errors="replace").split()[2])
        except (OSError, IndexError):
            # It has ended.
            continue
    return pages * _PAGE


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


@dataclass
class _File:
    """One file, as several processes map it."""

    is_code: bool = False
    resident: dict[int, int] = field(default_factory=dict)
    proportional: int = 0

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
    devices = {_shared_memory_device()}
    namespaces: set[str] = set()
    for pid in pids:
        folder = _PROC / str(pid)
        try:
            texts.append(_read_smaps(pid))
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
            devices.add(_device(int(major), int(minor)))
    return devices


def mapped_in(smaps: Iterable[str], memory_devices: Collection[str]) -> MappedFiles:
    """The same from each process's ``smaps`` and the devices of file systems in memory."""
    files: dict[tuple[str, str], _File] = {}
    for process, text in enumerate(smaps):
        for one in filter(lambda one: one.is_file, _mappings(text)):
            file = files.setdefault((one.device, one.inode), _File())
            changed = one.size("Anonymous")
            own = max(0, one.size("Rss") - changed)
            file.is_code |= "x" in one.rights
            file.resident[process] = file.resident.get(process, 0) + own
            file.proportional += max(0, one.size("Pss") - changed)
    sums = {"library": 0, "own": 0, "shared": 0}
    for (device, _), file in files.items():
        is_shared = device in memory_devices
        sums["shared" if is_shared else "library" if file.is_code else "own"] += file.bytes()
    return MappedFiles(sums["library"], sums["own"], sums["shared"])


def _device(major: int, minor: int) -> str:
    return f"{major:02x}:{minor:02x}"


def _shared_memory_device() -> str:
    """That of memfds, shared anonymous and System V memory, which is mounted nowhere."""
    fd = os.memfd_create("edgebench")
    try:
        device = os.fstat(fd).st_dev
    finally:
        os.close(fd)
    return _device(os.major(device), os.minor(device))


@dataclass(frozen=True)
class TouchedPages:
    """Bytes of resident pages that were touched.

    ``file_bytes`` are of mapped files. ``huge_bytes``, of the anonymous ones, lie in huge pages:
    each is marked as a whole where a byte of it was touched.
    """

    anonymous_bytes: int = 0
    file_bytes: int = 0
    huge_bytes: int = 0


def forget_touched(pids: Iterable[int]) -> bool:
    """Take the marks away; False if the kernel has none, or not for us."""
    try:
        for pid in pids:
            (_PROC / str(pid) / "clear_refs").write_text(_ALL_PAGES)
    except OSError:
        return False
    return True


def touched_pages(pids: Iterable[int]) -> TouchedPages | None:
    """What was touched since :func:`forget_touched`; None if that can't be read.

    A page of a file that several processes touched is counted for each.
    """
    try:
        return touched_in(*map(_read_smaps, pids))
    except OSError:
        return None


def touched_in(*smaps: str) -> TouchedPages:
    """The same of the processes' ``smaps``.

    Pages of a mapped file that were written to are anonymous; of these and of the file's own the
    kernel has one count of touched ones. The file's own are taken to be touched first.
    """
    anonymous = file = huge = 0
    for one in (mapping for text in smaps for mapping in _mappings(text)):
        touched = one.size("Referenced")
        own = min(touched, one.size("Rss") - one.size("Anonymous")) if one.is_file else 0
        file, anonymous = file + own, anonymous + touched - own
        huge += min(touched, one.size("AnonHugePages"))
    return TouchedPages(anonymous, file, huge)
