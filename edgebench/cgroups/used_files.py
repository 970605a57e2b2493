"""Which regular files processes map or read, and how much of a file lies in the page cache.

From ``/proc/PID/maps`` and ``/proc/PID/fd``: no page is looked at, and the processes run on. A
thread looks, since a file is often open for a short time only. What is opened and closed between
two looks is not seen.
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
from collections.abc import Mapping
from pathlib import Path

from edgebench.cgroups.interface import Cgroup
from edgebench.cgroups.process_maps import memory_devices
from edgebench.safe_folders import real_path

_PROC = Path("/proc")
_PAGE = mmap.PAGESIZE
#: Smaller files change no answer, and a program has very many of them.
LEAST_BYTES = 1 << 20
#: No more files of a program are kept.
MOST_FILES = 256
#: Between two looks at least, and the part of the time that looks may take.
_INTERVAL_S, _LOOKING_SHARE = 0.005, 0.02
#: The same so long after the first process came: there are programs that end so soon.
_BEGIN_S, _BEGIN_INTERVAL_S, _BEGIN_SHARE = 0.25, 0.001, 0.5
#: Files in these folders are the kernel's.
_KERNELS = ("/proc/", "/sys/", "/dev/")
_MAPPING = re.compile(r"^[0-9a-f]+-[0-9a-f]+ (\S+) \S+ \S+ [1-9]\d* +(/.*)$", re.MULTILINE)
_FLAGS = re.compile(r"^flags:\s+([0-7]+)$", re.MULTILINE)
_RCHAR = re.compile(r"^rchar: (\d+)$", re.MULTILINE)
_GONE = " (deleted)"
_WITH_GNU_TIME = 2
#: The system call, which has no function in most C libraries yet.
_CACHESTAT = 451
#: mincore is asked about so much of a file at a time.
_PIECE_BYTES = 1 << 30


def named_files(words: list[str], folder: Path) -> list[Path]:
    """The large regular files that the words of a command name, also as ``--model=FILE``."""
    found = []
    for word in words:
        for name in dict.fromkeys((word, word.partition("=")[2])):
            # Too long for a name, or with a NUL in it.
            with contextlib.suppress(OSError, ValueError):
                path = folder / name
                if name and _is_large(path.stat()):
                    found.append(real_path(path))
    return found


def _read_by(task: Path) -> int:
    """What a thread read by calls; a process's is of all threads, and of children waited for."""
    found = _RCHAR.search((task / "io").read_text(errors="replace"))
    return int(found[1]) if found else 0


def _is_large(found: os.stat_result) -> bool:
    return stat.S_ISREG(found.st_mode) and found.st_size >= LEAST_BYTES


class _Reader:
    """A process, the files that it had open, and what it had read when it was seen with the first.

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
        """Begin."""
        if self._wanted:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
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
        """One look at every process; whether there is one."""
        pids = self._cgroup.pids()
        self.processes = max(self.processes, len(pids))
        for pid in pids:
            # It has ended, or is another user's.
            with contextlib.suppress(OSError):
                self._see_maps(_PROC / str(pid))
            with contextlib.suppress(OSError):
                self._see_opened(_PROC / str(pid), pid)
        return bool(pids)

    def _see_maps(self, process: Path) -> None:
        for rights, name in _MAPPING.findall((process / "maps").read_text(errors="replace")):
            (self._code if "x" in rights else self._mapped).add(name)

    def _see_opened(self, process: Path, pid: int) -> None:
        opened = set()
        for one in os.scandir(process / "fd"):
            with contextlib.suppress(OSError):
                name = os.readlink(one.path)  # noqa: PTH115 - of very many
                if name.startswith("/") and name not in self._read and self._reads(process, one):
                    self._read.add(name)
                if name in self._read:
                    opened.add(name)
        reader = self._readers.setdefault(pid, _Reader())
        with contextlib.suppress(OSError):  # a thread has ended
            for thread in os.scandir(process / "task"):
                reader.threads[thread.name] = _read_by(Path(thread.path))
        reader.names |= opened
        if opened and reader.first is None:
            reader.first = reader.last

    def see_all(self, pid: int) -> None:
        """See what the command read: once it has ended, the reading of its children counts too."""
        if self._wanted:
            with contextlib.suppress(OSError):
                self._all_read = _read_by(_PROC / str(pid))

    def read_bytes(self, sizes: Mapping[Path, int]) -> dict[Path, float]:
        """What processes read by calls while they were seen to have these files open, by file.

        What a process read is shared among its files by their sizes. What was read after the last
        look is of the process that read most, where there was one beside GNU time.
        """
        found = dict.fromkeys(sizes, 0.0)
        readers = [reader for reader in self._readers.values() if reader.first is not None]
        unseen = self._all_read - sum(reader.last for reader in self._readers.values())
        if readers and unseen > 0 and len(self._readers) <= _WITH_GNU_TIME:
            max(readers, key=lambda reader: reader.last).threads["unseen"] = unseen
        for reader in readers:
            own = [path for path in sizes if str(path) in reader.names]
            for path in own:
                share = sizes[path] / max(1, sum(sizes[one] for one in own))
                found[path] += share * (reader.last - (reader.first or 0))
        return found

    @staticmethod
    def _reads(process: Path, one: os.DirEntry[str]) -> bool:
        """Whether the descriptor is of a file, and not for writing alone."""
        if not stat.S_ISREG(one.stat().st_mode):
            return False
        flags = _FLAGS.search((process / "fdinfo" / one.name).read_text(errors="replace"))
        return flags is not None and int(flags[1], 8) & os.O_ACCMODE != os.O_WRONLY

    def files(self) -> dict[Path, bool]:
        """Each large file of a disk that holds no code, and whether it was mapped."""
        with contextlib.suppress(OSError):
            in_memory = memory_devices((_PROC / "self/mountinfo").read_text(errors="replace"))
            names = sorted((self._mapped | self._read) - self._code)
            found = {Path(name): name in self._mapped for name in names if self._is_own(name)}
            large = [path for path in found if _is_of_disk(path, in_memory)]
            return {path: found[path] for path in large[:MOST_FILES]}
        return {}

    @staticmethod
    def _is_own(name: str) -> bool:
        # What can't be printed can't be kept in a record.
        return name.isprintable() and not (name.startswith(_KERNELS) or name.endswith(_GONE))


def _is_of_disk(path: Path, in_memory: set[str]) -> bool:
    # It may be gone, or in another file system's tree than ours.
    with contextlib.suppress(OSError):
        found = path.stat()
        device = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}"
        return _is_large(found) and device not in in_memory
    return False


def cached_bytes(descriptor: int, until_s: float = math.inf) -> int | None:
    """How much of an open file lies in the page cache (cachestat(2), before Linux 6.5 mincore(2)).

    None: the kernel tells it only to root, the file's owner and those who may write to it; or it
    is not known by ``until_s`` (``time.monotonic``), since mincore looks at holes too.
    """
    found = os.fstat(descriptor)
    if os.geteuid() not in (0, found.st_uid) and not os.access(
        f"/proc/self/fd/{descriptor}", os.W_OK
    ):
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    pages = (ctypes.c_uint64 * 5)()
    whole_file = (ctypes.c_uint64 * 2)(0, 0)
    if libc.syscall(_CACHESTAT, descriptor, whole_file, pages, 0) == 0:
        return pages[0] * _PAGE
    cached = 0
    for start in range(0, found.st_size, _PIECE_BYTES):
        if time.monotonic() > until_s:
            return None
        cached += _cached_piece(libc, descriptor, start, min(_PIECE_BYTES, found.st_size - start))
    return cached


def _cached_piece(libc: ctypes.CDLL, descriptor: int, start: int, length: int) -> int:
    """The same of one piece of it, by mincore."""
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
        found = libc.mincore(*place, pages) == 0
        return sum(page & 1 for page in bytes(pages)) * _PAGE if found else 0
    finally:
        libc.munmap(ctypes.c_void_p(address), ctypes.c_size_t(length))
