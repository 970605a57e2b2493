"""What a trial's processes map, touch and read, seen from outside while they run.

No page is looked at. Files and sizes are those of ``/proc/PID/maps``, ``smaps`` and ``fd`` (Linux,
Documentation/filesystems/proc.rst). ``clear_refs`` takes the marks of touched pages away, ``smaps``
counts them as ``Referenced``; both need CONFIG_PROC_PAGE_MONITOR.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import mmap
import os
import re
import stat
import time
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from edgebench.safe_files import real_path

_PROC = Path("/proc")
_PAGE = mmap.PAGESIZE
#: A mapping's first line in ``smaps`` (permissions, device, inode), or one of its counts.
_SMAPS_LINE = re.compile(
    r"^(?:[0-9a-f]+-[0-9a-f]+ (\S+) \S+ (\S+) (\d+)"
    r"|(Rss|Pss|Referenced|Anonymous|AnonHugePages): +(\d+) kB)",
    re.MULTILINE,
)
_NO_FILE = "0"
#: Permissions and name of a file that ``maps`` shows.
_MAPPED_FILE = re.compile(r"^[0-9a-f]+-[0-9a-f]+ (\S+) \S+ \S+ [1-9]\d* +(/.*)$", re.MULTILINE)
_FLAGS = re.compile(r"^flags:\s+([0-7]+)$", re.MULTILINE)
_RCHAR = re.compile(r"^rchar: (\d+)$", re.MULTILINE)
#: Their pages are shared memory: the kernel can only swap them.
_MEMORY_FILE_SYSTEMS = ("tmpfs", "devtmpfs")
#: Smaller files change no answer, and a program has very many of them.
LEAST_BYTES = 1 << 20
#: No more files of a program are kept.
MOST_FILES = 256
#: Files in these folders are the kernel's.
_KERNELS = ("/proc/", "/sys/", "/dev/")
#: The system call, which has no function in most C libraries yet.
_CACHESTAT = 451
#: mincore is asked about this much of a file at a time.
_PIECE_BYTES = 1 << 30


@dataclass(frozen=True)
class _Mapping:
    """One mapping of one process; ``sizes`` in bytes by the kernel's names."""

    rights: str
    device: str
    inode: str
    sizes: Counter[str] = field(default_factory=Counter)


def _mappings(smaps: str) -> list[_Mapping]:
    mappings: list[_Mapping] = []
    for rights, device, inode, name, kib in _SMAPS_LINE.findall(smaps):
        if rights:
            mappings.append(_Mapping(rights, device, inode))
        elif mappings:
            mappings[-1].sizes[name] = int(kib) * 1024
    return mappings


def _read_smaps(pid: int) -> str:
    # A mapped file's name may be any bytes.
    return (_PROC / str(pid) / "smaps").read_text(errors="replace")


def mapped_bytes(pids: Iterable[int]) -> int:
    """Sum what the processes map of files and shared memory, a page once for each of them."""
    pages = 0
    for pid in pids:
        # It may have ended.
        with contextlib.suppress(OSError, IndexError):
            pages += int((_PROC / str(pid) / "statm").read_text(errors="replace").split()[2])
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
    resident: Counter[int] = field(default_factory=Counter)
    proportional: int = 0

    @property
    def once_bytes(self) -> int:
        """Its resident pages, each once.

        Processes that share pages hold at least what one of them holds, and at least the sum of
        their proportional shares, which is exact unless others map them too.
        """
        return max(self.proportional, *self.resident.values())


def mapped_files(pids: Iterable[int]) -> MappedFiles | None:
    """Read what these processes map now; None if the kernel shows it of none of them.

    Processes that have ended are left out.
    """
    texts: list[str] = []
    # That of memfds, shared anonymous and System V memory, which is mounted nowhere.
    fd = os.memfd_create("edgebench")
    devices = {_device(os.fstat(fd))}
    os.close(fd)
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


def _device(status: os.stat_result) -> str:
    return f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"


def memory_devices(mountinfo: str) -> set[str]:
    """Find the devices of file systems in memory, as ``smaps`` writes them: ``00:1c``."""
    devices = set()
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        if after.split(" ", 1)[0] in _MEMORY_FILE_SYSTEMS:
            major, minor = before.split()[2].split(":")
            devices.add(f"{int(major):02x}:{int(minor):02x}")
    return devices


def mapped_in(smaps: Iterable[str], memory_devices: Collection[str]) -> MappedFiles:
    """Sum mapped files from each process's ``smaps`` and the devices of file systems in memory."""
    files: dict[tuple[str, str], _File] = {}
    for process, text in enumerate(smaps):
        for mapping in _mappings(text):
            if mapping.inode != _NO_FILE:
                file = files.setdefault((mapping.device, mapping.inode), _File())
                changed = mapping.sizes["Anonymous"]
                file.is_code |= "x" in mapping.rights
                file.resident[process] += max(0, mapping.sizes["Rss"] - changed)
                file.proportional += max(0, mapping.sizes["Pss"] - changed)
    sums = {"library": 0, "own": 0, "shared": 0}
    for (device, _), file in files.items():
        is_shared = device in memory_devices
        sums["shared" if is_shared else "library" if file.is_code else "own"] += file.once_bytes
    return MappedFiles(sums["library"], sums["own"], sums["shared"])


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
    """Take the marks away; return False if the kernel has none, or not for us."""
    try:
        for pid in pids:
            # 1: of all pages.
            (_PROC / str(pid) / "clear_refs").write_text("1")
    except OSError:
        return False
    return True


def touched_pages(pids: Iterable[int]) -> TouchedPages | None:
    """Read what was touched since :func:`forget_touched`; None if that can't be read.

    A page of a file that several processes touched is counted for each.
    """
    try:
        return touched_in(*map(_read_smaps, pids))
    except OSError:
        return None


def touched_in(*smaps: str) -> TouchedPages:
    """Sum what was touched, from the processes' ``smaps``.

    Pages of a mapped file that were written to are anonymous; of these and of the file's own the
    kernel has one count of touched ones. The file's own are taken to be touched first.
    """
    anonymous = file = huge = 0
    for mapping in (mapping for text in smaps for mapping in _mappings(text)):
        touched = mapping.sizes["Referenced"]
        unchanged = mapping.sizes["Rss"] - mapping.sizes["Anonymous"]
        of_file = min(touched, unchanged) if mapping.inode != _NO_FILE else 0
        file, anonymous = file + of_file, anonymous + touched - of_file
        huge += min(touched, mapping.sizes["AnonHugePages"])
    return TouchedPages(anonymous, file, huge)


def named_files(words: list[str], folder: Path) -> list[Path]:
    """Find the large regular files that the words of a command name, also as ``--model=FILE``."""
    files = []
    for word in words:
        for name in dict.fromkeys((word, word.partition("=")[2])):
            # Too long for a name, or with a NUL in it.
            with contextlib.suppress(OSError, ValueError):
                path = folder / name
                if name and _is_large(path.stat()):
                    files.append(real_path(path))
    return files


def _is_large(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode) and status.st_size >= LEAST_BYTES


def bytes_read(task: Path) -> int:
    """Read what a thread read by calls; a process's is of all threads, and of ended children."""
    read = _RCHAR.search((task / "io").read_text(errors="replace"))
    return int(read[1]) if read else 0


def code_and_other_files(pid: int) -> tuple[set[str], set[str]]:
    """Read the names of the files that a process maps: those of code, and the others.

    Raises:
        OSError: it has ended, or is another user's.
    """
    code: set[str] = set()
    others: set[str] = set()
    maps = (_PROC / str(pid) / "maps").read_text(errors="replace")
    for rights, name in _MAPPED_FILE.findall(maps):
        (code if "x" in rights else others).add(name)
    return code, others


def own_memory_devices() -> set[str]:
    """Find the devices of file systems in memory that this process sees."""
    return memory_devices((_PROC / "self/mountinfo").read_text(errors="replace"))


def is_large_on_disk(name: str, in_memory: Collection[str]) -> bool:
    """Return whether a mapped or open file is a large one of a disk.

    ``in_memory`` are devices of file systems in memory.

    Raises:
        OSError: it is gone.
    """
    # What can't be printed can't be kept in a record.
    if not name.isprintable() or name.startswith(_KERNELS) or name.endswith(" (deleted)"):
        return False
    status = Path(name).stat()
    return _is_large(status) and _device(status) not in in_memory


def is_read(pid: int, entry: os.DirEntry[str]) -> bool:
    """Return whether a process's descriptor is of a file, and not for writing alone."""
    if not stat.S_ISREG(entry.stat().st_mode):
        return False
    flags = _FLAGS.search((_PROC / str(pid) / "fdinfo" / entry.name).read_text(errors="replace"))
    return flags is not None and int(flags[1], 8) & os.O_ACCMODE != os.O_WRONLY


def cached_bytes(descriptor: int, until_s: float = math.inf) -> int | None:
    """Find how much of an open file lies in the page cache.

    By cachestat(2), before Linux 6.5 by mincore(2).

    None: the kernel tells it only to root, the file's owner and those who may write to it; or it
    is not known by ``until_s`` (``time.monotonic``), since mincore looks at holes too.
    """
    status = os.fstat(descriptor)
    if os.geteuid() not in (0, status.st_uid) and not os.access(
        f"/proc/self/fd/{descriptor}", os.W_OK
    ):
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    pages = (ctypes.c_uint64 * 5)()
    whole_file = (ctypes.c_uint64 * 2)(0, 0)
    if libc.syscall(_CACHESTAT, descriptor, whole_file, pages, 0) == 0:
        return pages[0] * _PAGE
    cached = 0
    for start in range(0, status.st_size, _PIECE_BYTES):
        if time.monotonic() > until_s:
            return None
        cached += _cached_piece(libc, descriptor, start, min(_PIECE_BYTES, status.st_size - start))
    return cached


def _cached_piece(libc: ctypes.CDLL, descriptor: int, start: int, length: int) -> int:
    pages = (ctypes.c_ubyte * -(-length // _PAGE))()
    try:
        # Python tells the address only of what may be written to: so a private copy.
        with mmap.mmap(descriptor, length, access=mmap.ACCESS_COPY, offset=start) as area:
            first = ctypes.c_char.from_buffer(area)
            known = libc.mincore(ctypes.byref(first), ctypes.c_size_t(length), pages) == 0
            # While it is there the mapping can't be closed.
            del first
    except (OSError, ValueError):
        # It has become shorter, or can't be mapped.
        return 0
    return sum(page & 1 for page in bytes(pages)) * _PAGE if known else 0
