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
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from edgebench.cgroups.interface import Cgroup
from edgebench.safe_folders import real_path

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
#: Between two looks for files at least, and the part of the time that looks may take.
_INTERVAL_S, _LOOKING_SHARE = 0.005, 0.02
#: The same shortly after the first process came: some programs end so soon.
_BEGIN_S, _BEGIN_INTERVAL_S, _BEGIN_SHARE = 0.25, 0.001, 0.5
#: Files in these folders are the kernel's.
_KERNELS = ("/proc/", "/sys/", "/dev/")
_WITH_GNU_TIME = 2
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
    """Write the device of a file as ``smaps`` does: ``00:1c``."""
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


def _read_by(task: Path) -> int:
    """Return what a thread read by calls; a process's is of all threads, and of ended children."""
    read = _RCHAR.search((task / "io").read_text(errors="replace"))
    return int(read[1]) if read else 0


class _Reader:
    """A process, the files that it had open, and what it had read at the look that saw the first.

    By thread, since a process's own count has those of children for which it waited.
    """

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.first: int | None = None
        self.threads: dict[str, int] = {}

    @property
    def last(self) -> int:
        """What it had read at the last look."""
        return sum(self.threads.values())


class FilesWatch:
    """Sees the files of a trial's processes within a ``with`` block.

    A thread looks, since a file is often open for a short time only. What is opened and closed
    between two looks is not seen.

    Args:
        cgroup: the trial's.
        wanted: whether to look at all.
    """

    def __init__(self, cgroup: Cgroup, *, wanted: bool) -> None:
        self._cgroup, self._wanted = cgroup, wanted
        self._mapped: set[str] = set()
        self._read: set[str] = set()
        self._code: set[str] = set()
        self._readers: dict[int, _Reader] = {}
        #: What the command and all for which it has waited read.
        self._all_read = 0
        #: The most processes that it saw at once.
        self.processes = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="files", daemon=True)

    def __enter__(self) -> FilesWatch:
        if self._wanted:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._wanted:
            self._thread.join()

    def _run(self) -> None:
        wait_s, begins_until_s = _BEGIN_INTERVAL_S, math.inf
        while not self._ended.wait(wait_s):
            began_s = time.monotonic()
            if self.look():
                begins_until_s = min(begins_until_s, began_s + _BEGIN_S)
            least_s, share = _INTERVAL_S, _LOOKING_SHARE
            if began_s < begins_until_s:
                least_s, share = _BEGIN_INTERVAL_S, _BEGIN_SHARE
            wait_s = max(least_s, (time.monotonic() - began_s) / share)

    def look(self) -> bool:
        """Look once at every process; return whether there is one."""
        pids = self._cgroup.pids()
        self.processes = max(self.processes, len(pids))
        for pid in pids:
            process = _PROC / str(pid)
            # It has ended, or is another user's.
            with contextlib.suppress(OSError):
                maps = (process / "maps").read_text(errors="replace")
                for rights, name in _MAPPED_FILE.findall(maps):
                    (self._code if "x" in rights else self._mapped).add(name)
            with contextlib.suppress(OSError):
                self._see_opened(process, pid)
        return bool(pids)

    def _see_opened(self, process: Path, pid: int) -> None:
        opened = set()
        for entry in os.scandir(process / "fd"):
            with contextlib.suppress(OSError):
                name = os.readlink(entry.path)  # noqa: PTH115 - of very many
                if name.startswith("/") and name not in self._read and _reads(process, entry):
                    self._read.add(name)
                if name in self._read:
                    opened.add(name)
        reader = self._readers.setdefault(pid, _Reader())
        for thread in (process / "task").iterdir():
            with contextlib.suppress(OSError):  # it has ended
                reader.threads[thread.name] = _read_by(thread)
        reader.names |= opened
        if opened and reader.first is None:
            reader.first = reader.last

    def see_all(self, pid: int) -> None:
        """See what the command read: once it has ended, the reading of its children counts too."""
        if self._wanted:
            with contextlib.suppress(OSError):
                self._all_read = _read_by(_PROC / str(pid))

    def read_bytes(self, sizes: Mapping[Path, int]) -> dict[Path, float]:
        """Sum by file what processes read by calls while they were seen to have these files open.

        What a process read is shared among its files by their sizes. What was read after the last
        look is of the process that read most, where there was one beside GNU time.
        """
        read = dict.fromkeys(sizes, 0.0)
        readers = [reader for reader in self._readers.values() if reader.first is not None]
        unseen = self._all_read - sum(reader.last for reader in self._readers.values())
        if readers and unseen > 0 and len(self._readers) <= _WITH_GNU_TIME:
            max(readers, key=lambda reader: reader.last).threads["unseen"] = unseen
        for reader in readers:
            opened = [path for path in sizes if str(path) in reader.names]
            for path in opened:
                share = sizes[path] / max(1, sum(sizes[other] for other in opened))
                read[path] += share * (reader.last - (reader.first or 0))
        return read

    def files(self) -> dict[Path, bool]:
        """Find each large file of a disk that holds no code, and whether it was mapped."""
        files: dict[Path, bool] = {}
        with contextlib.suppress(OSError):
            in_memory = memory_devices((_PROC / "self/mountinfo").read_text(errors="replace"))
            for name in sorted((self._mapped | self._read) - self._code):
                # What can't be printed can't be kept in a record.
                is_its = name.isprintable() and not name.startswith(_KERNELS)
                if is_its and not name.endswith(" (deleted)") and len(files) < MOST_FILES:
                    # It may be gone, or in another file system's tree than ours.
                    with contextlib.suppress(OSError):
                        status = Path(name).stat()
                        if _is_large(status) and _device(status) not in in_memory:
                            files[Path(name)] = name in self._mapped
        return files


def _reads(process: Path, entry: os.DirEntry[str]) -> bool:
    """Return whether the descriptor is of a file, and not for writing alone."""
    if not stat.S_ISREG(entry.stat().st_mode):
        return False
    flags = _FLAGS.search((process / "fdinfo" / entry.name).read_text(errors="replace"))
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
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (
        *(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int),
        ctypes.c_int64,
    )
    # Not Python's mmap: it gives no address of what can't be written to.
    address = libc.mmap(None, length, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, start)
    if address in (None, ctypes.c_void_p(-1).value):
        return 0
    try:
        pages = (ctypes.c_ubyte * -(-length // _PAGE))()
        place = ctypes.c_void_p(address), ctypes.c_size_t(length)
        known = libc.mincore(*place, pages) == 0
        return sum(page & 1 for page in bytes(pages)) * _PAGE if known else 0
    finally:
        libc.munmap(ctypes.c_void_p(address), ctypes.c_size_t(length))
