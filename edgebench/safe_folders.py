"""Folders opened safely, by descriptors.

A path is walked folder by folder. A symbolic link on the way is followed only where nobody but root
and the user we run as could have put it: it is theirs, in a folder of theirs that others can't
write to, and so is each folder above. Below the first folder of anybody else no link is followed.
The last name is never followed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from edgebench.errors import UnsafePathError
from edgebench.identity import rights_of

NO_LINK = os.O_NOFOLLOW | os.O_CLOEXEC
FOLDER_FLAGS = os.O_DIRECTORY | NO_LINK
#: As many links as the kernel itself follows.
_MOST_LINKS = 40
_LINK_REMEDY = "name the folder itself: {target}"


@dataclass(frozen=True)
class OpenFolder:
    """An open folder. ``is_trusted``: only root and we could have put here what lies in it."""

    fd: int
    path: Path
    is_trusted: bool

    @property
    def found(self) -> os.stat_result:
        """Its owner and mode."""
        return os.fstat(self.fd)

    @contextlib.contextmanager
    def rights(self) -> Iterator[None]:
        """The rights of the folder's owner, for as long as it takes to change a name in it."""
        found = self.found
        try:
            with rights_of(found.st_uid, found.st_gid):
                yield
        except OSError as error:
            raise with_path(error, self.path) from None

    def sync(self) -> None:
        """Wait until its list of names is on the disk."""
        with opened(".", FOLDER_FLAGS, self.fd) as fd:
            os.fsync(fd)

    def look(self, name: str) -> os.stat_result | None:
        """What lies there, not followed; None where nothing does."""
        try:
            return os.stat(name, dir_fd=self.fd, follow_symlinks=False)
        except FileNotFoundError:
            return None


@contextlib.contextmanager
def opened(name: str, flags: int, folder: int) -> Iterator[int]:
    """A descriptor to read what lies in the folder of that descriptor; closed at the end."""
    fd = os.open(name, os.O_RDONLY | flags, dir_fd=folder)
    try:
        yield fd
    finally:
        os.close(fd)


def with_path(error: OSError, folder: Path) -> OSError:
    """The error with the whole path: who uses a descriptor names files in it alone."""
    if isinstance(error.filename, str):
        error.filename = str(folder / error.filename)
    return error


@contextlib.contextmanager
def open_folder(path: Path) -> Iterator[OpenFolder]:
    """The folder, opened name by name."""
    top = "/" if path.is_absolute() else "."
    folder = _opened(top, None, Path(top))
    # The last first.
    names = list(reversed(path.parts[1:] if path.is_absolute() else path.parts))
    links = 0
    try:
        while names:
            name = names.pop()
            try:
                below = _opened(name, folder, folder.path / name)
            except NotADirectoryError:
                links += 1
                names += reversed(_target(folder, name, links).parts)
                continue
            except OSError as error:
                raise with_path(error, folder.path) from None
            os.close(folder.fd)
            folder = below
        yield folder
    finally:
        os.close(folder.fd)


def _opened(name: str, parent: OpenFolder | None, path: Path) -> OpenFolder:
    """One folder, not followed; an absolute name starts anew."""
    above = parent if name != "/" else None
    fd = os.open(name, os.O_PATH | FOLDER_FLAGS, dir_fd=above.fd if above else None)
    trusted = is_ours(os.fstat(fd)) and (above is None or above.is_trusted)
    return OpenFolder(fd, path, trusted)


def is_ours(found: os.stat_result) -> bool:
    """Whether only root and we can put names there, or (in ``/tmp``) take ours away."""
    others = stat.S_IWOTH | (stat.S_IWGRP if os.geteuid() == 0 else 0)
    shared = found.st_mode & others and not found.st_mode & stat.S_ISVTX
    return found.st_uid in (0, os.geteuid()) and not shared


def _target(folder: OpenFolder, name: str, links: int) -> Path:
    """Where a link on the way leads that may be followed."""
    path, found = folder.path / name, folder.look(name)
    if found is None or not stat.S_ISLNK(found.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    if links > _MOST_LINKS:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    if not folder.is_trusted or found.st_uid not in (0, os.geteuid()):
        raise UnsafePathError(
            "a link lies on the way, and somebody else could have put it there",
            where=str(path),
            remedy=_LINK_REMEDY.format(target=os.path.realpath(path)),
        )
    return Path(os.readlink(name, dir_fd=folder.fd))
