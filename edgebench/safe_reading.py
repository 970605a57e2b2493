"""Safe reading: what lies in a results folder, or beside a scenario, may be of anybody's making.

* Only regular files are read. A FIFO, a device, a socket or a folder is refused with an
  :class:`OSError` that says what it is; nothing waits for whoever writes to a FIFO.
* Root reads below a folder of another user with that user's rights, and follows a link there with
  those rights too: what the user may not read is not read for them
  (:func:`edgebench.safe_folders.open_place`).
* What is read whole has a limit: a sparse file takes no place on the disk, but would in memory.

Files of the kernel and of edgebench itself need none of this.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from edgebench.safe_folders import NO_LINK, open_place
from edgebench.units import format_size

if TYPE_CHECKING:
    import zipfile

#: More than any file that edgebench writes and reads whole.
MOST_BYTES = 512 << 20
_MOST_TIMES = 100
_FLAGS = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFDIR: "a folder",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def open_to_read(path: Path, *, links: bool = True) -> BinaryIO:
    """Return the regular file, open for reading; without ``links`` its name may be no link.

    Raises:
        OSError: no regular file, or not readable, for root by the owner of its folder.
    """
    if os.geteuid() != 0:
        return _regular(path, path, None, 0 if links else NO_LINK)
    try:
        with open_place(path, links=links) as (folder, name), folder.reading_rights():
            return _regular(path, name, folder.fd, NO_LINK)
    except OSError as error:
        # Not where a link leads: that is nobody's business.
        error.filename = str(path)
        raise


def _regular(path: Path, name: str | Path, folder: int | None, flags: int) -> BinaryIO:
    # Looked at first: a device may act when it is opened.
    _check(os.stat(name, dir_fd=folder, follow_symlinks=not flags), path)
    fd = os.open(name, os.O_RDONLY | _FLAGS | flags, dir_fd=folder)
    try:
        _check(os.fstat(fd), path)
        return os.fdopen(fd, "rb")
    except BaseException:
        os.close(fd)
        raise


def _check(found: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(found.st_mode):
        kind = _KINDS.get(stat.S_IFMT(found.st_mode), "something else")
        number = errno.EISDIR if stat.S_ISDIR(found.st_mode) else errno.EINVAL
        raise OSError(number, f"it is {kind}, not a file", str(path))


def read_file(path: Path, most: int = MOST_BYTES) -> bytes:
    """Return the file's bytes.

    Raises:
        OSError: as :func:`open_to_read`; or more than ``most`` bytes.
    """
    with open_to_read(path) as file:
        size = os.fstat(file.fileno()).st_size
        # It may grow meanwhile.
        data = file.read(most + 1) if size <= most else b""
    if max(size, len(data)) > most:
        what = f"it has {format_size(size)}; at most {format_size(most)} are read"
        raise OSError(errno.EFBIG, what, str(path))
    return data


def check_unpacked(member: zipfile.ZipInfo) -> None:
    """Check what a packed table stands for, before it is unpacked.

    Raises:
        ValueError: it is large and nearly nothing but repetitions, as no measured numbers are.
    """
    if member.file_size > max(MOST_BYTES, _MOST_TIMES * member.compress_size):
        raise ValueError(f"it unpacks to {format_size(member.file_size)}")


def read_text(path: Path, errors: str = "strict", most: int = MOST_BYTES) -> str:
    """Return the file's UTF-8 text, its lines ended by a line feed alone.

    Raises:
        OSError: as :func:`read_file`.
        UnicodeDecodeError: it is no such text.
    """
    return read_file(path, most).decode("utf-8", errors).replace("\r\n", "\n").replace("\r", "\n")


def read_end(path: Path, most: int) -> bytes:
    """Return the last ``most`` bytes of the file.

    Raises:
        OSError: as :func:`open_to_read`.
    """
    with open_to_read(path) as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - most))
        return file.read(most)
